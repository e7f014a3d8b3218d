import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
} from "graphql-cached";
import { chaosStore, FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { VersionedSource } from "../../support/versioned-source.js";
import { dataOf, memoryWorld, onEachStore, type Process } from "../../support/world.js";

const FIELD = "type Query { value(id: ID!): Int @cached(maxAge: 60) }";
const TARGET = { coordinate: "Query.value", args: { id: "7" } };
const QUERY = '{ value(id: "7") }';

const read = async ({ ask }: Pick<Process, "ask">, query = QUERY, context?: object): Promise<unknown> =>
  ((await dataOf(ask(query, context))) as { value: unknown }).value;

/** Returns the observed reads, such as "hit same". */
const observed = ({ events }: Pick<Process, "events">): string[] =>
  events.flatMap((event) => (event.name === "read.observed" ? [`${event.outcome} ${event.comparison}`] : []));

const countsOf = (list: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const each of list) counts[each] = (counts[each] ?? 0) + 1;
  return counts;
};

/** Processes in the mode `observe` on a memory store, on a clock that the test moves. */
function observing(typeDefs = FIELD, options: CacheOptions<never> = {}, applyOptions = {}) {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const source = new VersionedSource();
  const start = (own: CacheOptions<never> = {}): Process =>
    memoryWorld(() => store).process(
      typeDefs,
      { Query: { value: source.load } },
      { prefix: "observe", initialMode: "observe", testing: { clock }, ...options, ...own },
      applyOptions,
    );
  const process = start();
  /** Reads, and lets everything that follows from it happen. */
  const readAll = async (query = QUERY, context?: object): Promise<unknown> => {
    const value = await read(process, query, context);
    await settle();
    await clock.advance(1);
    return value;
  };
  const setUp = async (): Promise<void> => {
    await process.cache.setMode("observe");
    await settle();
  };
  return { clock, store, source, start, process, readAll, setUp };
}

onEachStore("a field that is observed", (world) => {
  it("answers every read from its source, and counts hits and outdated values as planted", async () => {
    const values = new Map<string, number>();
    let calls = 0;
    const process = world().process(
      "type Query { value(id: ID!): Int @cached(maxAge: 600) }",
      { Query: { value: (_: unknown, { id }: { id: string }) => (calls++, values.get(id) ?? 0) } },
      {},
    );
    await process.cache.setMode("observe");
    const expected: Record<string, number> = {};
    /** What the store should have, by id. */
    const stored = new Map<string, number>();
    let nth = 0;
    const planted = { hits: 0, outdated: 0 };
    for (let round = 0; round < 40; round++)
      for (const id of ["a", "b", "c"]) {
        nth++;
        // Every tenth value changes without an invalidation, every seventh with one.
        if (nth % 10 === 0 || nth % 7 === 0) values.set(id, nth);
        if (nth % 7 === 0) {
          await process.cache.invalidate({ coordinate: "Query.value", args: { id } });
          stored.delete(id);
        }
        const truth = values.get(id) ?? 0;
        const known = stored.get(id);
        if (known !== undefined) planted.hits++;
        if (known !== undefined && known !== truth) planted.outdated++;
        const outcome = known === undefined ? "miss none" : known === truth ? "hit same" : "hit different";
        expected[outcome] = (expected[outcome] ?? 0) + 1;
        if (known === undefined) stored.set(id, truth);
        const stores = storesOf(process);
        expect(await read(process, `{ value(id: "${id}") }`)).toBe(truth);
        await expect.poll(() => observed(process).length, { interval: 1 }).toBe(nth);
        if (known === undefined) await expect.poll(() => storesOf(process), { interval: 1 }).toBe(stores + 1);
      }
    expect(planted).toEqual({ hits: 100, outdated: 40 });
    expect(countsOf(observed(process))).toEqual(expected);
    expect([calls, process.outcomes()]).toEqual([120, { "bypassed(MODE_OBSERVE)": 120 }]);
  });

  it("has stored what it needs when it is switched on", async () => {
    const source = new VersionedSource();
    const shared = world();
    const process = shared.process(FIELD, { Query: { value: source.load } });
    await process.cache.setMode("observe");
    expect(await read(process)).toBe(1);
    await expect.poll(() => storesOf(process), { interval: 1 }).toBe(1);
    await process.cache.setMode("on");
    expect([await read(process), source.loads]).toEqual([1, 1]);
    expect(process.outcomes()).toEqual({ "bypassed(MODE_OBSERVE)": 1, hit: 1 });
  });
});

const storesOf = ({ events }: Pick<Process, "events">): number =>
  events.filter((event) => event.name === "write.finished" && event.isStored).length;

describe("a comparison", () => {
  it("does not count a value that was invalidated between the lookup and the read of the source", async () => {
    const clock = new FakeClock();
    let version = 1;
    let hold = Promise.resolve();
    const value = async (): Promise<number> => {
      await hold;
      return version;
    };
    const world = memoryWorld(() => memoryStore({ clock }));
    const [process, other] = [1, 2].map(() => world.process(FIELD, { Query: { value } }, { testing: { clock } })) as [
      Process,
      Process,
    ];
    await process.cache.setMode("observe");
    await read(process);
    await settle();
    const invalidations = [
      () => other.cache.invalidate(TARGET),
      () => other.cache.invalidate(TARGET, { soft: true }),
      () => other.cache.invalidate({ coordinate: "Query.value" }),
      () => other.cache.clear(),
    ];
    for (const invalidate of invalidations) {
      await clock.advance(1);
      const held = gate();
      hold = held.passed;
      const later = read(process);
      // It has been looked up, and the source is called.
      await settle();
      version++;
      await invalidate();
      held.open();
      expect(await later).toBe(version);
      await settle();
      expect(observed(process).at(-1)).toBe("hit none");
      // Stores the value again.
      await read(process);
      await settle();
    }
  });

  it("counts a value that changed without an invalidation, in every process", async () => {
    const { source, process, start, readAll, setUp } = observing();
    await setUp();
    await readAll();
    source.version = 2;
    const other = start();
    expect([await readAll(), await read(other)]).toEqual([2, 2]);
    await settle();
    expect([observed(process), observed(other)]).toEqual([["miss none", "hit different"], ["hit different"]]);
  });

  it("finds a key that lacks what the value depends on, while no caller gets the value of another", async () => {
    const typeDefs = "type Query { value(id: ID!): Int @cached(maxAge: 60, key: []) }";
    const { clock, process, setUp } = observing(typeDefs, {}, {});
    await setUp();
    const own = memoryWorld().process(
      typeDefs,
      { Query: { value: (_: unknown, { id }: { id: string }) => Number(id) } },
      { initialMode: "observe", testing: { clock } },
    );
    await own.cache.setMode("observe");
    for (const _ of [1, 2]) {
      expect(await dataOf(own.ask('{ a: value(id: "1") b: value(id: "2") }'))).toEqual({ a: 1, b: 2 });
      await settle();
      await clock.advance(1);
    }
    expect(countsOf(observed(own))).toEqual({ "miss none": 2, "hit same": 1, "hit different": 1 });
    expect(observed(process)).toEqual([]);
  });

  it("is deep, whatever the order of the properties, and can be replaced for a field and a loader", async () => {
    const clock = new FakeClock();
    const events: CacheEvent[] = [];
    const cache = createCache({
      initialMode: "observe",
      testing: { clock },
      defaults: { jitter: 0, earlyRefresh: 0 },
      onEvent: (event) => events.push(event),
      logger: { info: () => undefined, warn: () => undefined },
    });
    onTestFinished(() => cache.close());
    let nth = 0;
    const movie = () =>
      ++nth % 2 === 1 ? { id: 7, at: new Date(0), seen: nth } : { seen: nth, at: new Date(0), id: 7 };
    const typeDefs = `type Query { exact: Movie @cached(maxAge: 60) loose: Movie @cached(maxAge: 60) same: Movie @cached(maxAge: 60) }
      type Movie { id: Int }`;
    const schema = applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, typeDefs],
        resolvers: {
          Query: { exact: movie, loose: movie, same: () => ({ ...movie(), seen: undefined }) },
        },
      }),
      cache,
      {
        compare: {
          "Query.loose": (stored, loaded) => (stored as { id: number }).id === (loaded as { id: number }).id,
        },
      },
    );
    const things = cache.loader<number, { id: number; nth: number }>({
      name: "Thing",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => ({ id, nth: ++nth })),
      compare: (stored, loaded) => stored.id === loaded.id,
    });
    await cache.setMode("observe");
    for (const _ of [1, 2]) {
      await dataOf(graphql({ schema, source: "{ exact { id } loose { id } same { id } }", contextValue: {} }));
      await things({}).load(1);
      await settle();
      await clock.advance(1);
    }
    const comparisons = events.flatMap((event) =>
      event.name === "read.observed" && event.outcome === "hit" ? [`${event.coordinate} ${event.comparison}`] : [],
    );
    expect(comparisons.sort()).toEqual(["Query.exact different", "Query.loose same", "Query.same same", "Thing same"]);
  });

  it("never fails a request, and reports a `compare` that throws or returns anything but true or false", async () => {
    for (const compare of [
      () => {
        throw new Error("broken");
      },
      async () => true,
      () => Promise.reject(new Error("broken")),
      () => 1,
    ]) {
      const { process, readAll, setUp } = observing(FIELD, {}, { compare: { "Query.value": compare } });
      await setUp();
      expect([await readAll(), await readAll()]).toEqual([1, 1]);
      expect(observed(process)).toEqual(["miss none", "hit none"]);
      expect(process.events.filter(({ name }) => name === "comparison.failed")).toHaveLength(1);
    }
  });

  it("leaves the object of the source as it is, which the caller gets, also if the policy is read-only", async () => {
    const cache = createCache({ initialMode: "observe", logger: { info: () => undefined, warn: () => undefined } });
    onTestFinished(() => cache.close());
    const made: object[] = [];
    const things = cache.loader<number, { id: number; seen?: number }>({
      name: "Thing",
      maxAge: 60,
      readOnly: true,
      batch: async (ids) =>
        ids.map((id) => {
          const thing = { id };
          made.push(thing);
          return thing;
        }),
      compare: (stored, loaded) => {
        (loaded as { id: number }).id = 0;
        return stored.id === 1;
      },
    });
    await cache.setMode("observe");
    for (const nth of [0, 1, 2]) {
      const thing = await things({}).load(1);
      expect(thing).toBe(made[nth]);
      thing.seen = nth;
      await settle();
      expect(thing).toEqual({ id: 1, seen: nth });
    }
  });
});

describe("an observed read", () => {
  it("calls its source once, as without the cache, also if it loads under the lease", async () => {
    const { source, process, setUp } = observing();
    await setUp();
    const held = gate();
    source.hold = held.passed;
    const reads = [1, 2, 3].map(() => read(process));
    await settle();
    expect(source.loads).toBe(3);
    held.open();
    expect(await Promise.all(reads)).toEqual([1, 1, 1]);
    await settle();
    expect([source.loads, storesOf(process), observed(process)]).toEqual([
      3,
      1,
      ["miss none", "miss none", "miss none"],
    ]);
    await dataOf(process.ask('{ a: value(id: "7") b: value(id: "7") }'));
    expect(source.loads).toBe(5);
  });

  it("stores what its source has returned, not what child resolvers make of it", async () => {
    const process = memoryWorld().process(
      "type Query { movie: Movie @cached(maxAge: 60) } type Movie { title: String }",
      {
        Query: { movie: () => settle().then(() => ({ title: "Ran" })) },
        Movie: {
          title: (movie: { title: string }) => {
            movie.title += "!";
            return movie.title;
          },
        },
      },
      { testing: { clock: new FakeClock() } },
    );
    await process.cache.setMode("observe");
    for (const mode of ["observe", "on"] as const) {
      await process.cache.setMode(mode);
      expect(await dataOf(process.ask("{ movie { title } }"))).toEqual({ movie: { title: "Ran!" } });
      await settle();
      await settle();
    }
    expect(process.outcomes()).toEqual({ "bypassed(MODE_OBSERVE)": 1, hit: 1 });
  });

  it("waits for no slot of the bulkhead, and is not refused by it", async () => {
    for (const loads of [{ maxConcurrentLoads: 1 }, { maxConcurrentLoads: 1, maxQueuedLoads: 0 }]) {
      const { source, process, setUp } = observing(FIELD, { loads });
      await setUp();
      const held = gate();
      source.hold = held.passed;
      const reads = ["1", "2", "3"].map((id) => read(process, `{ value(id: "${id}") }`));
      await settle();
      expect(source.loads).toBe(3);
      held.open();
      expect(await Promise.all(reads)).toEqual([1, 1, 1]);
    }
  });

  it("is answered by its source while the breaker of the field is open", async () => {
    const process = memoryWorld().process(
      FIELD,
      {
        Query: {
          value: (_: unknown, { id }: { id: string }) => {
            if (id === "7") throw new Error("down");
            return 1;
          },
        },
      },
      { loads: { breakerThreshold: 1 }, testing: { clock: new FakeClock() } },
    );
    await process.cache.setMode("observe");
    expect((await process.ask(QUERY)).errors).toHaveLength(1);
    await settle();
    expect(await read(process, '{ value(id: "8") }')).toBe(1);
    expect(process.events.map(({ name }) => name)).toContain("load.refused");
  });

  it("passes on what its source throws or returns, and calls `then` once", async () => {
    const clock = new FakeClock();
    let queries = 0;
    const query = {
      // biome-ignore lint/suspicious/noThenProperty: a query builder is what is tested
      then: (resolve: (value: number) => void) => {
        queries++;
        resolve(7);
      },
    };
    const failure = new Error("source");
    const process = memoryWorld().process(
      "type Query { sync: Int @cached(maxAge: 60) lazy: Int @cached(maxAge: 60) throws: Int @cached(maxAge: 60) rejects: Int @cached(maxAge: 60) }",
      {
        Query: {
          sync: () => 1,
          lazy: () => query,
          throws: () => {
            throw failure;
          },
          rejects: () => Promise.reject(failure),
        },
      },
      { testing: { clock } },
    );
    await process.cache.setMode("observe");
    for (const round of [1, 2]) {
      const { data, errors } = await process.ask("{ sync lazy throws rejects }");
      expect({ ...data }).toEqual({ sync: 1, lazy: 7, throws: null, rejects: null });
      expect(errors?.map(({ originalError }) => originalError)).toEqual([failure, failure]);
      expect(queries).toBe(round);
      await settle();
      await clock.advance(1);
    }
    expect(countsOf(observed(process))).toEqual({ "miss none": 6, "hit same": 2 });
  });

  it("is answered while the store is away, and counted as bypassed", async () => {
    const { clock, store, source, process, setUp } = observing();
    await setUp();
    await read(process);
    await settle();
    for (const mode of ["throws", "hangs"] as const) {
      store.chaos.mode = mode;
      const value = read(process);
      await clock.advance(200);
      expect(await value).toBe(1);
    }
    expect([source.loads, observed(process)]).toEqual([3, ["miss none", "bypassed none", "bypassed none"]]);
  });

  it("counts stale values of their own, and refreshes them", async () => {
    const typeDefs = "type Query { value(id: ID!): Int @cached(maxAge: 10, staleWhileRevalidate: 600) }";
    const { clock, source, process, readAll, setUp } = observing(typeDefs);
    await setUp();
    await readAll();
    await clock.advance(11_000);
    source.version = 2;
    expect([await readAll(), await readAll(), source.loads]).toEqual([2, 2, 3]);
    expect(observed(process)).toEqual(["miss none", "stale different", "hit same"]);
    // A soft invalidation makes the value stale as well.
    source.version = 3;
    await process.cache.invalidate(TARGET, { soft: true });
    expect([await readAll(), await readAll()]).toEqual([3, 3]);
    expect(observed(process).slice(3)).toEqual(["stale different", "hit same"]);
  });

  it("is looked up by the tags of its result, and by those of its policy", async () => {
    const typeDefs = 'type Query { value(id: ID!): Int @cached(maxAge: 60, tags: ["V:{$args.id}", "R:{$result}"]) }';
    const { source, process, readAll, setUp } = observing(typeDefs);
    await setUp();
    await readAll();
    for (const tag of ["V:7", "R:1"]) {
      expect(await readAll()).toBe(source.version);
      await process.cache.invalidateTags([tag]);
      await readAll();
    }
    expect(observed(process)).toEqual(["miss none", "hit same", "miss none", "hit same", "miss none"]);
  });

  it("stores nothing while a write is in progress", async () => {
    const { process, readAll, setUp } = observing();
    await setUp();
    await process.cache.mutate({ entries: [TARGET] }, () => readAll());
    expect([observed(process), storesOf(process)]).toEqual([["bypassed none"], 0]);
  });

  it("with REFRESH replaces the stored value, and is not counted", async () => {
    const { source, process, readAll, setUp } = observing();
    await setUp();
    await readAll();
    source.version = 2;
    const context = {};
    process.cache.override(context as never, "REFRESH");
    expect(await readAll(QUERY, context)).toBe(2);
    expect([await readAll(), source.loads]).toEqual([2, 3]);
    expect(observed(process)).toEqual(["miss none", "hit same"]);
  });

  it("finds an `exists` guard that excludes what exists", async () => {
    const guard = { has: async (ids: readonly unknown[]) => ids.map((id) => id !== "7" && id !== "8") };
    const { clock, process, store, setUp } = observing(
      FIELD,
      {},
      { exists: { "Query.value": { id: "$args.id", guard } } },
    );
    await setUp();
    expect(await read(process)).toBe(1);
    await settle();
    await clock.advance(1);
    expect([observed(process), storesOf(process)]).toEqual([["bypassed different"], 0]);
    expect(store.chaos.calls.get("acquire")).toBeUndefined();
  });

  it("of a load that reads its own key ends", async () => {
    const clock = new FakeClock();
    let depth = 0;
    const process: Process = memoryWorld().process(
      FIELD,
      {
        Query: {
          value: async (): Promise<unknown> => (depth++ < 3 ? ((await read(process)) as number) + 1 : 0),
        },
      },
      { testing: { clock } },
    );
    await process.cache.setMode("observe");
    expect(await read(process)).toBe(3);
    await settle();
    expect(process.outcomes()).toEqual({ "bypassed(MODE_OBSERVE)": 4 });
  });

  it("is answered although the identity of its context changes, and stores nothing then", async () => {
    const { source, process, setUp } = observing(
      "type Query { value(id: ID!): Int @cached(maxAge: 60, scope: PRIVATE) }",
      {
        identify: ({ user }: { user: string }) => user,
      },
    );
    await setUp();
    const held = gate();
    source.hold = held.passed;
    const context = { user: "a" };
    const value = read(process, QUERY, context);
    await settle();
    context.user = "b";
    held.open();
    expect([await value, storesOf(process)]).toEqual([1, 0]);
  });

  it("is aborted with its request, and hands the lease on", async () => {
    const { source, process, readAll, setUp } = observing();
    await setUp();
    const aborted = new AbortController();
    const held = gate();
    source.hold = held.passed;
    const first = read(process, QUERY, { request: { signal: aborted.signal } });
    await settle();
    aborted.abort();
    held.open();
    await first;
    await settle();
    source.hold = undefined;
    expect(await readAll()).toBe(1);
    expect(observed(process).at(-1)).toBe("hit same");
  });
});

describe("the counts of observed reads", () => {
  it("are part of the inspection, by field, with their ratios", async () => {
    const clock = new FakeClock();
    const cache = createCache({ testing: { clock }, logger: { info: () => undefined, warn: () => undefined } });
    onTestFinished(() => cache.close());
    let version = 1;
    const typeDefs = "type Query { value: Int @cached(maxAge: 60) other: Int @cached(maxAge: 60) }";
    const schema = applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
        resolvers: [{ Query: { value: () => version } }, inspectionResolvers(cache, { allow: () => true })],
      }),
      cache,
    );
    const ask = async (source: string) => {
      const data = await dataOf(graphql({ schema, source, contextValue: {} }));
      await settle();
      await clock.advance(1);
      return data;
    };
    await cache.setMode("observe", { coordinate: "Query.value" });
    for (let nth = 1; nth <= 5; nth++) {
      if (nth === 5) version = 2;
      await ask("{ value }");
    }
    const counts = `reads hit stale miss bypassed hitRatio compared different differentRatio comparedStale differentStale`;
    expect(await ask(`{ cacheInspection { fields { coordinate mode observed { ${counts} } } } }`)).toEqual({
      cacheInspection: {
        fields: [
          {
            coordinate: "Query.value",
            mode: "OBSERVE",
            observed: {
              reads: 5,
              hit: 4,
              stale: 0,
              miss: 1,
              bypassed: 0,
              hitRatio: 0.8,
              compared: 4,
              different: 1,
              differentRatio: 0.25,
              comparedStale: 0,
              differentStale: 0,
            },
          },
          { coordinate: "Query.other", mode: "ON", observed: null },
        ],
      },
    });
  });
});
