import { FakeClock } from "@graphql-cached/testing";
import fc from "fast-check";
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { type ClockHead, type ClockOrigin, readHead, type Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readLog, writeRecord } from "../../src/core/store/clock-log.js";
import { FakeTimeRedis } from "../support/fake-time-redis.js";
import { RedisLab } from "../support/redis-lab.js";

const KEYS = ["k:1", "k:2"];
/** What invalidations are of. */
const SUBJECTS = [1, 2, 3];
const TIMES = { leaseMs: 3_000, graceMs: 6_000, patienceMs: 1_000_000 };
/** No schedule passes more. */
const MAX_PASSED_MS = 49_000;
/** Few parts, and longer than a schedule. */

/**
 * One step of a schedule. The numbers select the key, or one of the leases granted so far.
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
    "remove",
    "softInvalidate",
  ],
  ...["appendClock", "appendClock", "appendClock"],
  ...["advanceClock", "advanceClock", "advanceClock", "again", "again", "again"],
];
const steps = fc.tuple(fc.constantFrom(...OPERATIONS), fc.nat(63), fc.nat(63));
/**
 * A load during which something is invalidated, after which its value is read and loaded again. Single steps come up in this
 * order too rarely.
 */
const LOAD_DURING_INVALIDATION: readonly Step[] = [
  ["acquire", 0, 2],
  ["appendClock", 0, 0],
  ["storeValues", 0, 3],
  ["acquire", 0, 2],
];
/** A grant later than the value at its key, by less than a millisecond, whose value arrives when its lifetime is over. */
const LIFETIME_OF_A_LATE_GRANT: Step[] = [
  ["acquire", 0, 0],
  ["storeValues", 0, 3],
  ["acquire", 0, 0],
  ["advanceClock", 11, 0],
  ["storeValues", 1, 38],
];
const MIN_LENGTH = 20;
const MAX_LENGTH = 40;
const schedules = fc
  .array(
    fc.oneof(
      { weight: 15, arbitrary: steps.map((step): readonly Step[] => [step]) },
      { weight: 1, arbitrary: fc.constant(LOAD_DURING_INVALIDATION) },
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
 * Replaces random ids, such as tokens, epochs and positions, which differ between two stores, by the
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

const KINDS = ["hard", "soft", "begin", "end"] as const;

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
  readonly #positions = new IdNumbering();
  /** What a process may know of the clock, in the order of the heads that were seen. */
  readonly #origins: ClockOrigin[] = [];
  /** The calls that may be carried out again. */
  readonly #calls: { readonly run: () => unknown; readonly sent: Sent }[] = [];
  readonly #client: FakeTimeRedis | undefined;

  /** With `client`, the store is on Redis, and its script calls are carried out again literally. */
  constructor(store: Store, client?: FakeTimeRedis) {
    this.#store = store;
    this.#client = client;
  }

  async play(step: Step): Promise<unknown> {
    const [operation, which] = step;
    if (operation === "again") return this.#playAgain(which);
    const from = this.#client?.sent.length ?? 0;
    const run = this.#callOf(step);
    const result = await run();
    // A repeated acquire may return the same grant or `busy`, so it is not comparable.
    if (operation !== "acquire") this.#calls.push({ run, sent: this.#client?.sent.slice(from) ?? [] });
    return operation === "appendClock" ? this.noteHead(result as Buffer) : result;
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
    const grant = this.#grants[which % Math.max(1, this.#grants.length)];
    switch (operation) {
      case "acquire":
        return () => this.#acquire(key, other);
      case "storeValues":
        return () => (grant === undefined ? "none" : store.storeValues([storeRequestOf(grant, other)]));
      case "renew":
        return () => (grant === undefined ? "none" : store.renew([grant], TIMES));
      case "release":
        return () => (grant === undefined ? "none" : store.release([releaseOf(grant, other)]));
      case "remove":
        return () => store.remove([key]);
      case "softInvalidate":
        return () => store.remove([key], { soft: true });
      default:
        return this.#appendClock(which, other);
    }
  }

  #appendClock(which: number, other: number): () => Promise<Buffer> {
    const records = Array.from({ length: other % 3 }, (_, nth) => {
      const kind = KINDS[(which + nth) % KINDS.length] as (typeof KINDS)[number];
      return writeRecord({ kind, subjects: SUBJECTS.slice(0, (other + nth) % 4), writer: "writer 1", guardMs: 1_000 });
    });
    return () => this.#store.appendClock(records);
  }

  /** Remembers a head, and returns what can be compared of it. */
  noteHead(bytes: Buffer): unknown {
    const { epoch, position, beginsAt, endsAt, floor } = readHead(bytes) as ClockHead;
    this.#origins.push({ epoch, position });
    return { epoch: this.#ids.of(epoch), position: this.#at(position), beginsAt, endsAt, floor: this.#at(floor) };
  }

  /** Returns the number of a position: how late it is exactly depends on the store. */
  #at(position: number | undefined): string {
    return position === undefined || position === 0 ? "none" : this.#positions.of(String(position));
  }

  /** Returns everything that a reader can see now. */
  async readAll(): Promise<unknown> {
    const { readings, clock } = await this.#store.read(KEYS);
    const log = readLog(await this.#store.readClock(0));
    return {
      entries: readings.map((reading) => {
        if (reading.kind === "failed" || reading.entry === undefined) return reading.kind;
        const { state, isNegative, hasRefreshFailed, loadMs, gen, freshUntilAt, grantedAt, body } = reading.entry;
        const { epoch, position, leasePosition } = reading.entry;
        const hasLease = reading.entry.untilAt > reading.now;
        return {
          state,
          isNegative,
          hasRefreshFailed,
          loadMs,
          freshUntilAt,
          grantedAt,
          hasLease,
          bodyText: Buffer.from(body).toString("latin1"),
          gen: this.#ids.of(gen),
          epoch: this.#ids.of(epoch),
          position: this.#at(position),
          leasePosition: this.#at(leasePosition),
        };
      }),
      head: this.#at(readHead(clock)?.position),
      records: log?.records.map(({ nonce, position, ...record }) => ({ ...record, position: this.#at(position) })),
    };
  }

  async #acquire(key: string, other: number): Promise<unknown> {
    // A refresh rules out the value that it has found, or all of them.
    const seenAt = this.#grants[other % Math.max(1, this.#grants.length)]?.grantedAt ?? 0;
    const supersededAt = [Number.MAX_SAFE_INTEGER, seenAt, 0, 0, 0][other % 5] as number;
    const endsFreshness = other % 3 === 0;
    const known = this.#origins.at(-1 - (other % 4)) ?? (this.#origins[0] as ClockOrigin);
    const origin = other % 16 === 15 ? { ...known, epoch: "no epoch" } : known;
    const oldestPosition = other % 2 === 0 ? 0 : (this.#origins.at(-1 - (other % 3))?.position ?? 0);
    const request = { key, oldestPosition, supersededAt, endsFreshness };
    const [grant] = await this.#store.acquire([request], TIMES, origin);
    if (grant?.kind === "granted") {
      const { gen, token, grantedAt } = grant;
      this.#grants.push({ key, gen, token, grantedAt });
      const position = this.#at(grant.position);
      return {
        kind: "granted",
        gen: this.#ids.of(gen),
        token: this.#tokens.of(token),
        grantedAt,
        position,
      };
    }
    if (grant?.kind === "busy") return { ...grant, gen: this.#ids.of(grant.gen) };
    return grant?.kind;
  }
}

function storeRequestOf(grant: { key: string; gen: string; grantedAt: number }, other: number) {
  const ttlMs = [undefined, 0, 4_000, 6_000, 8_000][other % 5];
  const { key, gen, grantedAt } = grant;
  const body = Buffer.from(`value ${other}`);
  return { key, gen, grantedAt, loadMs: other, isNegative: other % 2 === 0, freshMs: 1_000 * (other % 6), ttlMs, body };
}

function releaseOf({ key, token }: { key: string; token: string }, other: number) {
  const outcomes = ["failed", "uncacheable", "abandoned", "gone"] as const;
  const outcome = outcomes[other % outcomes.length] as (typeof outcomes)[number];
  return { key, token, outcome, holdMs: 1_000 * (1 + (other % 3)), body: Buffer.from("failure") };
}

describe("the schedules of the differential test", () => {
  it("have 30 steps and more on average, and often invalidate during a load", () => {
    const sample = fc.sample(schedules, { numRuns: 1_000, seed: 1 });
    const averageLength = sample.reduce((total, schedule) => total + schedule.length, 0) / sample.length;
    expect(averageLength).toBeGreaterThan(30);
    expect(sample.filter((schedule) => contains(schedule, LOAD_DURING_INVALIDATION)).length).toBeGreaterThan(500);
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
          store.open({ wakeChannel: "wake", reports: "reports", clock: "clock" }, { wake: () => undefined }),
        );
        const startedAt = clock.now();
        const memory = new Player(stores[0] as Store);
        const redis = new Player(stores[1] as Store, fakeTimeClient);
        expect(redis.noteHead(await (stores[1] as Store).appendClock([]))).toEqual(
          memory.noteHead(await (stores[0] as Store).appendClock([])),
        );
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
      { numRuns: 40, examples: [[LIFETIME_OF_A_LATE_GRANT]] },
    );
  }, 60_000);
});
