import fc from "fast-check";
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { FakeClock } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeTimeRedis } from "../support/fake-time-redis.js";
import { RedisLab } from "../support/redis-lab.js";

const KEYS = ["k:1", "k:2"];
const TAGS = ["t:1", "t:2"];
const TIMES = { leaseMs: 3_000, graceMs: 6_000, patienceMs: 1_000_000 };
const WRITERS = ["v".repeat(16), "w".repeat(16)];
const SIGNATURES = ["\0".repeat(8), "s".repeat(8)];
const LOG_RETENTION_MS = 60_000;

/**
 * One step of a schedule. The numbers select the key, tag, writer, or one of the leases granted so
 * far.
 */
type Step = readonly [operation: string, which: number, other: number];

const OPERATIONS = [
  ...[
    "acquire",
    "acquire",
    "acquire",
    "storeValues",
    "storeValues",
    "renew",
    "release",
    "release",
    "invalidate",
    "softInvalidate",
  ],
  ...[
    "beginWrite",
    "endWrite",
    "ensureTags",
    "invalidateTags",
    "beginTagWrite",
    "endTagWrite",
    "readLogPosition",
    "areUnchangedSince",
  ],
  ...["advanceClock", "advanceClock", "advanceClock"],
];
const steps = fc.tuple(fc.constantFrom(...OPERATIONS), fc.nat(63), fc.nat(63));

/**
 * Replaces random ids, such as tokens and tag versions, which differ between two stores, by the
 * order of their first occurrence.
 */
class IdNumbering {
  readonly #numbers = new Map<string, string>();

  of(id: string): string {
    if (id === "" || /^(.)\1*$/.test(id)) return id;
    const number = this.#numbers.get(id) ?? `#${this.#numbers.size}`;
    this.#numbers.set(id, number);
    return number;
  }
}

/**
 * Runs a schedule on a store and returns its results in a form that can be compared with another
 * store's.
 */
class Player {
  readonly #store: Store;
  readonly #ids = new IdNumbering();
  readonly #grants: { key: string; gen: string; token: string; grantedAt: number }[] = [];
  readonly #positions: Awaited<ReturnType<Store["readLogPosition"]>>[] = [];

  constructor(store: Store) {
    this.#store = store;
  }

  async play([operation, which, other]: Step): Promise<unknown> {
    const store = this.#store;
    const key = KEYS[which % KEYS.length] as string;
    const tag = TAGS[which % TAGS.length] as string;
    const writer = WRITERS[other % WRITERS.length] as string;
    const grant = this.#grants[which % Math.max(1, this.#grants.length)];
    const position = this.#positions[which % Math.max(1, this.#positions.length)];
    switch (operation) {
      case "acquire":
        return this.#acquire(key, other);
      case "storeValues":
        return grant === undefined ? "none" : store.storeValues([storeRequestOf(grant, other)]);
      case "renew":
        return grant === undefined ? "none" : store.renew([grant], TIMES);
      case "release":
        return grant === undefined ? "none" : store.release([releaseOf(grant, other)]);
      case "invalidate":
        return store.invalidate([key]);
      case "softInvalidate":
        return store.softInvalidate([key]);
      case "beginWrite":
        return store.beginWrite([key], writer, 2_000 + 1_000 * (other % 3));
      case "endWrite":
        return store.endWrite([key], writer);
      case "beginTagWrite":
        return store.beginWrite([tag], writer, 2_000);
      case "endTagWrite":
        return store.endWrite([tag], writer);
      case "ensureTags":
        return (await store.ensureTags([tag], 1_000_000)).map((version) => this.#version(version));
      case "invalidateTags":
        return store.invalidateTags([tag], LOG_RETENTION_MS);
      case "readLogPosition":
        this.#positions.push(await store.readLogPosition(LOG_RETENTION_MS));
        return "position read";
      default:
        return position === undefined ? "none" : store.areUnchangedSince(position, [tag]);
    }
  }

  /** Returns everything that a reader can see now. */
  async readAll(): Promise<unknown> {
    const { readings, tagVersions } = await this.#store.read(KEYS, TAGS);
    return {
      entries: readings.map((reading) => {
        if (reading.kind === "failed" || reading.entry === undefined) return reading.kind;
        const { state, isNegative, hasRefreshFailed, loadMs, gen, freshUntilAt, grantedAt, signature, body } =
          reading.entry;
        const hasLease = reading.entry.untilAt > reading.now;
        const bodyText = state === "write-in-progress" ? "" : Buffer.from(body).toString("latin1");
        return {
          state,
          isNegative,
          hasRefreshFailed,
          loadMs,
          freshUntilAt,
          grantedAt,
          signature,
          hasLease,
          bodyText,
          gen: this.#ids.of(gen),
        };
      }),
      tagVersions: tagVersions.map((version) => (version === undefined ? "none" : this.#version(version))),
    };
  }

  async #acquire(key: string, other: number): Promise<unknown> {
    const signature = SIGNATURES[other % SIGNATURES.length] as string;
    const supersededAt = other % 5 === 0 ? Number.MAX_SAFE_INTEGER : 0;
    const [grant] = await this.#store.acquire([{ key, signature, supersededAt }], TIMES);
    if (grant?.kind === "granted") {
      const { gen, token, grantedAt, isTakenOver } = grant;
      this.#grants.push({ key, gen, token, grantedAt });
      return { kind: "granted", gen: this.#ids.of(gen), token: this.#ids.of(token), grantedAt, isTakenOver };
    }
    if (grant?.kind === "busy") return { ...grant, gen: this.#ids.of(grant.gen) };
    return grant?.kind;
  }

  #version(version: string): string {
    return version.length === 16 ? this.#ids.of(version) : "write in progress";
  }
}

function storeRequestOf(grant: { key: string; gen: string; grantedAt: number }, other: number) {
  const ttlMs = [undefined, 0, 4_000, 6_000, 8_000][other % 5];
  const { key, gen, grantedAt } = grant;
  const body = Buffer.from(`value ${other}`);
  return { key, gen, grantedAt, loadMs: other, isNegative: other % 2 === 0, freshMs: 1_000 * (other % 6), ttlMs, body };
}

function releaseOf({ key, token }: { key: string; token: string }, other: number) {
  const outcome = (["failed", "uncacheable", "abandoned"] as const)[other % 3] as
    | "failed"
    | "uncacheable"
    | "abandoned";
  return { key, token, outcome, holdMs: 1_000 * (1 + (other % 3)), body: Buffer.from("failure") };
}

describe("the memory store and the Redis scripts", () => {
  const lab = new RedisLab();
  let client: Redis;
  beforeAll(async () => {
    const { host, port } = await lab.standalone();
    client = new Redis(port, host);
  });
  afterAll(async () => {
    await client.quit();
    await lab.stop();
  });

  it("gives the same results and the same entries in both stores after every step of a random schedule", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 1, maxLength: 40 }), async (schedule) => {
        await client.flushall();
        const clock = new FakeClock();
        const fakeTimeClient = new FakeTimeRedis(client, clock);
        const stores = [memoryStore({ clock }), redisStore({ client: fakeTimeClient, clock })];
        const ends = stores.map((store) =>
          store.open({ wakeChannel: "wake", invalidationLog: "log" }, () => undefined),
        );
        const [memory, redis] = stores.map((store) => new Player(store)) as [Player, Player];
        for (const [at, step] of schedule.entries()) {
          if (step[0] === "advanceClock") {
            await clock.advance(500 * (1 + (step[1] % 12)));
            await fakeTimeClient.expire();
          } else expect(await redis.play(step), `step ${at}, ${step}`).toEqual(await memory.play(step));
          expect(await redis.readAll(), `after step ${at}, ${step}`).toEqual(await memory.readAll());
        }
        for (const end of ends) end();
      }),
      { numRuns: 150 },
    );
  });
});
