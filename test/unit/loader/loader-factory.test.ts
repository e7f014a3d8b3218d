import { createCache } from "graphql-cached";
import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";

describe("a loader made by cache.loader", () => {
  const createUsers = (batch = async (ids: readonly number[]) => ids.map((id) => ({ id }))) => {
    const calls: number[][] = [];
    const users = createCache().loader<number, { id: number } | null>({
      name: "User",
      maxAge: 60,
      maxBatchSize: 2,
      batch: (ids) => {
        calls.push([...ids]);
        return batch(ids);
      },
    });
    return { calls, users };
  };

  it("returns values in order, loads each id once per request, and reuses what another request has loaded", async () => {
    const { calls, users } = createUsers();
    const context = {};
    expect(await users(context).loadMany([2, 1, 2])).toEqual([{ id: 2 }, { id: 1 }, { id: 2 }]);
    await users(context).load(1);
    await users({}).load(1);
    expect(calls).toEqual([[2, 1]]);
  });

  it("passes at most maxBatchSize ids to one call of the batch function", async () => {
    const { calls, users } = createUsers();
    await users({}).loadMany([1, 2, 3]);
    expect(calls).toEqual([[1, 2], [3]]);
  });

  it("gives every request its own copy of a value", async () => {
    const { users } = createUsers();
    const first = await users({}).load(1);
    const second = await users({}).load(1);
    expect(first).toEqual(second);
    expect(first).not.toBe(second);
  });

  it("returns primed values until they are cleared", async () => {
    const { calls, users } = createUsers();
    const loader = users({});
    loader.prime(1, { id: 100 }).prime(2, new Error("gone"));
    expect(await loader.load(1)).toEqual({ id: 100 });
    await expect(loader.load(2)).rejects.toThrow("gone");
    expect(await loader.clear(1).load(1)).toEqual({ id: 1 });
    expect(await loader.clearAll().load(2)).toEqual({ id: 2 });
    expect(calls).toEqual([[1], [2]]);
  });

  it("throws as a DataLoader does for ids that are null or undefined, before it requests a lease", () => {
    const { calls, users } = createUsers();
    const loader = users({});
    for (const id of [undefined, null])
      expect(() => loader.load(id as never)).toThrow(/^The loader\.load\(\) function must be called with a value/);
    expect(() => loader.loadMany(undefined as never)).toThrow(/loadMany\(\) function must be called with Array<key>/);
    expect(() => loader.loadMany([1, undefined as never])).toThrow(TypeError);
    expect(calls).toEqual([]);
  });

  it("loads an id again after it was cleared, also if its batch has failed", async () => {
    const clock = new FakeClock();
    let failure: Error | undefined = new Error("the database is away");
    const loader = createCache({ testing: { clock } }).loader({
      name: "User",
      maxAge: 60,
      batch: async (ids: readonly number[]) => {
        if (failure !== undefined) throw failure;
        return ids.map((id) => `user ${id}`);
      },
    })({});
    await expect(loader.load(1)).rejects.toThrow("the database is away");
    failure = undefined;
    await expect(loader.load(1)).rejects.toThrow("the database is away");
    await clock.advance(60_000);
    expect(await loader.clear(1).load(1)).toBe("user 1");
  });

  it("loads ids that cannot be part of a key without the cache", async () => {
    const loaded: unknown[] = [];
    const users = createCache().loader<unknown, string>({
      name: "Odd",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => (loaded.push(id), "value")),
    });
    const id = (): number => 1;
    expect(await users({}).load(id)).toBe("value");
    expect(await users({}).load(id)).toBe("value");
    expect(loaded).toEqual([id, id]);
  });

  it("separates identities if its scope is PRIVATE", async () => {
    const cache = createCache<{ userId?: string }>({ identify: ({ userId }) => userId });
    const mine = cache.loader<number, string | undefined>({
      name: "Mine",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, { userId }) => ids.map(() => userId),
    });
    expect(await mine({ userId: "a" }).load(1)).toBe("a");
    expect(await mine({ userId: "b" }).load(1)).toBe("b");
    expect(await mine({}).load(1)).toBeUndefined();
  });
});
