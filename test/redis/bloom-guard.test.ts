import { randomUUID } from "node:crypto";
import { memoryStore } from "graphql-cached";
import { type BloomGuard, bloomGuard, redisStore } from "graphql-cached/redis";
import { FakeClock, gate } from "graphql-cached/testing";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it } from "vitest";
import { until } from "../support/redis-lab.js";
import { memoryWorld } from "../support/world.js";

const client = new Redis(inject("redisStandalone"));
afterAll(() => client.quit());

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, nth) => from + nth);
const isEvery = (answers: readonly boolean[]): boolean => answers.every(Boolean);

describe("a Bloom guard", () => {
  let prefix: string;
  beforeEach(() => {
    prefix = `bloom-${randomUUID()}`;
  });
  const guardOf = (more: object = {}): BloomGuard<number> =>
    bloomGuard<number>({ client, name: "Movie", prefix, capacity: 5_000, falsePositiveRatio: 0.02, ...more });

  it("knows every id it was told of, in all processes, and is wrong about others as often as configured", async () => {
    const guard = guardOf();
    expect(await guard.rebuild(range(0, 5_000))).toBe(5_000);
    const other = guardOf({ timeoutMs: 10_000 });
    expect(isEvery(await other.has(range(0, 5_000)))).toBe(true);
    const wrong = (await other.has(range(100_000, 110_000))).filter(Boolean).length / 10_000;
    expect(wrong).toBeGreaterThan(0.01);
    expect(wrong).toBeLessThan(0.03);
    const [filter] = await client.keys(`${prefix}:*`);
    expect(await client.strlen(filter as string)).toBe(Math.ceil(40_712 / 8));
  });

  it("tells the number 7 from the text 7", async () => {
    const guard = bloomGuard<number | string>({ client, name: "Movie", prefix, capacity: 100 });
    await guard.rebuild([7]);
    expect(await guard.has([7, "7"])).toEqual([true, false]);
  });

  it("says perhaps to everything until it has been built", async () => {
    const guard = guardOf();
    await guard.add([7]);
    expect(await guard.has([7, 8])).toEqual([true, true]);
    expect(await client.keys(`${prefix}:*`)).toEqual([]);
  });

  it("learns of new ids one by one", async () => {
    const guard = guardOf();
    await guard.rebuild([1]);
    expect(await guard.has([1, 2])).toEqual([true, false]);
    await guard.add([2]);
    expect(await guard.has([1, 2])).toEqual([true, true]);
  });

  it("is rebuilt without a gap: the old filter serves meanwhile, and what is added meanwhile is in the new one", async () => {
    const guard = guardOf();
    await guard.rebuild([1, 2]);
    const door = gate();
    async function* rows(): AsyncGenerator<number> {
      yield 1;
      await door.passed;
      yield 3;
    }
    const rebuilt = guard.rebuild(rows());
    await until("it is being built", async () => (await client.keys(`${prefix}:*:building`)).length === 1);
    expect(await guard.has([1, 2, 3])).toEqual([true, true, false]);
    await guard.add([4]);
    expect(await guard.has([4])).toEqual([true]);
    door.open();
    expect(await rebuilt).toBe(2);
    expect(await guard.has([1, 2, 3, 4])).toEqual([true, false, true, true]);
    expect(await client.keys(`${prefix}:*`)).toHaveLength(1);
  });

  it("keeps the old filter if the stream of ids fails, and can be built again at once", async () => {
    const guard = guardOf();
    await guard.rebuild([1]);
    async function* rows(): AsyncGenerator<number> {
      yield 2;
      throw new Error("the database is away");
    }
    await expect(guard.rebuild(rows())).rejects.toThrow("the database is away");
    expect(await guard.has([1, 2])).toEqual([true, false]);
    expect(await guard.rebuild([2])).toBe(1);
  });

  it("is built by one process at a time, and a building that was lost is not taken for a filter", async () => {
    const guard = guardOf();
    const door = gate();
    async function* rows(): AsyncGenerator<number> {
      yield 1;
      await door.passed;
    }
    const first = guard.rebuild(rows());
    await until("it is being built", async () => (await client.keys(`${prefix}:*:lock`)).length === 1);
    await expect(guardOf().rebuild([2])).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
      message: "the filter `Movie` was expected to be written: another process is building it",
    });
    await client.del(...(await client.keys(`${prefix}:*:building`)));
    door.open();
    await expect(first).rejects.toThrow("the filter under construction was lost");
    expect(await guard.has([9])).toEqual([true]);
  });

  it("says perhaps if Redis is evicted of it, and if Redis does not answer in time", async () => {
    const guard = guardOf();
    await guard.rebuild([1]);
    await client.del(...(await client.keys(`${prefix}:*`)));
    expect(await guard.has([2])).toEqual([true]);

    const clock = new FakeClock();
    const hanging = { callBuffer: () => hanging, exec: () => new Promise(() => undefined) };
    const frozen = guardOf({ client: { pipeline: () => hanging }, clock });
    const answer = frozen.has([1, 2]);
    await clock.advance(101);
    expect(await answer).toEqual([true, true]);
    const away = new Redis(1, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null });
    away.on("error", () => undefined);
    expect(await guardOf({ client: away }).has([1])).toEqual([true]);
  });

  it("keeps its keys in one slot of a Cluster", async () => {
    const cluster = new Cluster([...inject("redisCluster")]);
    const guard = guardOf({ client: cluster });
    await guard.rebuild([1]);
    await guard.add([2]);
    expect(await guard.has([1, 2, 3])).toEqual([true, true, false]);
    await cluster.quit();
  });

  it("refuses options that cannot be, all at once", () => {
    const refusal = (options: object): unknown => {
      try {
        return bloomGuard(options as never);
      } catch (error) {
        return (error as Error).message;
      }
    };
    expect(refusal({ client: {}, name: "a b", capacity: 0, falsePositiveRatio: 1, timeoutMs: 0 })).toBe(
      'bloomGuard: `client` must be an ioredis client, an object came; `name` must be letters, digits and _, "a b" came; ' +
        "`capacity` must be a whole number of ids, 1 or more, 0 came; `falsePositiveRatio` must be a number between 0 and 1, both excluded, 1 came; " +
        "`timeoutMs` must be a whole number of milliseconds, 1 or more, 0 came",
    );
    expect(refusal({ client, name: "Movie", capacity: 1e9 })).toBe(
      "bloomGuard: `capacity` at this ratio needs more than 512 MB, the most that Redis holds in one string",
    );
  });
});

describe("a loader with a guard", () => {
  function guarded(has: (ids: readonly number[]) => Promise<readonly boolean[]>) {
    const asked: (readonly number[])[] = [];
    const loaded: (readonly number[])[] = [];
    const { cache, events } = memoryWorld(() => memoryStore()).process("type Query { a: Int }", {});
    const loader = cache.loader<number, string | null, object>({
      name: "Movie",
      maxAge: 60,
      exists: { has: (ids) => (asked.push(ids), has(ids)) },
      batch: async (ids) => (loaded.push(ids), ids.map((id) => (id < 10 ? `movie ${id}` : null))),
    });
    return { asked, loaded, loader, events };
  }

  it("answers null for what cannot exist, without asking the source or storing anything", async () => {
    const { asked, loaded, loader, events } = guarded(async (ids) => ids.map((id) => id < 10));
    expect(await loader({}).loadMany([1, 100, 2, 200])).toEqual(["movie 1", null, "movie 2", null]);
    expect(asked).toEqual([[1, 100, 2, 200]]);
    expect(loaded).toEqual([[1, 2]]);
    await until("both are stored", () => events.filter(({ name }) => name === "write.finished").length === 2);
    expect(events.filter((event) => event.name === "resolver.bypassed")).toMatchObject([
      { reason: "DOES_NOT_EXIST" },
      { reason: "DOES_NOT_EXIST" },
    ]);
  });

  it("does not ask its guard for what is stored", async () => {
    const { asked, loader, events } = guarded(async (ids) => ids.map(() => true));
    await loader({}).load(1);
    await until("it is stored", () => events.some(({ name }) => name === "write.finished"));
    expect(await loader({}).load(1)).toBe("movie 1");
    expect(asked).toEqual([[1]]);
  });

  it("loads if its guard fails, or answers too little", async () => {
    const failing = guarded(() => Promise.reject(new Error("away")));
    expect(await failing.loader({}).loadMany([1, 100])).toEqual(["movie 1", null]);
    const short = guarded(async () => []);
    expect(await short.loader({}).load(1)).toBe("movie 1");
  });

  it("shares a Bloom guard with all processes", async () => {
    const guard = bloomGuard<number>({ client, name: "Movie", prefix: `bloom-${randomUUID()}`, capacity: 1_000 });
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
