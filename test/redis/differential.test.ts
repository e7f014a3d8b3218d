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
const SIGNATURES = ["\0".repeat(8), "s".repeat(8)];
/** The settings of two processes, whose calls alternate. */
const LOG_RETENTIONS_MS = [60_000, 5_000];
/** A log of Redis that is not used expires after ten times its retention; that of the memory store never does. */
const MAX_PASSED_MS = 49_000;
/** Few parts, and longer than a schedule. */
const HISTORY_LIMITS = { maxBytes: 1_000, keepMs: 60_000 };
/** How long after it was sent a begin-write is carried out at the latest. */
const BEGIN_PATIENCE_MS = 5_000;

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
    "appendHistory",
  ],
  ...["advanceClock", "advanceClock", "advanceClock", "again", "again", "again"],
];
const steps = fc.tuple(fc.constantFrom(...OPERATIONS), fc.nat(63), fc.nat(63));
/**
 * A load whose result has two tags, and an invalidation of each of them. Single steps come up in this
 * order too rarely.
 */
const LOAD_WITH_TAGS: readonly Step[] = [
  ["readLogPosition", 0, 0],
  ["invalidateTags", 0, 1],
  ["invalidateTags", 1, 1],
  ["areUnchangedSince", 0, 0],
];
/** Two writes of one key, of which the shorter is over before the other ends. */
const WRITE_OUTLASTS_ANOTHER: readonly Step[] = [
  ["beginWrite", 1, 1],
  ["beginWrite", 1, 0],
  ["advanceClock", 3, 0],
  ["endWrite", 1, 0],
];
const MIN_LENGTH = 20;
const MAX_LENGTH = 40;
const schedules = fc
  .array(
    fc.oneof(
      { weight: 15, arbitrary: steps.map((step): readonly Step[] => [step]) },
      { weight: 1, arbitrary: fc.constant(LOAD_WITH_TAGS) },
    ),
    { minLength: MIN_LENGTH, maxLength: MAX_LENGTH, size: "max" },
  )
  .map((parts) => parts.flat());

/** Returns whether the schedule has the operations of `part` in this order, with any others between them. */
function contains(schedule: readonly Step[], part: readonly Step[]): boolean {
  let at = 0;
  for (const [operation] of schedule) if (operation === part[at]?.[0]) at++;
  return at === part.length;
}

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

/** The script calls that one call has made. */
type Sent = FakeTimeRedis["sent"];

/**
 * Runs a schedule on a store and returns its results in a form that can be compared with another
 * store's.
 */
class Player {
  readonly #store: Store;
  readonly #ids = new IdNumbering();
  /** Numbered apart from lease chains: a store may use the first token of a chain as its id. */
  readonly #tokens = new IdNumbering();
  readonly #grants: { key: string; gen: string; token: string; grantedAt: number }[] = [];
  readonly #positions: Awaited<ReturnType<Store["readLogPosition"]>>[] = [];
  /** The writers that have begun, in order. */
  readonly #writers: string[] = [];
  readonly #endedWriters = new Set<string>();
  /** The calls that may be carried out again. */
  readonly #calls: { readonly run: () => unknown; readonly sent: Sent }[] = [];
  readonly #clock: FakeClock;
  #appendedAt: number | undefined;
  readonly #client: FakeTimeRedis | undefined;

  /** With `client`, the store is on Redis, and its script calls are carried out again literally. */
  constructor(store: Store, clock: FakeClock, client?: FakeTimeRedis) {
    this.#store = store;
    this.#clock = clock;
    this.#client = client;
  }

  async play(step: Step): Promise<unknown> {
    const [operation, which] = step;
    if (operation === "again") return this.#playAgain(which);
    const from = this.#client?.sent.length ?? 0;
    const run = this.#callOf(step);
    const result = await run();
    // A repeated acquire may return the same grant or `busy`, so it is not comparable. A repeated
    // readLogPosition would only add a position.
    if (operation !== "acquire" && operation !== "readLogPosition")
      this.#calls.push({ run, sent: this.#client?.sent.slice(from) ?? [] });
    return result;
  }

  /**
   * Carries out a call once more, at a later time. What must do no harm on Redis is compared with
   * another call of the memory store, which has no client that could resend.
   */
  async #playAgain(which: number): Promise<unknown> {
    const call = this.#calls[which % Math.max(1, this.#calls.length)];
    if (call === undefined) return "none";
    if (this.#client === undefined) await call.run();
    else await this.#client.resend(call.sent);
    return "again";
  }

  /** Returns the call that a step makes, with all its arguments chosen now. */
  #callOf([operation, which, other]: Step): () => unknown {
    const store = this.#store;
    const key = KEYS[which % KEYS.length] as string;
    const tag = TAGS[which % TAGS.length] as string;
    const writer = this.#writers[other % Math.max(1, this.#writers.length)];
    const logRetentionMs = LOG_RETENTIONS_MS[other % LOG_RETENTIONS_MS.length] as number;
    const grant = this.#grants[which % Math.max(1, this.#grants.length)];
    const position = this.#positions[which % Math.max(1, this.#positions.length)];
    switch (operation) {
      case "acquire":
        return () => this.#acquire(key, other);
      case "storeValues":
        return () => (grant === undefined ? "none" : store.storeValues([storeRequestOf(grant, other)]));
      case "renew":
        return () => (grant === undefined ? "none" : store.renew([grant], TIMES));
      case "release":
        return () => (grant === undefined ? "none" : store.release([releaseOf(grant, other)]));
      case "invalidate":
        return () => store.invalidate([key]);
      case "softInvalidate":
        return () => store.softInvalidate([key]);
      case "beginWrite":
        return this.#beginWrite(key, 2_000 + 1_000 * (other % 3));
      case "beginTagWrite":
        return this.#beginWrite(tag, 2_000);
      case "endWrite":
        return () => this.#endWrite(key, writer);
      case "endTagWrite":
        return () => this.#endWrite(tag, writer);
      case "ensureTags":
        return async () => (await store.ensureTags([tag], 1_000_000)).map((version) => this.#version(version));
      case "invalidateTags":
        return () => store.invalidateTags([tag], logRetentionMs);
      case "readLogPosition":
        return async () => {
          this.#positions.push(await store.readLogPosition(store.invalidationLogs(), logRetentionMs));
          return "position read";
        };
      case "appendHistory":
        return () => this.#appendHistory(`part ${which} `.padEnd(20 * (other % 20), "x"));
      default:
        return () => (position === undefined ? "none" : store.areUnchangedSince(position, [tag]));
    }
  }

  /** Returns the history without the time at which it began, which a store may know or not. */
  async #appendHistory(text: string): Promise<unknown> {
    await this.#store.appendHistory?.(Buffer.from(text), HISTORY_LIMITS);
    this.#appendedAt ??= this.#clock.now();
    const history = await this.#store.readHistory?.();
    return {
      since: Math.max(this.#appendedAt, history?.since ?? 0),
      parts: history?.parts.map(({ at, content }) => [at, Buffer.from(content).toString()]),
    };
  }

  #beginWrite(name: string, writeGuardMs: number): () => unknown {
    const writer = String(this.#writers.length).padStart(16, "w");
    const latestAt = this.#clock.now() + BEGIN_PATIENCE_MS;
    this.#writers.push(writer);
    return () => {
      if (this.#endedWriters.has(`${name} ${writer}`) || this.#clock.now() > latestAt) return undefined;
      return this.#store.beginWrite([name], writer, writeGuardMs);
    };
  }

  #endWrite(name: string, writer: string | undefined): unknown {
    if (writer === undefined) return "none";
    this.#endedWriters.add(`${name} ${writer}`);
    return this.#store.endWrite([name], writer);
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
    // A refresh rules out the value that it has found, or all of them.
    const seenAt = this.#grants[other % Math.max(1, this.#grants.length)]?.grantedAt ?? 0;
    const supersededAt = [Number.MAX_SAFE_INTEGER, seenAt, 0, 0, 0][other % 5] as number;
    const endsFreshness = other % 3 === 0;
    const [grant] = await this.#store.acquire([{ key, signature, supersededAt, endsFreshness }], TIMES);
    if (grant?.kind === "granted") {
      const { gen, token, grantedAt, isTakenOver } = grant;
      this.#grants.push({ key, gen, token, grantedAt });
      return { kind: "granted", gen: this.#ids.of(gen), token: this.#tokens.of(token), grantedAt, isTakenOver };
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
  const body = other % 7 === 0 ? undefined : Buffer.from(`value ${other}`);
  return { key, gen, grantedAt, loadMs: other, isNegative: other % 2 === 0, freshMs: 1_000 * (other % 6), ttlMs, body };
}

function releaseOf({ key, token }: { key: string; token: string }, other: number) {
  const outcomes = ["failed", "uncacheable", "abandoned", "gone"] as const;
  const outcome = outcomes[other % outcomes.length] as (typeof outcomes)[number];
  return { key, token, outcome, holdMs: 1_000 * (1 + (other % 3)), body: Buffer.from("failure") };
}

describe("the schedules of the differential test", () => {
  it("have 30 steps and more on average, and often invalidate two tags during a load", () => {
    const sample = fc.sample(schedules, { numRuns: 1_000, seed: 1 });
    const averageLength = sample.reduce((total, schedule) => total + schedule.length, 0) / sample.length;
    expect(averageLength).toBeGreaterThan(30);
    expect(sample.filter((schedule) => contains(schedule, LOAD_WITH_TAGS)).length).toBeGreaterThan(500);
  });
});

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
      fc.asyncProperty(schedules, async (schedule) => {
        await client.flushall();
        const clock = new FakeClock();
        const fakeTimeClient = new FakeTimeRedis(client, clock);
        const stores = [memoryStore({ clock }), redisStore({ client: fakeTimeClient, clock })];
        const ends = stores.map((store) =>
          store.open({ wakeChannel: "wake", invalidationLog: "log", controlRecord: "control" }, () => undefined),
        );
        const startedAt = clock.now();
        const memory = new Player(stores[0] as Store, clock);
        const redis = new Player(stores[1] as Store, clock, fakeTimeClient);
        for (const [at, step] of schedule.entries()) {
          if (step[0] === "advanceClock") {
            const leftMs = startedAt + MAX_PASSED_MS - clock.now();
            await clock.advance(Math.min(500 * (1 + (step[1] % 12)), leftMs));
            await fakeTimeClient.expire();
          } else expect(await redis.play(step), `step ${at}, ${step}`).toEqual(await memory.play(step));
          expect(await redis.readAll(), `after step ${at}, ${step}`).toEqual(await memory.readAll());
        }
        for (const end of ends) end();
      }),
      { numRuns: 40, examples: [[WRITE_OUTLASTS_ANOTHER]] },
    );
  }, 60_000);
});
