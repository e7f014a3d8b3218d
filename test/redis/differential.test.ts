import fc from "fast-check";
import { memoryStore, type Store } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
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

/** One step of a schedule. Numbers choose among what there is: which key, which of the leases granted so far. */
type Step = readonly [name: string, which: number, other: number];

const NAMES = [
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
    "check",
  ],
  ...["pass", "pass", "pass"],
];
const step = fc.tuple(fc.constantFrom(...NAMES), fc.nat(63), fc.nat(63));

/** Random names, such as tokens and tagVersions, differ between two stores; they are compared by the order in which they first came up. */
class Renaming {
  readonly #names = new Map<string, string>();

  of(name: string): string {
    if (name === "" || /^(.)\1*$/.test(name)) return name;
    const known = this.#names.get(name) ?? `#${this.#names.size}`;
    this.#names.set(name, known);
    return known;
  }
}

/** A store that is told a schedule, and what it has answered, with its random names made comparable. */
class Player {
  readonly #store: Store;
  readonly #names = new Renaming();
  readonly #grants: { key: string; gen: string; token: string; grantedAt: number }[] = [];
  readonly #marks: Awaited<ReturnType<Store["readLogPosition"]>>[] = [];

  constructor(store: Store) {
    this.#store = store;
  }

  async play([name, which, other]: Step): Promise<unknown> {
    const store = this.#store;
    const key = KEYS[which % KEYS.length] as string;
    const tag = TAGS[which % TAGS.length] as string;
    const writer = WRITERS[other % WRITERS.length] as string;
    const grant = this.#grants[which % Math.max(1, this.#grants.length)];
    const mark = this.#marks[which % Math.max(1, this.#marks.length)];
    switch (name) {
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
        this.#marks.push(await store.readLogPosition(LOG_RETENTION_MS));
        return "marked";
      default:
        return mark === undefined ? "none" : store.areUnchangedSince(mark, [tag]);
    }
  }

  /** Everything a reader can see, now. */
  async look(): Promise<unknown> {
    const { readings, tagVersions } = await this.#store.read(KEYS, TAGS);
    return {
      entries: readings.map((reading) => {
        if (reading.kind === "failed" || reading.entry === undefined) return reading.kind;
        const { state, isNegative, hasRefreshFailed, loadMs, gen, freshUntilAt, grantedAt, signature, body } =
          reading.entry;
        const hasLease = reading.entry.untilAt > reading.now;
        const shown = state === "write-in-progress" ? "" : Buffer.from(body).toString("latin1");
        return {
          state,
          isNegative,
          hasRefreshFailed,
          loadMs,
          freshUntilAt,
          grantedAt,
          signature,
          hasLease,
          shown,
          gen: this.#names.of(gen),
        };
      }),
      tagVersions: tagVersions.map((version) => (version === undefined ? "none" : this.#version(version))),
    };
  }

  async #acquire(key: string, other: number): Promise<unknown> {
    const signature = SIGNATURES[other % SIGNATURES.length] as string;
    const supersededAt = other % 5 === 0 ? Number.MAX_SAFE_INTEGER : 0;
    const [answer] = await this.#store.acquire([{ key, signature, supersededAt }], TIMES);
    if (answer?.kind === "granted") {
      const { gen, token, grantedAt, isTakenOver } = answer;
      this.#grants.push({ key, gen, token, grantedAt });
      return { kind: "granted", gen: this.#names.of(gen), token: this.#names.of(token), grantedAt, isTakenOver };
    }
    if (answer?.kind === "busy") return { ...answer, gen: this.#names.of(answer.gen) };
    return answer?.kind;
  }

  #version(version: string): string {
    return version.length === 16 ? this.#names.of(version) : "writeMark";
  }
}

function storeRequestOf(grant: { key: string; gen: string; grantedAt: number }, other: number) {
  const ttlMs = other % 4 === 0 ? undefined : 4_000 + 2_000 * (other % 3);
  const { key, gen, grantedAt } = grant;
  const body = Buffer.from(`value ${other}`);
  return { key, gen, grantedAt, loadMs: other, isNegative: other % 2 === 0, freshMs: 1_000 * (other % 6), ttlMs, body };
}

function releaseOf({ key, token }: { key: string; token: string }, other: number) {
  const outcome = (["failed", "uncacheable", "abandoned"] as const)[other % 3] as
    | "failed"
    | "uncacheable"
    | "abandoned";
  return { key, token, outcome, holdMs: 1_000 * (1 + (other % 3)), body: Buffer.from("why") };
}

describe("the state table", () => {
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

  it("is the same in memory and in the scripts of Redis: random schedules are answered alike, step by step", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (schedule) => {
        await client.flushall();
        const clock = new FakeClock();
        const warped = new FakeTimeRedis(client, clock);
        const stores = [memoryStore({ clock }), redisStore({ client: warped, clock })];
        const ends = stores.map((store) =>
          store.open({ wakeChannel: "wakeChannel", invalidationLog: "recent" }, () => undefined),
        );
        const [memory, redis] = stores.map((store) => new Player(store)) as [Player, Player];
        for (const [at, one] of schedule.entries()) {
          if (one[0] === "pass") {
            await clock.advance(500 * (1 + (one[1] % 12)));
            await warped.expire();
          } else expect(await redis.play(one), `step ${at}, ${one}`).toEqual(await memory.play(one));
          expect(await redis.look(), `after step ${at}, ${one}`).toEqual(await memory.look());
        }
        for (const end of ends) end();
      }),
      { numRuns: 150 },
    );
  });
});
