import { FakeClock } from "@graphql-cached/testing";
import { type BatchCall, createCache, memoryStore } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";

describe("a loader made by cache.loader", () => {
  const createUsers = (batch = async (ids: readonly number[]) => ids.map((id) => ({ id }))) => {
    const calls: number[][] = [];
    const users = createCache({ defaultScope: "PUBLIC" }).loader<number, { id: number } | null>({
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

  it("belongs to one context object, frozen or a Proxy or neither, and not to a copy or heir of it", () => {
    const { users } = createUsers();
    const refuse = (): never => {
      throw new Error("a trap of the context was called");
    };
    const traps = { get: refuse, has: refuse, isExtensible: refuse, defineProperty: refuse };
    const refusing = (target: object) => new Proxy(target, { ...traps, getOwnPropertyDescriptor: refuse });
    const frozen = Object.freeze({ userId: 7 });
    const known = new Set<unknown>();
    for (const context of [{ userId: 7 }, frozen, refusing({ userId: 7 }), refusing(frozen), refusing(frozen)]) {
      const loader = users(context);
      expect(users(context)).toBe(loader);
      expect(known).not.toContain(loader);
      known.add(loader).add(users(Object.create(context) as object));
      expect(known.size % 2).toBe(0);
      expect(Reflect.ownKeys(context)).toEqual(["userId"]);
    }
    const context = { userId: 7 };
    const loader = users(context);
    const copy = Object.create(null, Object.getOwnPropertyDescriptors(context)) as object;
    for (const other of [{ ...context }, copy, structuredClone(context)]) expect(users(other)).not.toBe(loader);
    Object.freeze(context);
    expect(users(context)).toBe(loader);
    const withoutContext = (): unknown => users(undefined as never);
    expect(withoutContext()).not.toBe(withoutContext());
  });

  it("reads each id once per request, and again after it was cleared, whether it is the only one or not", async () => {
    const store = memoryStore();
    const read = vi.spyOn(store, "read");
    const batch = async (ids: readonly string[]) => ids;
    const load = createCache({ defaultScope: "PUBLIC", store, prefix: "memo" }).loader({
      name: "Word",
      maxAge: 60,
      batch,
    });
    const words = load({});
    await words.load("one");
    expect(await words.load("one")).toBe("one");
    expect(read).toHaveBeenCalledTimes(1);
    await words.clear("one").load("one");
    expect(read).toHaveBeenCalledTimes(2);
    await words.load("two");
    await words.loadMany(["one", "two"]);
    expect(read).toHaveBeenCalledTimes(3);
    await words.clear("one").loadMany(["one", "two"]);
    expect(read).toHaveBeenCalledTimes(4);
  });

  for (const maxAge of [60, 0])
    it(`gives a batch function the same list of controls each time it reads \`results\`, with maxAge ${maxAge}`, async () => {
      const calls: BatchCall[] = [];
      const load = createCache({ defaultScope: "PUBLIC" }).loader({
        name: "Word",
        maxAge,
        batch: async (ids: readonly string[], _context, call) => {
          calls.push(call);
          return ids;
        },
      });
      await load({}).loadMany(["a", "b"]);
      const [{ results }] = calls as [BatchCall];
      expect(results).toHaveLength(2);
      expect(calls[0]?.results).toBe(results);
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

  it("primes promises and errors, and does not replace what was read unless it is cleared", async () => {
    const { calls, users } = createUsers();
    const loader = users({});
    const error = new Error("gone");
    loader.prime(1, Promise.resolve({ id: 100 })).prime(2, error);
    expect(await loader.load(1)).toEqual({ id: 100 });
    expect(await loader.loadMany([2, 3])).toEqual([error, { id: 3 }]);
    loader.prime(3, { id: 300 });
    expect(await loader.load(3)).toEqual({ id: 3 });
    loader.clear(3).prime(3, { id: 300 });
    expect(await loader.load(3)).toEqual({ id: 300 });
    expect(calls).toEqual([[3]]);
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
    const loader = createCache({ defaultScope: "PUBLIC", testing: { clock } }).loader({
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
    const users = createCache({ defaultScope: "PUBLIC" }).loader<unknown, string>({
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
    const cache = createCache<{ userId?: string }>({ defaultScope: "PUBLIC", identify: ({ userId }) => userId });
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

describe("the DataLoader options of cache.loader", () => {
  /** A loader of which `calls` are the ids of each batch. */
  const createSite = (options: object) => {
    const store = memoryStore();
    const createOther = () =>
      createCache({ defaultScope: "PUBLIC", store, logger: { info: () => undefined, warn: () => undefined } });
    const cache = createOther();
    const calls: (readonly number[])[] = [];
    const loader = cache.loader<number, string, object>({
      name: "Film",
      maxAge: 60,
      tags: (id) => [`Film:${id}`],
      batch: async (ids) => {
        calls.push(ids);
        return ids.map((id) => `film ${id}, load ${calls.length}`);
      },
      ...options,
    });
    return { createOther, calls, loader };
  };

  it("let every load of a request ask the shared cache with cache: false", async () => {
    for (const [remembers, third] of [
      [true, "film 1, load 2"],
      [false, "film 1, load 2"],
    ] as const) {
      const { createOther, calls, loader } = createSite({ cache: remembers });
      const [context, other] = [{}, {}];
      expect(await loader(context).loadMany([1, 1])).toEqual(["film 1, load 1", "film 1, load 1"]);
      // What this process knows to be invalidated, a request reads again in any case.
      await createOther().invalidateTags(["Film:1"]);
      await loader(other).load(1);
      expect(await loader(context).load(1)).toBe(third);
      expect(calls).toEqual([[1], [1]]);
      loader(context).prime(2, "primed");
      expect(await loader(context).load(2)).toBe(remembers ? "primed" : "film 2, load 3");
    }
  });

  it("tell an id that cannot be part of a key from the digest of another id", async () => {
    let digest = "";
    const cache = createCache({
      defaultScope: "PUBLIC",
      store: memoryStore(),
      logger: { info: () => undefined, warn: () => undefined },
      onEvent: (event) => {
        if (event.name === "load.finished") digest = event.digest;
      },
    });
    const loader = cache.loader<string, string, object>({
      name: "Film",
      maxAge: 60,
      cacheKeyFn: (id) => {
        if (id === digest) throw new Error("no key");
        return id;
      },
      batch: async (ids) => ids.map((id) => `film ${id}`),
    });
    const films = loader({});
    expect(await films.load("7")).toBe("film 7");
    expect(digest).toHaveLength(22);
    expect(await films.load(digest)).toBe(`film ${digest}`);
    expect(await films.load("7")).toBe("film 7");
    films.clear(digest).prime(digest, "primed");
    expect([await films.load(digest), await films.load("7")]).toEqual(["primed", "film 7"]);
  });

  it("tell ids apart that a request remembers in different ways: texts, numbers, objects, and what begins with NUL", async () => {
    const digests: string[] = [];
    const cache = createCache({
      defaultScope: "PUBLIC",
      store: memoryStore(),
      logger: { info: () => undefined, warn: () => undefined },
      onEvent: (event) => {
        if (event.name === "load.finished") digests.push(event.digest);
      },
    });
    const loader = cache.loader<unknown, string, object>({
      name: "Film",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => `${typeof id} ${String(id)}`),
    });
    const films = loader({});
    const object = { toString: () => "object" };
    const date = new Date(0);
    expect(await films.load(date)).toBe(`object ${date}`);
    const [ofDate] = digests;
    const spelledAlike = [`\0${ofDate}`, ofDate, "7", "\0string 7", "\0number 7", 7, -0, 0, Number.NaN, "NaN"];
    for (let round = 0; round < 2; round++)
      for (const id of spelledAlike) expect(await films.load(id)).toBe(`${typeof id} ${String(id)}`);
    expect(await films.load(date)).toBe(`object ${date}`);
    // Has no key, since it has a function.
    expect(await films.load(object)).toBe("object object");
  });

  it("apply to a loader that is not cached", async () => {
    const { calls, loader } = createSite({ maxAge: 0, cache: false });
    await loader({}).loadMany([1, 1]);
    expect(calls).toEqual([[1, 1]]);
  });

  it("are refused if they have the wrong type", () => {
    expect(() => createSite({ cache: "no" })).toThrow(
      'cache.loader("Film"): `cache`: expected true or false, whether a request remembers what it has read, got "no"',
    );
  });

  it("are refused with what replaces them, if a loader has no such option", () => {
    expect(() => createSite({ cacheMap: null, batch: false })).toThrow(
      'cache.loader("Film"): `cacheMap`: expected no such option, since the shared cache holds the values, got null; use `cache: false` for requests that remember nothing; `batch`: expected a function, got false; use `maxBatchSize: 1` for calls with one id each',
    );
  });

  it.each([60, 0])(
    "get the loader of the request as `this`, and give it the name of the loader, with maxAge %i",
    async (maxAge) => {
      const callers: unknown[] = [];
      const { loader } = createSite({
        maxAge,
        async batch(ids: readonly number[]) {
          callers.push(this);
          return ids.map(String);
        },
      });
      const context = {};
      await loader(context).load(1);
      expect(callers.map((caller) => caller === loader(context))).toEqual([true]);
      expect(loader(context).name).toBe("Film");
    },
  );

  it("leave DataLoader's error as it is for what is no list of ids", () => {
    const { loader } = createSite({ batch: async () => [] });
    expect(() => loader({}).loadMany(1 as never)).toThrow(
      "The loader.loadMany() function must be called with Array<key> but got: 1.",
    );
  });

  describe.each([60, 0])("with maxAge %i", (maxAge) => {
    it.each([
      ["too few values", ["Alien"], "got 1"],
      ["too many values", ["Alien", "Heat", "Ran"], "got 3"],
      ["a map", new Map([["7", "Alien"]]), "got a value of type object"],
      ["nothing", undefined, "got a value of type undefined"],
    ])("name the loader, and no id or value, if its batch function returns %s", async (_, returned, got) => {
      const { loader } = createSite({ maxAge, batch: async () => returned as never });
      const errors = await loader({}).loadMany([7, 8]);
      const message =
        'cache.loader("Film"): expected `batch` to return an array of 2, with a value or an Error for each id in the order of the ids, ' +
        `${got}; return null for an id without a value`;
      expect(errors.map(String)).toEqual([`TypeError: ${message}`, `TypeError: ${message}`]);
    });

    it("take a hole in what their batch function returns for no value, at the end as elsewhere", async () => {
      const { loader } = createSite({ maxAge, batch: async () => Object.assign(new Array<string>(3), { 1: "Heat" }) });
      expect(await loader({}).loadMany([7, 8, 9])).toEqual([undefined, "Heat", undefined]);
    });

    it("leave no rejection unhandled of the promises that their batch function returns for a thousand ids", async () => {
      const rejecting = async (id: number): Promise<string> => {
        if (id % 100 === 99) throw new Error(`no ${id}`);
        return `${id}`;
      };
      const { loader } = createSite({ maxAge, batch: async (ids: readonly number[]) => ids.map(rejecting) as never });
      const values = await loader({}).loadMany(Array.from({ length: 1_000 }, (_, id) => id));
      expect(values.filter((value) => (value as unknown) instanceof Error)).toHaveLength(10);
    });

    it("reject with what their batch function throws before it returns a promise", async () => {
      class NotFound extends Error {
        readonly statusCode = 404;
      }
      const error = new NotFound("no film");
      const batch = (): never => {
        throw error;
      };
      const { loader } = createSite({ maxAge, batch });
      await expect(loader({}).load(7)).rejects.toBe(error);
    });
  });
});
