import { type GraphQLObjectType, graphql } from "graphql";
import { applyCached, memoryStore } from "graphql-cached";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { Listener } from "../../../src/core/telemetry/events.js";
import { countedReads } from "../../support/counted-reads.js";
import { listen, schemaOf } from "../../support/listen.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top(n: Int): [Int!] @cached(maxAge: 60)
    film: Film @cached(maxAge: 60)
    still: Film @cached(maxAge: 60, readOnly: true)
  }
  type Film { premiere: Float cast: [String!] }
`;

interface Context {
  readonly userId?: string;
  readonly year?: number;
}
interface Film {
  cast: string[];
  premiere?: Date;
}

/** A clock on which no time passes, so that memory serves whatever it has. */
const clock = { now: () => 0, after: () => () => undefined, afterTick: (fn: () => void) => void setImmediate(fn) };
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** A process with memory that counts for two seconds on a memory store, which counts the reads of the store. */
function startProcess({ onEvent, film = () => ({ cast: [] }) }: { onEvent?: Listener; film?: () => Film } = {}) {
  const counted = countedReads(memoryStore({ clock }));
  const { store } = counted;
  const counts = Object.assign(counted.counts, { loads: 0 });
  const { cache } = listen<Context>({
    store,
    prefix: "memory",
    memory: { maxStalenessMs: 2_000 },
    defaults: { jitter: 0, earlyRefresh: 0 },
    testing: { clock },
    ...(onEvent === undefined ? {} : { onEvent }),
  });
  const load = () => ++counts.loads;
  const loadFilm = () => (load(), film());
  const resolvers = {
    Query: { top: () => [load()], film: loadFilm, still: loadFilm },
    // What a careless resolver does: it changes its parent.
    Film: {
      premiere: ({ premiere = new Date() }: Film, _: unknown, { year }: Context) => {
        if (year !== undefined) premiere.setUTCFullYear(year);
        return premiere.getUTCFullYear();
      },
      cast: ({ cast }: Film, _: unknown, { userId }: Context) => {
        if (userId !== undefined) cast.push(userId);
        return cast;
      },
    },
  };
  const schema = applyCached(schemaOf(typeDefs, resolvers), cache);
  const execute = (source: string, contextValue: Context = {}) => graphql({ schema, source, contextValue });
  const ask = async (source: string, context?: Context) => {
    const { data, errors } = await execute(source, context);
    expect(errors).toBeUndefined();
    return JSON.parse(JSON.stringify(data)) as Record<string, unknown>;
  };
  const batch = async (ids: readonly number[]) => ids.map(load);
  const loader = cache.loader({ name: "N", maxAge: 60, tags: (id) => [`N:${id}:1`], batch });
  /** Reads twice, so that the value is stored and in memory. Returns the number of reads of the store. */
  const warm = async (read: string | (() => unknown), context?: Context): Promise<number> => {
    for (let nth = 0; nth < 2; nth++) {
      await (typeof read === "string" ? ask(read, { ...context }) : read());
      await nextTurn();
    }
    return counts.reads;
  };
  return { cache, schema, counts, ask, execute, loader, warm };
}

describe("A hit in memory", () => {
  it("returns the value of a field synchronously, without a read of the store", async () => {
    const { schema, counts, warm } = startProcess();
    const reads = await warm("{ top(n: 1) }");
    const { resolve } = (schema.getQueryType() as GraphQLObjectType).getFields().top as { resolve?: unknown };
    const call = resolve as (...args: unknown[]) => unknown;
    expect(call(undefined, { n: 1 }, {}, { schema, variableValues: {} })).toEqual([1]);
    expect(counts).toEqual({ reads, loads: 1 });
  });

  it("is reported to the observer of its request, and counted", async () => {
    const { cache, ask, warm } = startProcess();
    await warm("{ top(n: 1) }");
    const { requestStates, counters } = partsOf(cache, "test");
    const hits = counters.of("Query.top").hit;
    const reports: unknown[] = [];
    const context = {};
    requestStates.observe(context, {
      onRead: (coordinate, report) =>
        reports.push({ coordinate, ...report, subjects: report.outcome === "hit" && report.subjects }),
    });
    await ask("{ top(n: 1) again: top(n: 1) }", context);
    const times = { freshForMs: 60_000, ageMs: 0, staleForMs: 0 };
    const report = {
      coordinate: "Query.top",
      outcome: "hit",
      hasFailed: false,
      isPrivate: false,
      ...times,
      subjects: [],
    };
    expect(reports).toEqual([report, report]);
    expect(counters.of("Query.top").hit).toBe(hits + 2);
  });

  it("is not given to a request that loads every value now, nor to one without the cache", async () => {
    const { cache, ask, warm } = startProcess();
    await warm("{ top(n: 1) }");
    for (const [mode, value] of [
      ["REFRESH", 2],
      ["BYPASS", 3],
    ] as const) {
      const context = {};
      cache.override(context, mode);
      expect(await ask("{ top(n: 1) }", context)).toEqual({ top: [value] });
    }
    expect(await ask("{ top(n: 1) }")).toEqual({ top: [2] });
  });

  it("is given by a loader, unless the request has read the id before", async () => {
    const { loader, counts, warm } = startProcess();
    const reads = await warm(() => loader({}).load(7));
    const context = {};
    expect(await Promise.all([loader(context).load(7), loader(context).load(7)])).toEqual([1, 1]);
    expect(counts.reads).toBe(reads);
    expect(await loader(context).prime(7, 9).load(7)).toBe(1);
    expect(await loader({}).prime(7, 9).load(7)).toBe(9);
  });

  it("has its value also if a listener invalidates the entry while it is served", async () => {
    const invalidated: Promise<void>[] = [];
    let isOn = false;
    const { cache, ask, loader, counts, warm } = startProcess({
      onEvent: (event) => {
        if (!isOn || event.name !== "entry.served") return;
        const target = event.coordinate === "N" ? { loader: "N", id: 7 } : { coordinate: "Query.top", args: { n: 1 } };
        invalidated.push(cache.invalidate(target));
      },
    });
    await warm("{ top(n: 1) }");
    const reads = await warm(() => loader({}).load(7));
    isOn = true;
    const [field, loaded] = [ask("{ top(n: 1) }"), loader({}).load(7)];
    expect([await field, await loaded, counts.reads]).toEqual([{ top: [1] }, 2, reads]);
    await Promise.all(invalidated);
    expect(invalidated).toHaveLength(2);
  });
});

describe("A change of a value in memory", () => {
  const film = (): Film => ({ cast: ["Mieko Harada"] });
  const dated = (): Film => ({ cast: ["Mieko Harada"], premiere: new Date(0) });

  it.each(["production", "development"])(
    "is seen by no other reader of a field, of the same execution or of another: NODE_ENV is %s",
    async (environment) => {
      vi.stubEnv("NODE_ENV", environment);
      onTestFinished(() => void vi.unstubAllEnvs());
      const { ask, counts, warm } = startProcess({ film });
      const reads = await warm("{ film { cast } }");
      for (const userId of ["alice", "bob", undefined]) {
        const cast = ["Mieko Harada", ...(userId === undefined ? [] : [userId])];
        const answer = await ask("{ film { cast } again: film { cast } }", userId === undefined ? {} : { userId });
        expect(answer).toEqual({ film: { cast }, again: { cast } });
      }
      expect(counts).toEqual({ loads: 1, reads });
    },
  );

  it("is seen by no other reader of a field if the value has parts that JSON does not have", async () => {
    const { ask, counts, warm } = startProcess({ film: dated });
    const reads = await warm("{ film { premiere } }");
    expect(await ask("{ film { premiere } }", { year: 1985 })).toEqual({ film: { premiere: 1985 } });
    expect(await ask("{ film { premiere } }")).toEqual({ film: { premiere: 1970 } });
    expect(counts).toEqual({ loads: 1, reads });
  });

  const sloppy = new Function("cast", "cast.push('x'); cast.extra = 1; cast[0] = 'y';") as (cast: string[]) => void;
  it.each<[string, () => unknown, (value: never) => unknown]>([
    ["in strict code", film, ({ cast }: Film) => cast.push("x")],
    ["in sloppy code", film, ({ cast }: Film) => sloppy(cast)],
    ["of properties", film, (value: Film) => Object.assign(value, { cast: undefined, title: "" })],
    ["of an object without others", () => ({ id: 7 }), (value: { id: number }) => (value.id = 8)],
    ["of a list in a list", () => [1, [2]], ([, inner]: [number, number[]]) => inner.push(3)],
    ["of a Date", dated, ({ premiere }: Film) => premiere?.setUTCFullYear(1985)],
    ["of a Map", () => new Map([["a", 1]]), (value: Map<string, number>) => value.clear()],
    ["of a Buffer", () => Buffer.from("abc"), (value: Buffer) => value.fill(0)],
  ])("is seen by no other reader of a loader or a function: %s", async (_, make, change) => {
    const { cache, counts, warm } = startProcess();
    const films = cache.loader({ name: "Film", maxAge: 60, batch: async (ids: readonly number[]) => ids.map(make) });
    const call = cache.wrap({ name: "film", maxAge: 60, load: (_id: number) => make() });
    for (const read of [() => films({}).load(7), () => call(7)]) {
      const reads = await warm(async () => change((await read()) as never));
      for (let reader = 0; reader < 3; reader++) {
        const value = await read();
        expect(value).toEqual(make());
        change(value as never);
      }
      expect(counts.reads).toBe(reads);
    }
  });

  it("throws if the policy is `readOnly`, whose readers share one frozen value", async () => {
    const { ask, execute, counts, warm } = startProcess({ film });
    await warm("{ still { cast } }");
    const { errors } = await execute("{ still { cast } }", { userId: "alice" });
    expect(errors?.[0]?.message).toContain("not extensible");
    expect(await ask("{ still { cast } }")).toEqual({ still: { cast: ["Mieko Harada"] } });
    expect(counts.loads).toBe(1);
  });
});
