import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLObjectType, graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { Listener } from "../../../src/core/telemetry/events.js";
import { countedReads } from "../../support/counted-reads.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top(n: Int): [Int!] @cached(maxAge: 60)
    own(n: Int): Int @cached(maxAge: 60, scope: PRIVATE)
    ofTeam: Int @cached(maxAge: 60, tags: ["Team:{$context.team}"])
    film: Film @cached(maxAge: 60)
    still: Film @cached(maxAge: 60, readOnly: true)
  }
  type Film { title: String premiere: Float cast: [String!] }
`;

interface Context {
  readonly userId?: string;
  readonly team?: string;
  readonly year?: number;
}

/** A clock on which no time passes, so that memory serves whatever it has. */
const clock = { now: () => 0, after: () => () => undefined, afterTick: (fn: () => void) => void setImmediate(fn) };

/** A process with memory that counts for two seconds on a memory store, which counts the reads of the store. */
function startProcess(onEvent?: Listener, film: () => object = () => ({})) {
  const counted = countedReads(memoryStore({ clock }));
  const { store } = counted;
  const counts = Object.assign(counted.counts, { loads: 0 });
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store,
    prefix: "memory",
    memory: { maxStalenessMs: 2_000 },
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
  const resolvers = {
    Query: {
      top: () => [load()],
      own: load,
      ofTeam: load,
      film: () => (load(), film()),
      still: () => (load(), film()),
    },
    Film,
  };
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

/** Asks twice, so that the value is stored and in memory. */
async function warm({ ask }: ReturnType<typeof startProcess>, query: string, context?: Context): Promise<void> {
  await ask(query, { ...context });
  await new Promise((resolve) => setImmediate(resolve));
  await ask(query, { ...context });
}

describe("A hit in memory", () => {
  it("returns the value of a field synchronously, without a read of the store", async () => {
    const one = startProcess();
    await warm(one, "{ top(n: 1) }");
    const { reads } = one.counts;
    const { resolve } = (one.schema.getQueryType() as GraphQLObjectType).getFields().top as { resolve?: unknown };
    const value: unknown = (resolve as (...args: unknown[]) => unknown)(
      undefined,
      { n: 1 },
      {},
      { schema: one.schema, variableValues: {} },
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
    expect(await loader(context).prime(7, 9).load(7)).toBe(1);
    expect(await loader({}).prime(7, 9).load(7)).toBe(9);
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
      // The key is remembered, and its value with it.
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

describe("A change of a value in memory", () => {
  const withDate = () => ({ title: "Ran", premiere: new Date(0), cast: ["Mieko Harada"] });
  const plain = () => ({ title: "Ran", cast: ["Mieko Harada"] });
  const film = () => ({ title: "Ran", crew: { cast: ["Mieko Harada"] } });

  it.each(["production", "development"])(
    "is seen by no other reader of a field: NODE_ENV is %s",
    async (environment) => {
      vi.stubEnv("NODE_ENV", environment);
      onTestFinished(() => void vi.unstubAllEnvs());
      const one = startProcess(undefined, plain);
      await warm(one, "{ film { cast } }");
      const { reads } = one.counts;
      for (const userId of ["alice", "bob"])
        expect(await one.ask("{ film { cast } }", { userId })).toEqual({ film: { cast: ["Mieko Harada", userId] } });
      expect(await one.ask("{ film { cast } again: film { cast } }")).toEqual({
        film: { cast: ["Mieko Harada"] },
        again: { cast: ["Mieko Harada"] },
      });
      expect(one.counts).toEqual({ loads: 1, reads });
    },
  );

  it("is seen by no other reader in one execution", async () => {
    const one = startProcess(undefined, plain);
    await warm(one, "{ film { cast } }");
    const { film, again } = await one.ask("{ film { cast } again: film { cast } }", { userId: "alice" });
    expect([film, again]).toEqual([{ cast: ["Mieko Harada", "alice"] }, { cast: ["Mieko Harada", "alice"] }]);
  });

  it("is seen by no other reader if the value has parts that JSON does not have", async () => {
    const one = startProcess(undefined, withDate);
    await warm(one, "{ film { premiere } }");
    const { reads } = one.counts;
    expect(await one.ask("{ film { premiere } }", { year: 1985 })).toEqual({ film: { premiere: 1985 } });
    expect(await one.ask("{ film { premiere } }")).toEqual({ film: { premiere: 1970 } });
    expect(one.counts).toEqual({ loads: 1, reads });
  });

  it.each([
    ["in strict code", (cast: string[]) => void cast.push("x")],
    [
      "in sloppy code",
      new Function("cast", "cast.push('x'); cast.extra = 1; cast[0] = 'y';") as (cast: string[]) => void,
    ],
  ])("is seen by no other reader of a loader: %s", async (_, change) => {
    const one = startProcess();
    const films = one.cache.loader<number, ReturnType<typeof film>>({
      name: "Film",
      maxAge: 60,
      batch: async (ids) => ids.map(film),
    });
    for (let reader = 0; reader < 5; reader++) {
      const value = await films({}).load(7);
      expect(value).toEqual(film());
      change(value.crew.cast);
      Object.assign(value, { title: "", crew: undefined });
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  it("is seen by no other reader if a loader has read the value and it has parts that JSON does not have", async () => {
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

  it("throws if the policy is `readOnly`, whose readers share one frozen value", async () => {
    const one = startProcess(undefined, plain);
    await warm(one, "{ still { cast } }");
    const { errors } = await graphql({
      schema: one.schema,
      source: "{ still { cast } }",
      contextValue: { userId: "alice" },
    });
    expect(errors?.[0]?.message).toContain("not extensible");
    expect(await one.ask("{ still { cast } }")).toEqual({ still: { cast: ["Mieko Harada"] } });
    expect(one.counts.loads).toBe(1);
  });
});
