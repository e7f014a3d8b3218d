import { randomUUID } from "node:crypto";
import { type BloomGuard, bloomGuard } from "@graphql-cached/redis-bloom";
import { FakeClock, gate } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { until } from "../../../test/support/redis-lab.js";
import { sharedServer } from "../../../test/support/shared-servers.js";
import { memoryWorld } from "../../../test/support/world.js";

const client = new Redis(await sharedServer("redisStandalone"));
afterAll(() => client.quit());

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, nth) => from + nth);
const areAllTrue = (values: readonly boolean[]): boolean => values.every(Boolean);

describe("bloomGuard", () => {
  let prefix: string;
  beforeEach(() => {
    prefix = `bloom-${randomUUID()}`;
  });
  const guardOf = (more: object = {}): BloomGuard<number> =>
    bloomGuard<number>({
      client,
      name: "Movie",
      prefix,
      capacity: 5_000,
      falsePositiveRatio: 0.02,
      timeoutMs: 10_000,
      ...more,
    });

  it("recognizes every added id in all processes, with the configured ratio of false positives", async () => {
    const guard = guardOf();
    expect(await guard.rebuild(range(0, 5_000))).toBe(5_000);
    const other = guardOf();
    expect(areAllTrue(await other.has(range(0, 5_000)))).toBe(true);
    const falsePositiveRatio = (await other.has(range(100_000, 110_000))).filter(Boolean).length / 10_000;
    expect(falsePositiveRatio).toBeGreaterThan(0.01);
    expect(falsePositiveRatio).toBeLessThan(0.03);
    const [filter] = await client.keys(`${prefix}:*`);
    expect(await client.strlen(filter as string)).toBe(Math.ceil(40_712 / 8));
    expect(await client.pttl(filter as string)).toBe(-1);
  });

  it("knows an id in every type that a database or a client may give it", async () => {
    const guard = bloomGuard<number | string | bigint>({
      client,
      name: "Movie",
      prefix,
      capacity: 100,
      timeoutMs: 10_000,
    });
    await guard.rebuild([7, "8", 9n]);
    expect(await guard.has([7, "7", 7n])).toEqual([true, true, true]);
    expect(await guard.has([8, "8", 8n])).toEqual([true, true, true]);
    expect(await guard.has([9, "9", 9n])).toEqual([true, true, true]);
    expect(await guard.has([10, "10", "07"])).toEqual([false, false, false]);
  });

  it("refuses what is not an id, and never says that it does not exist", async () => {
    const guard = bloomGuard<string>({ client, name: "Movie", prefix, capacity: 100, timeoutMs: 10_000 });
    await guard.rebuild(["7"]);
    const rows = [{ id: "8" }] as never;
    const expected = {
      code: "CACHED_OPTION_INVALID",
      message: "bloomGuard `Movie`: expected ids that are strings, numbers or bigints, got an object",
    };
    await expect(guard.add(rows)).rejects.toMatchObject(expected);
    await expect(guard.rebuild(rows)).rejects.toMatchObject(expected);
    expect(await guard.has(["7", "8"])).toEqual([true, false]);
    expect(await guard.has([undefined, { id: "8" }, "8"] as never)).toEqual([true, true, false]);
  });

  it("returns true for every id until a filter has been built", async () => {
    const guard = guardOf();
    await guard.add([7]);
    expect(await guard.has([7, 8])).toEqual([true, true]);
    expect(await client.keys(`${prefix}:*`)).toEqual([]);
  });

  it("adds new ids one by one", async () => {
    const guard = guardOf();
    await guard.rebuild([1]);
    expect(await guard.has([1, 2])).toEqual([true, false]);
    await guard.add([2]);
    expect(await guard.has([1, 2])).toEqual([true, true]);
  });

  it("serves the old filter during a rebuild and adds new ids to both filters", async () => {
    const guard = guardOf();
    await guard.rebuild([1, 2]);
    const loadGate = gate();
    async function* rows(): AsyncGenerator<number> {
      yield 1;
      await loadGate.passed;
      yield 3;
    }
    const rebuilt = guard.rebuild(rows());
    await until("the rebuild has begun", async () => (await client.keys(`${prefix}:*:building`)).length === 1);
    expect(await guard.has([1, 2, 3])).toEqual([true, true, false]);
    await guard.add([4]);
    expect(await guard.has([4])).toEqual([true]);
    loadGate.open();
    expect(await rebuilt).toBe(2);
    expect(await guard.has([1, 2, 3, 4])).toEqual([true, false, true, true]);
    expect(await client.keys(`${prefix}:*`)).toHaveLength(1);
  });

  it("keeps the old filter if the stream of ids fails, and can be rebuilt at once", async () => {
    const guard = guardOf();
    await guard.rebuild([1]);
    async function* rows(): AsyncGenerator<number> {
      yield 2;
      throw new Error("the database is down");
    }
    await expect(guard.rebuild(rows())).rejects.toThrow("the database is down");
    expect(await guard.has([1, 2])).toEqual([true, false]);
    expect(await guard.rebuild([2])).toBe(1);
  });

  it("allows one rebuild at a time and never uses a partial filter", async () => {
    const guard = guardOf();
    const loadGate = gate();
    async function* rows(): AsyncGenerator<number> {
      yield 1;
      await loadGate.passed;
    }
    const first = guard.rebuild(rows());
    await until("the rebuild has begun", async () => (await client.keys(`${prefix}:*:lock`)).length === 1);
    await expect(guardOf().rebuild([2])).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
      message: "bloomGuard `Movie`: another process is rebuilding it; try again later",
    });
    await client.del(...(await client.keys(`${prefix}:*:building`)));
    loadGate.open();
    await expect(first).rejects.toThrow("the filter under construction was lost");
    expect(await guard.has([9])).toEqual([true]);
  });

  it("does not use a filter of which a failover has lost a part", async () => {
    const guard = guardOf();
    const gates = [gate(), gate()] as const;
    async function* rows(): AsyncGenerator<number> {
      for (const [nth, { passed }] of gates.entries()) {
        yield* range(100 * nth, 100 * (nth + 1));
        await passed;
      }
      yield 200;
    }
    const rebuilt = guard.rebuild(rows());
    rebuilt.catch(() => undefined);
    const bits = async (): Promise<number> => {
      const [building] = await client.keys(`${prefix}:*:building`);
      return building === undefined ? 0 : client.bitcount(building);
    };
    await until("the first ids are added", async () => (await bits()) > 0);
    // What a replica has that lags behind by a step.
    const names = await client.keys(`${prefix}:*`);
    const replica = await Promise.all(
      names.map(async (name) => [name, (await client.dumpBuffer(name)) as Buffer] as const),
    );
    const before = await bits();
    gates[0].open();
    await until("the next ids are added", async () => (await bits()) > before);
    for (const [name, dump] of replica) await client.restore(name, 60_000, dump, "REPLACE");
    gates[1].open();
    await expect(rebuilt).rejects.toThrow("the filter under construction was lost");
    expect(await client.keys(`${prefix}:*`)).toEqual([]);
    expect(await guard.has([150])).toEqual([true]);
  });

  it("returns true if the filter was evicted, and if Redis does not reply in time", async () => {
    const guard = guardOf();
    await guard.rebuild([1]);
    await client.del(...(await client.keys(`${prefix}:*`)));
    expect(await guard.has([2])).toEqual([true]);

    const clock = new FakeClock();
    const hanging = { callBuffer: () => hanging, exec: () => new Promise(() => undefined) };
    const frozen = guardOf({ client: { ...hanging, pipeline: () => hanging, duplicate: () => undefined }, clock });
    const result = frozen.has([1, 2]);
    await clock.advance(101);
    expect(await result).toEqual([true, true]);
    const unreachable = new Redis(1, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null });
    unreachable.on("error", () => undefined);
    expect(await guardOf({ client: unreachable }).has([1])).toEqual([true]);
  });

  it("keeps its keys in one slot of a Cluster", async () => {
    const cluster = new Cluster([...(await sharedServer("redisCluster"))]);
    const guard = guardOf({ client: cluster });
    await guard.rebuild([1]);
    await guard.add([2]);
    expect(await guard.has([1, 2, 3])).toEqual([true, true, false]);
    await cluster.quit();
  });

  it("refuses invalid options and lists all of them", () => {
    const messageFor = (options: object): unknown => {
      try {
        return bloomGuard(options as never);
      } catch (error) {
        return (error as Error).message;
      }
    };
    expect(messageFor({ client: {}, name: "a b", capacity: 0, falsePositiveRatio: 1, timeoutMs: 2 ** 31 })).toBe(
      "bloomGuard: `prefix`: expected a name for this application, of letters, digits and any of _ . : -, got undefined; " +
        '`name`: expected letters, digits and _, got "a b"; ' +
        "`capacity`: expected an integer of at least 1, got 0; `falsePositiveRatio`: expected a number between 0 and 1, both excluded, got 1; " +
        "`timeoutMs`: expected an integer from 1 to 2147483647 (milliseconds), got 2147483648",
    );
    expect(messageFor({ client: {}, name: "Movie", prefix, capacity: 1 })).toBe(
      "bloomGuard: `client`: expected an ioredis, iovalkey or node-redis client, got an object; pass `new Redis(url)` of ioredis or `await createClient({ url }).connect()` of node-redis",
    );
    expect(messageFor({ client, name: "Movie", prefix, capacity: 1e9 })).toBe(
      "bloomGuard: expected a filter of at most 512 MB, the maximum length of a Redis string, got a larger one; " +
        "lower `capacity` or raise `falsePositiveRatio`",
    );
  });
});

describe("A loader with an existence guard", () => {
  function loaderWith(has: (ids: readonly number[]) => Promise<readonly boolean[]>) {
    const checked: (readonly number[])[] = [];
    const loaded: (readonly number[])[] = [];
    const { cache, events } = memoryWorld(() => memoryStore()).process("type Query { a: Int }", {});
    const loader = cache.loader<number, string | null, object>({
      name: "Movie",
      maxAge: 60,
      exists: { has: (ids) => (checked.push(ids), has(ids)) },
      batch: async (ids) => (loaded.push(ids), ids.map((id) => (id < 10 ? `movie ${id}` : null))),
    });
    return { checked, loaded, loader, events };
  }

  it("returns null for ids that cannot exist, without a load or a store", async () => {
    const { checked, loaded, loader, events } = loaderWith(async (ids) => ids.map((id) => id < 10));
    expect(await loader({}).loadMany([1, 100, 2, 200])).toEqual(["movie 1", null, "movie 2", null]);
    expect(checked).toEqual([[1, 100, 2, 200]]);
    expect(loaded).toEqual([[1, 2]]);
    await until("both are stored", () => events.filter(({ name }) => name === "write.finished").length === 2);
    expect(events.filter((event) => event.name === "resolver.bypassed")).toMatchObject([
      { reason: "DOES_NOT_EXIST" },
      { reason: "DOES_NOT_EXIST" },
    ]);
  });

  it("does not call the guard for stored entries", async () => {
    const { checked, loader, events } = loaderWith(async (ids) => ids.map(() => true));
    await loader({}).load(1);
    await until("it is stored", () => events.some(({ name }) => name === "write.finished"));
    expect(await loader({}).load(1)).toBe("movie 1");
    expect(checked).toEqual([[1]]);
  });

  it("loads if the guard fails or returns too few values", async () => {
    const failing = loaderWith(() => Promise.reject(new Error("down")));
    expect(await failing.loader({}).loadMany([1, 100])).toEqual(["movie 1", null]);
    const incomplete = loaderWith(async () => []);
    expect(await incomplete.loader({}).load(1)).toBe("movie 1");
  });

  it("accepts a bloomGuard as its guard", async () => {
    const guard = bloomGuard<number>({
      client,
      name: "Movie",
      prefix: `bloom-${randomUUID()}`,
      capacity: 1_000,
      timeoutMs: 10_000,
    });
    await guard.rebuild(range(0, 10));
    const { cache } = memoryWorld(() => redisStore({ client })).process("type Query { a: Int }", {});
    const loaded: number[] = [];
    const loader = cache.loader<number, number | null, object>({
      name: "Movie",
      maxAge: 60,
      exists: guard,
      batch: async (ids) => (loaded.push(...ids), [...ids]),
    });
    expect(await loader({}).loadMany([3, 5_000])).toEqual([3, null]);
    expect(loaded).toEqual([3]);
  });
});
