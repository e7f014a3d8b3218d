import fc from "fast-check";
import { redisStore } from "graphql-cached/redis";
import { type ClockHead, readHead, type Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  appendToClock,
  HEAD_BYTES,
  type ReadRecord,
  readLog,
  type StoredClock,
  writeRecord,
} from "../../src/core/store/clock-log.js";
import { MAX_LOG_BYTES } from "../../src/stores/redis/define-script.js";
import { appendClock } from "../../src/stores/redis/scripts/append-clock.js";
import { originOf } from "../support/clock-origin.js";
import { isConnected, PACKAGES, type StoreClient } from "../support/redis-clients.js";
import { RedisLab, until } from "../support/redis-lab.js";

const lab = new RedisLab();
let client: Redis;
/** The clients of the stores, by the name of their package. */
const storeClients = new Map<string, StoreClient>();
beforeAll(async () => {
  const { host, port } = await lab.standalone();
  client = new Redis(port, host);
  for (const { name, server } of PACKAGES) storeClients.set(name, server({ host, port }));
  await until("all are connected", () => [...storeClients.values()].every(isConnected));
});
beforeEach(() => client.flushall());
afterAll(async () => {
  await client.quit();
  for (const storeClient of storeClients.values()) storeClient.disconnect();
  await lab.stop();
});

const hard = (...subjects: number[]): Buffer => writeRecord({ kind: "hard", subjects });
const NAMES = { wakeChannel: "wake", reports: "reports", clock: "clock" };
const LOG = "clock:log";

function open(name = "ioredis"): Store {
  const store = redisStore({ client: storeClients.get(name) as StoreClient });
  store.open(NAMES, { wake: () => undefined });
  return store;
}

/** What may become of the two keys of the clock. */
const DAMAGES: Readonly<Record<string, (key: string) => Promise<unknown>>> = {
  "is deleted": (key) => client.del(key),
  "becomes garbage": (key) => client.set(key, "garbage"),
  "becomes as many zeros": async (key) => client.set(key, Buffer.alloc(await client.strlen(key))),
  "becomes a list": async (key) => {
    await client.del(key);
    await client.rpush(key, "garbage");
  },
  "loses its last byte": async (key) => client.set(key, ((await client.getBuffer(key)) as Buffer).subarray(0, -1)),
};

describe.each(PACKAGES)("the invalidation clock in Redis, with a client of $name", ({ name }) => {
  for (const [damage, run] of Object.entries(DAMAGES))
    for (const key of ["clock", LOG])
      it(`begins another epoch with the next invalidation, under which nothing older counts, if the ${key === LOG ? "log" : "head"} ${damage}`, async () => {
        const store = open(name);
        const before = await originOf(store);
        await run(key);
        const head = readHead(await store.appendClock([hard(1)]));
        expect(head?.epoch).not.toBe(before.epoch);
        expect(head?.floor).toBeGreaterThan(before.position);
        expect(readHead((await store.read(["k"])).clock)).toEqual(head);
        expect(readLog(await store.readClock(0))).toMatchObject({
          epoch: head?.epoch,
          records: [{ kind: "epoch" }, { kind: "hard", subjects: [1], position: head?.position }],
        });
        expect(await originOf(store)).toEqual({ epoch: head?.epoch, position: head?.position });
      });

  for (const [damage, run] of Object.entries(DAMAGES))
    it(`shows no head to a reader, and grants no lease, if the head ${damage}`, async () => {
      const store = open(name);
      const origin = await originOf(store);
      await run("clock");
      expect(readHead((await store.read(["k"])).clock)).toBeUndefined();
      if (damage === "loses its last byte") return;
      const request = { key: "k", oldestPosition: 0, supersededAt: 0 };
      const times = { leaseMs: 1_000, graceMs: 1_000, patienceMs: 10_000 };
      expect(await store.acquire([request], times, origin)).toEqual([{ kind: "expired" }]);
    });

  it("never goes back in an epoch although the server's clock does, and shows no position that cannot grow", async () => {
    const store = open(name);
    const before = readHead(await store.appendClock([hard(1)])) as ClockHead;
    const ahead = before.position + 3_600_000_000;
    const bytes = (await client.getBuffer("clock")) as Buffer;
    bytes.writeDoubleLE(ahead, 16);
    await client.set("clock", bytes);
    expect(readHead(await store.appendClock([hard(2), hard(3)]))).toMatchObject({
      epoch: before.epoch,
      position: ahead + 2,
    });
    for (const position of [
      2 ** 53 - 1,
      before.position + 2 * 86_400_000_000,
      2 ** 53,
      Number.POSITIVE_INFINITY,
      Number.NaN,
    ]) {
      bytes.writeDoubleLE(position, 16);
      await client.set("clock", bytes);
      const after = readHead(await store.appendClock([hard(4)]));
      expect(after?.epoch).not.toBe(before.epoch);
      expect(after?.position).toBeLessThan(ahead);
    }
  });

  it("begins another epoch for a log that no invalidations can have written, although its head agrees", async () => {
    const store = open(name);
    for (const [length, cutAt] of [
      [50_000_000, 0],
      [4_800, 1e300],
      [4_800, Number.NaN],
    ] as const) {
      const before = readHead(await store.appendClock([hard(1)])) as ClockHead;
      const head = (await client.getBuffer("clock")) as Buffer;
      const log = Buffer.concat([((await client.getBuffer(LOG)) as Buffer).subarray(0, 48), Buffer.alloc(length - 48)]);
      log.writeDoubleLE(cutAt, 32);
      head.writeDoubleLE(0, 32);
      head.writeDoubleLE(length - 48, 40);
      await client.mset("clock", head, LOG, log);
      const after = readHead(await store.appendClock([hard(2)])) as ClockHead;
      expect(after.epoch).not.toBe(before.epoch);
      expect(await client.strlen(LOG)).toBeLessThan(1_000);
      expect(readLog(await store.readClock(0))?.records).toMatchObject([{ kind: "epoch" }, { subjects: [2] }]);
    }
  });

  it("does not read more of a log than one can have", async () => {
    await client.set(LOG, Buffer.alloc(50_000_000));
    expect((await open(name).readClock(0))?.length).toBeLessThan(7_000_000);
  });

  it("has no expiry", async () => {
    await open(name).appendClock([hard(1)]);
    expect([await client.ttl("clock"), await client.ttl(LOG)]).toEqual([-1, -1]);
  });

  it("grants a lease under the epoch of its head only, and at no later position than it shows", async () => {
    const store = open(name);
    const origin = await originOf(store);
    const request = { key: "k", oldestPosition: 0, supersededAt: 0 };
    const times = { leaseMs: 1_000, graceMs: 1_000, patienceMs: 10_000 };
    expect(await store.acquire([request], times, { ...origin, epoch: "no epoch" })).toEqual([{ kind: "expired" }]);
    expect(await client.exists("k")).toBe(0);
    const later = { ...origin, position: origin.position + 1_000_000 };
    expect(await store.acquire([request], times, later)).toMatchObject([
      { kind: "granted", position: origin.position },
    ]);
  });
});

describe.each(PACKAGES)("a Redis without free memory, with a client of $name", ({ name }) => {
  beforeEach(() => client.config("SET", "maxmemory-policy", "noeviction"));
  const refuseWrites = () => client.config("SET", "maxmemory", "1");
  const allowWrites = () => client.config("SET", "maxmemory", "0");

  it("takes invalidations, also the one that begins the clock and those that drop the older half of the log", async () => {
    const store = open(name);
    await refuseWrites();
    try {
      await expect(client.set("other", "x")).rejects.toThrow("OOM");
      const heads = [readHead(await store.appendClock([hard(1)])) as ClockHead];
      const subjects = Array.from({ length: 10_000 }, (_, nth) => nth);
      while ((heads.at(-1)?.beginsAt ?? 0) === 0 && heads.length < 200)
        heads.push(readHead(await store.appendClock([hard(...subjects)])) as ClockHead);
      expect(heads.at(-1)?.beginsAt).toBeGreaterThan(0);
      expect(new Set(heads.map(({ epoch }) => epoch)).size).toBe(1);
      expect(readLog(await store.readClock(0))?.records.at(-1)?.nonce).toBe(heads.at(-1)?.nonce);
      await client.del("clock");
      expect(readHead(await store.appendClock([hard(2)]))?.epoch).not.toBe(heads[0]?.epoch);
    } finally {
      await allowWrites();
    }
  });
});

/** A step of a schedule: the sizes of the records of one call, by how much the clock moves, and what is damaged before. */
type Step = readonly [sizes: readonly number[], passedMicros: number, damage: string];

/** The clock as Lua and as TypeScript append to it, from the same state and at the same time. */
class Twins {
  #micros = 1_000_000_000;
  #calls = 0;
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  async play([sizes, passedMicros, damage]: Step): Promise<void> {
    this.#micros += passedMicros;
    const [which = "", how = ""] = damage.split(" ");
    if (which !== "") await this.#damage(which === "head" ? "clock" : LOG, how);
    const before = await this.#stored();
    const records = sizes.map((size) => hard(...Array.from({ length: size }, (_, nth) => nth)));
    const expected = appendToClock(before, records, this.#micros, this.#maxBytes);
    const head = await this.#runScript(records);
    const after = (await this.#stored()) as StoredClock;
    expect(head).toEqual(after.head);
    const epochOf = (clock: StoredClock | undefined) => readHead(clock?.head)?.epoch;
    if (epochOf(before) === epochOf(expected)) expect(after).toEqual(expected);
    else {
      // The ids of the new epoch are random.
      expect(epochOf(after)).not.toBe(epochOf(before));
      expect(comparable(after)).toEqual(comparable(expected));
    }
  }

  async #stored(): Promise<StoredClock | undefined> {
    const bytesAt = async (key: string) =>
      (await client.type(key)) === "string" ? ((await client.getBuffer(key)) as Buffer) : Buffer.alloc(0);
    const [head, log] = [await bytesAt("clock"), await bytesAt(LOG)];
    return head.length === 0 && log.length === 0 ? undefined : { head, log };
  }

  async #runScript(records: readonly Buffer[]): Promise<Buffer> {
    const seconds = Math.floor(this.#micros / 1_000_000);
    const lua = appendClock.lua
      .replace("redis.call('TIME')", `{ ${seconds}, ${this.#micros % 1_000_000} }`)
      .replaceAll(String(MAX_LOG_BYTES / 2), String(this.#maxBytes / 2))
      .replaceAll(String(MAX_LOG_BYTES), String(this.#maxBytes));
    const args = appendClock.argumentsFor(
      ["clock", LOG],
      // Each call has an id of its own, as a store gives it: a new epoch consists of it and the time, which may stand still.
      { callerId: `${String(this.#calls++).padStart(4, "0")}call`, after: 0, channel: "clock", lostEpoch: "" },
      records,
    );
    return (await client.callBuffer("EVAL", lua, ...args)) as Buffer;
  }

  async #damage(key: string, how: string): Promise<void> {
    if (how === "lost") await client.del(key);
    else if (how === "list") {
      await client.del(key);
      await client.rpush(key, "garbage");
    } else if (how === "cut") await client.set(key, ((await client.getBuffer(key)) ?? Buffer.alloc(0)).subarray(0, -8));
    else if (how === "zeros") await client.set(key, Buffer.alloc(Math.max(HEAD_BYTES, await client.strlen(key))));
    else {
      const bytes = Buffer.from((await client.getBuffer(key).catch(() => null)) ?? Buffer.alloc(HEAD_BYTES));
      if (bytes.length >= 24) bytes.writeDoubleLE(how === "nan" ? Number.NaN : 2 ** 60, 16);
      await client.del(key);
      await client.set(key, bytes);
    }
  }
}

/** Returns a clock without its random ids. */
function comparable({ head, log }: StoredClock): unknown {
  const { epoch, nonce, ...rest } = readHead(head) as ClockHead;
  const {
    epoch: epochOfLog,
    records,
    ...restOfLog
  } = readLog(log) ?? { records: [] as readonly ReadRecord[], epoch: "" };
  expect(epochOfLog).toBe(epoch);
  expect(records.at(-1)?.nonce).toBe(nonce);
  return { rest, restOfLog, records: records.map(({ nonce: _, ...record }) => record) };
}

describe("the script append-clock", () => {
  const damages = ["lost", "cut", "zeros", "nan", "huge"].flatMap((how) => [`head ${how}`, `log ${how}`]);
  const steps: fc.Arbitrary<Step> = fc.tuple(
    fc.array(fc.oneof(fc.nat(5), fc.nat(120)), { maxLength: 4 }),
    fc.integer({ min: -1_000, max: 5_000 }),
    fc.oneof({ weight: 9, arbitrary: fc.constant("") }, { weight: 1, arbitrary: fc.constantFrom(...damages) }),
  );

  it("leaves the same bytes as appendToClock after every call of a random schedule, damaged keys included", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 10, maxLength: 40 }), async (schedule) => {
        await client.flushall();
        const twins = new Twins(2_000);
        for (const step of schedule) await twins.play(step);
      }),
      {
        numRuns: 60,
        examples: [
          [
            [
              [[], 0, "head list"],
              [[1], 1, "log list"],
            ],
          ],
          [
            [
              [[], 0, "head lost"],
              [[], 0, "log cut"],
            ],
          ],
        ],
      },
    );
  });
});
