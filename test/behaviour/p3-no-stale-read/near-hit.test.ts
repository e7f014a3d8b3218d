import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLObjectType, graphql } from "graphql";
import { applyCached, type CacheOptions, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { Listener } from "../../../src/core/telemetry/events.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top(n: Int): [Int!] @cached(maxAge: 60)
    own(n: Int): Int @cached(maxAge: 60, scope: PRIVATE)
    ofTeam: Int @cached(maxAge: 60, tags: ["Team:{$context.team}"])
    film: Film @cached(maxAge: 60)
  }
  type Film { title: String premiere: Float cast: [String!] }
`;

interface Context {
  readonly userId?: string;
  readonly team?: string;
  readonly year?: number;
}

/** A clock on which no time passes, so that the near cache serves whatever it has. */
const clock = { now: () => 0, after: () => () => undefined, afterTick: (fn: () => void) => void setImmediate(fn) };

/** A process with a near cache on a memory store, which counts the reads of the store. */
function startProcess(
  onEvent?: Listener,
  nearCache: NonNullable<CacheOptions["nearCache"]> = {},
  film: () => object = () => ({}),
) {
  const counts = { reads: 0, loads: 0 };
  const inner = memoryStore({ clock });
  const store = new Proxy(inner, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        if (property === "read") counts.reads++;
        return value.apply(target, args) as unknown;
      };
    },
  }) as Store;
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store,
    prefix: "near",
    nearCache,
    identify: ({ userId }) => userId,
    privacy: { sharedContextKeys: ["team"] },
    defaults: { jitter: 0, earlyRefresh: 0 },
    testing: { clock },
    ...(onEvent === undefined ? {} : { onEvent }),
  });
  onTestFinished(() => cache.close());
  const load = () => ++counts.loads;
  const Film = {
    // What a careless resolver does: it changes its parent.
    premiere: (parent: { premiere: Date }, _: unknown, { year }: Context) => {
      if (year !== undefined) parent.premiere.setUTCFullYear(year);
      return parent.premiere.getUTCFullYear();
    },
    cast: (parent: { cast: string[] }, _: unknown, { userId }: Context) => {
      if (userId !== undefined) parent.cast.push(userId);
      return parent.cast;
    },
  };
  const resolvers = { Query: { top: () => [load()], own: load, ofTeam: load, film: () => (load(), film()) }, Film };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  const ask = async (source: string, contextValue: Context = {}) => {
    const { data, errors } = await graphql({ schema, source, contextValue });
    expect(errors).toBeUndefined();
    return JSON.parse(JSON.stringify(data)) as Record<string, unknown>;
  };
  const loader = cache.loader<number, number>({
    name: "N",
    maxAge: 60,
    tags: (id) => [`N:${id}:1`],
    batch: async (ids) => ids.map(load),
  });
  return { cache, schema, counts, ask, loader };
}

/** Asks twice, so that the value is stored and then read into the near cache. */
async function warm({ ask }: ReturnType<typeof startProcess>, query: string, context?: Context): Promise<void> {
  await ask(query, { ...context });
  await new Promise((resolve) => setImmediate(resolve));
  await ask(query, { ...context });
}

describe("A hit of the near cache", () => {
  it("returns the value of a field synchronously, without a read of the store", async () => {
    const one = startProcess();
    await warm(one, "{ top(n: 1) }");
    const { reads } = one.counts;
    const { resolve } = (one.schema.getQueryType() as GraphQLObjectType).getFields().top as { resolve?: unknown };
    const value: unknown = (resolve as (...args: unknown[]) => unknown)(
      undefined,
      { n: 1 },
      {},
      { schema: one.schema },
    );
    expect(value).toEqual([1]);
    expect(one.counts).toEqual({ reads, loads: 1 });
  });

  it("is reported to the observer of its request, and counted", async () => {
    const one = startProcess();
    await warm(one, "{ top(n: 1) }");
    const { requestStates, counters } = partsOf(one.cache, "test");
    const hits = counters.of("Query.top").hit;
    const reports: unknown[] = [];
    const context = {};
    requestStates.observe(context, {
      onRead: (coordinate, report) =>
        reports.push({ coordinate, ...report, subjects: report.outcome === "hit" && report.subjects }),
    });
    await one.ask("{ top(n: 1) again: top(n: 1) }", context);
    const times = { freshForMs: 60_000, ageMs: 0 };
    const report = { coordinate: "Query.top", outcome: "hit", isPrivate: false, ...times, subjects: [] };
    expect(reports).toEqual([report, report]);
    expect(counters.of("Query.top").hit).toBe(hits + 2);
  });

  it("is not given to a request that loads every value now, nor to one without the cache", async () => {
    const one = startProcess();
    await warm(one, "{ top(n: 1) }");
    const [refresh, bypass] = [{}, {}];
    one.cache.override(refresh, "REFRESH");
    one.cache.override(bypass, "BYPASS");
    expect(await one.ask("{ top(n: 1) }", refresh)).toEqual({ top: [2] });
    expect(await one.ask("{ top(n: 1) }", bypass)).toEqual({ top: [3] });
    expect(await one.ask("{ top(n: 1) }")).toEqual({ top: [2] });
  });

  it("belongs to one identity, and needs one", async () => {
    const one = startProcess();
    await warm(one, "{ own(n: 1) }", { userId: "a" });
    await warm(one, "{ own(n: 1) }", { userId: "b" });
    expect(await one.ask("{ own(n: 1) }", { userId: "a" })).toEqual({ own: 1 });
    expect(await one.ask("{ own(n: 1) }", { userId: "b" })).toEqual({ own: 2 });
    expect(await one.ask("{ own(n: 1) }")).toEqual({ own: 3 });
  });

  it("is not given to a request whose own tags were invalidated since, although the value does not have them", async () => {
    const one = startProcess();
    await warm(one, "{ ofTeam }", { team: "a" });
    expect(await one.ask("{ ofTeam }", { team: "a" })).toEqual({ ofTeam: 1 });
    expect(await one.ask("{ ofTeam }", { team: "b" })).toEqual({ ofTeam: 1 });
    await one.cache.invalidateTags(["Team:b"]);
    expect(await one.ask("{ ofTeam }", { team: "a" })).toEqual({ ofTeam: 1 });
    expect(await one.ask("{ ofTeam }", { team: "b" })).toEqual({ ofTeam: 2 });
  });

  it("is given by a loader, unless the request has read the id before", async () => {
    const one = startProcess();
    const { loader, counts } = one;
    await loader({}).load(7);
    await new Promise((resolve) => setImmediate(resolve));
    await loader({}).load(7);
    const { reads } = counts;
    const context = {};
    expect(await Promise.all([loader(context).load(7), loader(context).load(7)])).toEqual([1, 1]);
    expect(counts.reads).toBe(reads);
    expect(await loader(context).prime(7, 9).load(7)).toBe(9);
  });

  it("is given by a loader until this process invalidates the id, one of its tags, or everything", async () => {
    const one = startProcess();
    const { cache, counts, loader } = one;
    const invalidations = [
      () => cache.invalidate({ loader: "N", id: 7 }),
      () => cache.invalidateTags(["N:7:1"]),
      () => cache.invalidate({ loader: "N" }),
      () => cache.clear(),
    ];
    for (const invalidate of invalidations) {
      await loader({}).load(7);
      await new Promise((resolve) => setImmediate(resolve));
      await loader({}).load(7);
      const { reads, loads } = counts;
      // The key is remembered, and its entry of the near cache with it.
      for (let hits = 0; hits < 3; hits++) expect(await loader({}).load(7)).toBe(loads);
      expect(counts).toEqual({ reads, loads });
      await invalidate();
      expect(await loader({}).load(7)).toBe(loads + 1);
    }
  });

  it("has its value also if a listener invalidates the entry while it is served", async () => {
    const invalidated: Promise<void>[] = [];
    const state = { isOn: false };
    const one = startProcess((event) => {
      if (!state.isOn || event.name !== "entry.served") return;
      const target = event.coordinate === "N" ? { loader: "N", id: 7 } : { coordinate: "Query.top", args: { n: 1 } };
      invalidated.push(one.cache.invalidate(target));
    });
    await warm(one, "{ top(n: 1) }");
    await one.loader({}).load(7);
    await new Promise((resolve) => setImmediate(resolve));
    await one.loader({}).load(7);
    const { reads } = one.counts;
    state.isOn = true;
    const field = one.ask("{ top(n: 1) }");
    const loaded = one.loader({}).load(7);
    expect([await field, await loaded]).toEqual([{ top: [1] }, 2]);
    expect(one.counts.reads).toBe(reads);
    await Promise.all(invalidated);
    expect(invalidated).toHaveLength(2);
  });
});

describe("A change of a value that the near cache serves", () => {
  afterEach(() => vi.unstubAllEnvs());

  const film = () => ({ title: "Ran", premiere: new Date(0), cast: ["Mieko Harada"] });
  const messageOf = async (one: ReturnType<typeof startProcess>, source: string, contextValue: Context) =>
    (await graphql({ schema: one.schema, source, contextValue })).errors?.[0]?.message;

  it.each(["production", "development"])("throws, and no other reader sees it: NODE_ENV is %s", async (environment) => {
    vi.stubEnv("NODE_ENV", environment);
    const one = startProcess(undefined, {}, () => ({ title: "Ran", cast: ["Mieko Harada"] }));
    await warm(one, "{ film { cast } }");
    expect(await messageOf(one, "{ film { cast } }", { userId: "alice" })).toContain("not extensible");
    expect(await one.ask("{ film { cast } }")).toEqual({ film: { cast: ["Mieko Harada"] } });
    expect(one.counts.loads).toBe(1);
  });

  it("is seen by no other reader if the value has parts that cannot be frozen", async () => {
    vi.stubEnv("NODE_ENV", "production");
    const one = startProcess(undefined, {}, film);
    await warm(one, "{ film { premiere } }");
    const { reads } = one.counts;
    expect(await one.ask("{ film { premiere } }", { year: 1985 })).toEqual({ film: { premiere: 1985 } });
    expect(await one.ask("{ film { premiere } }")).toEqual({ film: { premiere: 1970 } });
    expect(one.counts).toEqual({ loads: 1, reads });
  });

  it("is seen by no other reader if a loader has read the value and it has parts that cannot be frozen", async () => {
    vi.stubEnv("NODE_ENV", "production");
    const one = startProcess();
    const films = one.cache.loader<number, { premiere: Date }>({
      name: "Film",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => ({ premiere: new Date(id) })),
    });
    const read = async (): Promise<Date> => (await films({}).load(0)).premiere;
    await read();
    await new Promise((resolve) => setImmediate(resolve));
    await read();
    const { reads } = one.counts;
    (await read()).setUTCFullYear(1985);
    expect((await read()).getUTCFullYear()).toBe(1970);
    expect(one.counts.reads).toBe(reads);
  });

  it("is seen by all readers if values are not to be frozen", async () => {
    const one = startProcess(undefined, { freeze: false }, film);
    await warm(one, "{ film { premiere cast } }");
    await one.ask("{ film { premiere cast } }", { year: 1985, userId: "Akira Terao" });
    expect(await one.ask("{ film { premiere cast } }")).toEqual({
      film: { premiere: 1985, cast: ["Mieko Harada", "Akira Terao"] },
    });
  });
});
