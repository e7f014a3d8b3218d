import { deflateRawSync } from "node:zlib";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
} from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  enum Order { NEWEST OLDEST }
  type Query {
    movie(id: ID!, order: Order): Int
      @cached(maxAge: 600, staleWhileRevalidate: 60, profile: "shop", tags: ["Movie:{$args.id}"])
    genre(name: String!): Int @cached(maxAge: 60, key: ["$args.name"])
    broken: Int @cached(maxAge: 60)
    owner: Owner
  }
  type Owner { id: ID!  wealth: Int @cached(maxAge: 60) }
`;
const START_AT = 1_000_000_000;

interface ProcessOptions extends CacheOptions<object> {
  readonly fields?: string;
  readonly allow?: (context: object, detail?: { readonly kind: string; readonly coordinate: string }) => boolean;
}

/** Returns what gives a store other reports. */
const withReports = (reports: Store["reports"]) => (store: Store) =>
  new Proxy(store, {
    get: (target, property) => {
      const value: unknown = property === "reports" ? reports : Reflect.get(target, property, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });

/** Simulated processes on one store and clock. */
function createFleet(wrap: (store: Store) => Store = (store) => store) {
  const clock = new FakeClock(START_AT);
  const store = wrap(memoryStore({ clock }));
  const loading: { gate: Promise<void> | undefined; ms: number } = { gate: undefined, ms: 0 };
  const process = ({ fields = typeDefs, allow = () => true, ...options }: ProcessOptions = {}) => {
    const cache = createCache<object>({
      store,
      prefix: "fleet",
      testing: { clock },
      defaults: { earlyRefresh: 0, jitter: 0 },
      profiles: { shop: { negativeMaxAge: 5, version: "3" } },
      inspection: { report: true },
      logger: { info: () => undefined, warn: () => undefined },
      ...options,
    });
    onTestFinished(() => cache.close());
    const load = async (): Promise<number> => {
      await loading.gate;
      if (loading.ms > 0) await clock.advance(loading.ms);
      return 1;
    };
    const resolvers = {
      Query: {
        movie: load,
        genre: load,
        broken: () => Promise.reject(new Error("no")),
        owner: () => ({ id: "7" }),
      },
      Owner: { wealth: load },
    };
    const schema = applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, inspectionTypeDefs, fields],
        resolvers: [resolvers, inspectionResolvers(cache, { allow })],
        resolverValidationOptions: { requireResolversToMatchSchema: "ignore" },
      }),
      cache,
    );
    const names = cache.loader<string, string>({
      name: "Name",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => `name ${id}`),
    });
    const ask = async (source: string) => {
      const { data, errors } = await graphql({ schema, source, contextValue: {} });
      await settle();
      return { data, errors };
    };
    return {
      cache,
      ask,
      names: async (id: string) => {
        await names({}).load(id);
        await settle();
      },
      inspect: async (selection: string): Promise<Record<string, unknown>> => {
        const { data, errors } = await ask(`{ cacheInspection { ${selection} } }`);
        expect(errors).toBeUndefined();
        return JSON.parse(JSON.stringify((data as { cacheInspection: unknown }).cacheInspection));
      },
    };
  };
  return { clock, process, loading, store };
}

const INTERVAL_MS = 5_000;

describe("cacheInspection.stats", () => {
  it("count neither reads that bypass the cache nor refreshes as saved loads", async () => {
    const { process } = createFleet();
    const { ask, inspect, cache } = process();
    await ask("{ movie(id: 1) }");
    await ask("{ movie(id: 1) }");
    cache.setMode("off", "Query.movie");
    for (let nth = 0; nth < 5; nth++) await ask("{ movie(id: 1) }");
    expect(await inspect("stats { reads bypassed loads refreshes loadsSaved }")).toEqual({
      stats: { reads: 7, bypassed: 5, loads: 1, refreshes: 0, loadsSaved: 1 },
    });
  });

  it("adds the counts of all processes, fields and loaders alike, as soon as they are reported", async () => {
    const { clock, process } = createFleet();
    const [one, two] = [process(), process()];
    await one.ask("{ movie(id: 1) }");
    await two.ask("{ movie(id: 1) a: movie(id: 1) }");
    await two.names("x");
    // Those of the process that answers are live.
    expect(await one.inspect("stats { reads processes missing }")).toEqual({
      stats: { reads: 1, processes: 2, missing: [] },
    });
    await clock.advance(INTERVAL_MS);
    for (const { inspect } of [one, two])
      expect(await inspect("stats { reads hit loaded loads loadsSaved hitRatio }")).toEqual({
        stats: { reads: 3, hit: 1, loaded: 2, loads: 2, loadsSaved: 1, hitRatio: 1 / 3 },
      });
    const { fields } = await one.inspect("fields { coordinate stats { reads hit loads } }");
    expect(fields).toEqual([
      { coordinate: "Query.movie", stats: { reads: 2, hit: 1, loads: 1 } },
      { coordinate: "Query.genre", stats: { reads: 0, hit: 0, loads: 0 } },
      { coordinate: "Query.broken", stats: { reads: 0, hit: 0, loads: 0 } },
      { coordinate: "Owner.wealth", stats: { reads: 0, hit: 0, loads: 0 } },
      { coordinate: "Name", stats: { reads: 1, hit: 0, loads: 1 } },
    ]);
  });

  it("counts outcomes, reasons, loads, waits and bytes, in total and for each field", async () => {
    const { clock, process, loading } = createFleet();
    const one = process();
    const other = process();
    loading.ms = 40;
    // The second request waits for the load of the first, in another process.
    await Promise.all([one.ask("{ movie(id: 1) }"), other.ask("{ movie(id: 1) }")]);
    loading.ms = 0;
    await one.ask("{ movie(id: 1) broken }");
    one.cache.override({}, "BYPASS");
    await clock.advance(INTERVAL_MS);
    const { stats } = await one.inspect(
      `stats(window: ONE_MINUTE) { reads hit loaded coalesced bypassed bypasses { reason reads } loads failedLoads
        loadMs { count meanMs p50Ms p90Ms p99Ms } waitMs { count p50Ms } storedBytes readBytes refusedStores storeFailures }`,
    );
    expect(stats).toMatchObject({ reads: 4, hit: 1, loaded: 2, coalesced: 1, bypassed: 0, loads: 2, failedLoads: 1 });
    const { loadMs, waitMs, storedBytes, readBytes } = stats as {
      readonly storedBytes: number;
      readonly readBytes: number;
      readonly loadMs: Record<string, number>;
      readonly waitMs: Record<string, number>;
    };
    expect(loadMs).toMatchObject({ count: 1, meanMs: 40 });
    for (const name of ["p50Ms", "p90Ms", "p99Ms"])
      expect(Math.abs((loadMs[name] as number) / 40 - 1)).toBeLessThan(0.091);
    expect(waitMs.count).toBe(1);
    expect(waitMs.p50Ms).toBeGreaterThan(36);
    expect(storedBytes).toBeGreaterThan(20);
    // The hit, and the one that waited and then read the entry.
    expect(readBytes).toBe(2 * storedBytes);
  });

  it("names the reasons of bypasses, most frequent first", async () => {
    const { process } = createFleet();
    const { cache, inspect, names } = process();
    const bypassed = {};
    cache.override(bypassed, "BYPASS");
    const film = cache.loader<string, string>({
      name: "Film",
      maxAge: 60,
      scope: "PUBLIC",
      batch: async (ids) => [...ids],
    });
    await film(bypassed).load("a");
    await film(bypassed).load("b");
    await cache.close();
    await names("x");
    expect(await inspect("stats { bypassed bypasses { reason reads } }")).toEqual({
      stats: {
        bypassed: 3,
        bypasses: [
          { reason: "REQUESTED", reads: 2 },
          { reason: "CLOSED", reads: 1 },
        ],
      },
    });
  });

  it("covers whole buckets of ten seconds, one minute and five minutes, and says since when", async () => {
    const { clock, process } = createFleet();
    const { names, inspect } = process();
    await names("x");
    const shown = async (): Promise<unknown[]> => {
      const spans = ["ONE_MINUTE", "TEN_MINUTES", "ONE_HOUR", "SINCE_START"].map(
        (window) => `${window}: stats(window: ${window}) { reads since until }`,
      );
      return Object.values(await inspect(spans.join(" ")));
    };
    const now = iso(START_AT);
    expect(await shown()).toEqual([
      { reads: 1, since: iso(START_AT - 60_000), until: now },
      { reads: 1, since: iso(START_AT - 600_000), until: now },
      { reads: 1, since: iso(START_AT - 3_600_000), until: now },
      { reads: 1, since: now, until: now },
    ]);
    const readsAfter = async (ms: number): Promise<number[]> => {
      await clock.advance(ms);
      return ((await shown()) as { readonly reads: number }[]).map(({ reads }) => reads);
    };
    // The read is in the bucket that was counted up to the inspection at the start.
    expect(await readsAfter(59_999)).toEqual([1, 1, 1, 1]);
    expect(await readsAfter(1)).toEqual([0, 1, 1, 1]);
    expect(await readsAfter(600_000 - 60_001)).toEqual([0, 1, 1, 1]);
    expect(await readsAfter(1)).toEqual([0, 0, 1, 1]);
    expect(await readsAfter(3_000_000 - 1)).toEqual([0, 0, 1, 1]);
    expect(await readsAfter(1)).toEqual([0, 0, 0, 1]);
  });

  it("shows the same window at every process, also of one that was quiet for a while", async () => {
    const { clock, process } = createFleet();
    const [one, two] = [process(), process()];
    await one.names("x");
    await clock.advance(7 * 60_000);
    await two.names("x");
    await two.names("y");
    await clock.advance(INTERVAL_MS);
    for (const { inspect } of [one, two])
      expect(
        await inspect(
          "a: stats(window: ONE_MINUTE) { reads } b: stats(window: TEN_MINUTES) { reads processes missing }",
        ),
      ).toEqual({ a: { reads: 2 }, b: { reads: 3, processes: 2, missing: [] } });
  });

  it("includes what a process has counted until its cache was closed, for 70 minutes", async () => {
    const { clock, process } = createFleet();
    const [one, two] = [process(), process()];
    await two.names("x");
    await two.cache.close();
    expect(await one.inspect("stats { reads missing }")).toEqual({ stats: { reads: 1, missing: [] } });
    expect(await one.inspect("processes { isThis isAlive missing }")).toEqual({
      processes: [
        { isThis: true, isAlive: true, missing: null },
        { isThis: false, isAlive: false, missing: null },
      ],
    });
    await clock.advance(69 * 60_000);
    expect(await one.inspect("stats { reads missing }")).toEqual({ stats: { reads: 1, missing: [] } });
    await clock.advance(60_000);
    expect(await one.inspect("stats { reads processes } processes { isThis }")).toEqual({
      stats: { reads: 0, processes: 1 },
      processes: [{ isThis: true }],
    });
  });

  it("keeps processes that have nothing to report alive, and their totals", async () => {
    const { clock, process } = createFleet();
    const [one, two] = [process(), process()];
    await two.names("x");
    await clock.advance(3 * 3_600_000);
    expect(await one.inspect("stats { reads missing } processes { isAlive }")).toEqual({
      stats: { reads: 1, missing: [] },
      processes: [{ isAlive: true }, { isAlive: true }],
    });
  });

  it("lists what only other processes have, without a policy", async () => {
    const { clock, process } = createFleet();
    const [one, two] = [process(), process()];
    const { fields } = await one.inspect("fields { coordinate policy { maxAge } }");
    expect(fields).toHaveLength(5);
    const films = two.cache.loader<string, string>({ name: "Film", maxAge: 60, batch: async (ids) => [...ids] });
    await films({}).load("x");
    await clock.advance(INTERVAL_MS);
    const { fields: later } = await one.inspect(
      "fields { coordinate maxAge scope variant policy { maxAge } stats { reads } }",
    );
    expect((later as readonly object[])[5]).toEqual({
      coordinate: "Film",
      maxAge: null,
      scope: null,
      variant: null,
      policy: null,
      stats: { reads: 1 },
    });
  });

  it("says that it lacks all other processes if the store keeps no reports, or does not reply", async () => {
    const none = createFleet(withReports(undefined)).process();
    await none.names("x");
    const stats = "stats(window: ONE_MINUTE) { reads processes missing }";
    expect(await none.inspect(stats)).toEqual({
      stats: { reads: 1, processes: 1, missing: ["all other processes: the store keeps no reports of processes"] },
    });
    const reject = () => Promise.reject(new Error("away"));
    const away = createFleet(withReports({ write: reject, list: reject, read: reject, ask: reject }));
    const one = away.process();
    await one.names("x");
    await away.clock.advance(INTERVAL_MS);
    expect(await one.inspect(`${stats} hotKeys { reads } processes { missing }`)).toEqual({
      stats: { reads: 1, processes: 1, missing: ["all other processes: their reports could not be read: away"] },
      hotKeys: { reads: 0 },
      processes: [{ missing: "all other processes: their reports could not be read: away" }],
    });
    await one.names("x");
    expect(await one.inspect("stats { storeFailures }")).toEqual({ stats: { storeFailures: 0 } });
  });

  it("says that it lacks all other processes if the store throws, which fails neither requests nor other parts of the inspection", async () => {
    const fail = (): never => {
      throw new Error("not connected");
    };
    const broken: Readonly<Record<string, unknown>> = {
      reports: { write: fail, list: fail, read: fail, ask: fail },
      appendHistory: fail,
      readHistory: fail,
    };
    const wrap = (store: Store) =>
      new Proxy(store, {
        get: (target, property) => {
          const value: unknown = broken[String(property)] ?? Reflect.get(target, property, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      });
    const { clock, process } = createFleet(wrap);
    const { ask, cache, inspect } = process();
    await cache.invalidate({ coordinate: "Query.movie", args: { id: "1" } });
    await clock.advance(INTERVAL_MS);
    expect(await ask("{ movie(id: 1) }")).toEqual({ data: { movie: 1 }, errors: undefined });
    const missing = ["all other processes: their reports could not be read: not connected"];
    expect(
      await inspect(
        `stats { reads missing } hotKeys { reads } processes { isThis } states { leases }
        entry(coordinate: "Query.movie", args: { id: "1" }) { state }`,
      ),
    ).toEqual({
      stats: { reads: 1, missing },
      hotKeys: { reads: 0 },
      processes: [{ isThis: true }],
      states: [{ leases: 0 }],
      entry: { state: "VALUE" },
    });
    const { errors } = await ask("{ cacheInspection { invalidations { count } } }");
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(["CACHED_STORE_UNAVAILABLE"]);
  });

  it("skips what reports of a later release have in another shape, and reports that it did", async () => {
    const { clock, process, store } = createFleet();
    const one = process();
    await one.names("x");
    const info = {
      host: "h",
      pid: 1,
      version: "9",
      nodeVersion: "v",
      startedAt: START_AT,
      reportEveryMs: 5_000,
      isClosed: false,
    };
    const counted = {
      fromAt: START_AT,
      toAt: START_AT,
      tallies: [["Name", { reads: 5, "loadMs.longest": 7, more: 1 }]],
    };
    const written = (id: string, parts: Record<string, object>) =>
      store.reports?.write({
        process: id,
        sequence: 1,
        parts: Object.entries(parts).map(([name, content]) => ({
          name,
          keepMs: 3_600_000,
          bytes: deflateRawSync(JSON.stringify({ format: 1, ...content })),
        })),
      });
    await clock.advance(1);
    await written("known", { info, total: counted });
    const unknownInfos = [
      { ...info, startedAt: "noon" },
      { ...info, pid: 2 ** 40 },
      { ...info, startedAt: 1e300 },
    ];
    for (const [nth, each] of unknownInfos.entries()) await written(`info${nth}`, { info: each, total: counted });
    const unknownCounts = [
      { ...counted, tallies: { Name: { reads: 5 } } },
      { ...counted, tallies: [["Name", { reads: "many" }]] },
      { ...counted, toAt: null },
      { ...counted, hot: { fromAt: START_AT, reads: 1, floor: 0, keys: [["Name", "d", "1", 0]] } },
      { ...counted, hot: [] },
    ];
    for (const [nth, total] of unknownCounts.entries()) await written(`counts${nth}`, { info, total });
    const state = { format: 1, leases: [], events: "none" };
    await written("state", { info: { ...info, state }, total: counted });
    await clock.advance(INTERVAL_MS);
    const { stats, processes, ...others } = (await one.inspect(
      `stats { reads missing loadMs { count p50Ms } } hotKeys(window: SINCE_START) { reads } processes { id missing }
      fields { coordinate } states { leases } leases { state } events { name } store { nodes { node } }`,
    )) as { stats: { reads: number; missing: string[] }; processes: { id: string; missing: string | null }[] };
    expect(stats.reads).toBe(1 + 5 + 3 * 5 + 5);
    expect(stats.missing).toHaveLength(8);
    expect(others).toMatchObject({ hotKeys: { reads: 0 }, states: [{ leases: 0 }], leases: [] });
    const unknown = processes.filter(({ missing }) => missing?.startsWith("everything")).map(({ id }) => id);
    expect(new Set(unknown)).toEqual(new Set(["info0", "info1", "info2"]));
  });

  it("says that it lacks all other processes if the store never replies, which neither throws nor keeps the cache from being closed", async () => {
    const never = new Promise<never>(() => undefined);
    const reports = { write: () => never, list: () => never, read: () => never, ask: () => never };
    const { clock, process } = createFleet(withReports(reports));
    const { cache, inspect } = process({ storage: { storeTimeoutMs: 50 } });
    await clock.advance(10_000);
    const asked = inspect("stats { missing }");
    await settle();
    await clock.advance(100);
    expect(await asked).toEqual({
      stats: { missing: ["all other processes: their reports could not be read: no reply within 100 ms"] },
    });
    const closed = cache.close();
    await clock.advance(600);
    await closed;
  });

  it("says that it may lack processes if as many have reported as the store lists", async () => {
    const { clock, store, process } = createFleet();
    const one = process();
    const write = (id: string) => store.reports?.write({ process: id, sequence: 1, parts: [] });
    for (let nth = 0; nth < 998; nth++) await write(`p${nth}`);
    await clock.advance(INTERVAL_MS);
    const lacking = async () =>
      (await one.inspect("stats(window: ONE_MINUTE) { missing }")) as { stats: { missing: string[] } };
    const sentence = "processes other than the 1000 that have reported last, if there are any";
    expect((await lacking()).stats.missing).not.toContain(sentence);
    await write("another");
    await write("yet-another");
    expect((await lacking()).stats.missing).toContain(sentence);
  });

  it("reports later what could not be written", async () => {
    let isAway = false;
    const { clock, process } = createFleet((store) => {
      const { reports } = store;
      if (reports === undefined) throw new Error("expected a store with reports");
      const write: typeof reports.write = (report) =>
        isAway ? Promise.reject(new Error("away")) : reports.write(report);
      const failing = {
        write,
        list: () => reports.list(),
        read: reports.read.bind(reports),
        ask: reports.ask.bind(reports),
      };
      return new Proxy(store, {
        get: (target, property) => {
          const value: unknown = property === "reports" ? failing : Reflect.get(target, property, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      });
    });
    const [one, two] = [process(), process()];
    await clock.advance(INTERVAL_MS);
    isAway = true;
    await two.names("x");
    await clock.advance(20_000);
    const selection = "stats { reads missing } a: stats(window: ONE_MINUTE) { reads } processes { isAlive }";
    const { stats, processes } = await one.inspect(selection);
    expect(stats).toEqual({
      reads: 0,
      missing: [
        expect.stringMatching(/^process [\w-]+: what it has counted after its last report, in 5000 ms at most/),
      ],
    });
    expect(processes).toEqual([{ isAlive: true }, { isAlive: false }]);
    isAway = false;
    await clock.advance(INTERVAL_MS);
    expect(await one.inspect(selection)).toEqual({
      stats: { reads: 1, missing: [] },
      a: { reads: 1 },
      processes: [{ isAlive: true }, { isAlive: true }],
    });
  });
});

describe("reports of processes", () => {
  it("are written again, all of them, when the store has lost them", async () => {
    let reports: Store["reports"];
    const { clock, process } = createFleet((store) => {
      reports = store.reports;
      return new Proxy(store, {
        get: (target, property) => {
          if (property !== "reports") {
            const value: unknown = Reflect.get(target, property, target);
            return typeof value === "function" ? (value.bind(target) as unknown) : value;
          }
          return new Proxy({} as NonNullable<Store["reports"]>, {
            get: (_, name) => (Reflect.get(reports as object, name) as () => unknown).bind(reports),
          });
        },
      });
    });
    const [one, two] = [process(), process()];
    await two.names("x");
    await clock.advance(30_000);
    const selection = "stats { reads missing } a: stats(window: ONE_MINUTE) { reads }";
    const complete = { stats: { reads: 1, missing: [] }, a: { reads: 1 } };
    expect(await one.inspect(selection)).toEqual(complete);
    ({ reports } = memoryStore({ clock }));
    expect(await one.inspect(selection)).toEqual({ stats: { reads: 0, missing: [] }, a: { reads: 0 } });
    await clock.advance(2 * INTERVAL_MS);
    expect(await one.inspect(selection)).toEqual(complete);
  });

  it.each([
    ["with inspection resolvers on a shared store", true, {}, true],
    ["with inspection resolvers on a store of this process alone", false, {}, false],
    ["that are told not to", true, { report: false }, false],
    ["that are told to", false, { report: true }, true],
  ])("are written by those %s: %s", async (_, isShared, inspection, isReporting) => {
    const { clock, process, store } = createFleet((inner) => {
      Object.defineProperty(inner, "isShared", { value: isShared });
      return inner;
    });
    const { names } = process({ inspection });
    await names("x");
    await clock.advance(INTERVAL_MS);
    expect(await store.reports?.list()).toMatchObject({ processes: isReporting ? [{}] : [] });
  });

  it("are written without inspection resolvers only if an option asks for them", async () => {
    for (const [inspection, count] of [
      [{}, 0],
      [{ report: true }, 1],
    ] as const) {
      const clock = new FakeClock();
      const store = memoryStore({ clock });
      Object.defineProperty(store, "isShared", { value: true });
      const cache = createCache({ store, prefix: "x", testing: { clock }, inspection });
      await clock.advance(INTERVAL_MS);
      await cache.close();
      expect((await store.reports?.list())?.processes).toHaveLength(count);
    }
  });
});

describe("cacheInspection.fields", () => {
  it("shows every setting of the policies in force", async () => {
    const { process } = createFleet();
    const { fields } = await process().inspect(
      `fields { coordinate policy { maxAge maxAgeLimit staleWhileRevalidate refresh neverExpires staleIfError negativeMaxAge
        jitter earlyRefresh scope readOnly key tags profile version followsHints } }`,
    );
    const plain = {
      maxAgeLimit: null,
      staleWhileRevalidate: 0,
      refresh: "BACKGROUND",
      neverExpires: false,
      staleIfError: 0,
      jitter: 0,
      earlyRefresh: 0,
      scope: "PUBLIC",
      readOnly: false,
      profile: null,
      version: null,
      followsHints: false,
    };
    expect(fields).toEqual([
      {
        coordinate: "Query.movie",
        policy: {
          ...plain,
          maxAge: 600,
          staleWhileRevalidate: 60,
          negativeMaxAge: 5,
          key: ["$args"],
          tags: ["Movie:{$args.id}"],
          profile: "shop",
          version: "3",
        },
      },
      {
        coordinate: "Query.genre",
        policy: { ...plain, maxAge: 60, negativeMaxAge: 10, key: ["$args.name"], tags: [] },
      },
      { coordinate: "Query.broken", policy: { ...plain, maxAge: 60, negativeMaxAge: 10, key: ["$args"], tags: [] } },
      {
        coordinate: "Owner.wealth",
        policy: {
          ...plain,
          maxAge: 60,
          negativeMaxAge: 10,
          key: ["$args", "$source.id"],
          tags: [],
        },
      },
      { coordinate: "Name", policy: { ...plain, maxAge: 60, negativeMaxAge: 10, key: null, tags: null } },
    ]);
  });
});

describe("cacheInspection.hotKeys", () => {
  const KEYS =
    "hotKeys(window: ONE_HOUR) { reads maxError since keys { coordinate digest reads maxError args source id } }";

  it("counts the reads of all processes by key once it is requested, and stops ten minutes after the last request", async () => {
    const { clock, process } = createFleet();
    const [one, two] = [process(), process()];
    const readsOf = async (): Promise<unknown> => (await one.inspect("hotKeys { reads }")).hotKeys;
    await one.names("before");
    expect(await readsOf()).toEqual({ reads: 0 });
    await one.names("x");
    // The other process learns of it with its next report.
    await clock.advance(INTERVAL_MS);
    await two.names("x");
    await two.names("y");
    await clock.advance(INTERVAL_MS);
    const { hotKeys } = await one.inspect(KEYS);
    expect(hotKeys).toMatchObject({
      reads: 3,
      maxError: 0,
      since: iso(START_AT),
      keys: [
        { coordinate: "Name", reads: 2, maxError: 0, id: "x" },
        { coordinate: "Name", reads: 1, maxError: 0, id: null },
      ],
    });
    await clock.advance(10 * 60_000 + 2 * INTERVAL_MS);
    for (const { names } of [one, two]) await names("late");
    await clock.advance(INTERVAL_MS);
    expect((await one.inspect(KEYS)).hotKeys).toMatchObject({ reads: 0, keys: [] });
  });

  it("shows arguments as clients write them, the parent's properties and ids, so that they lead to the entry", async () => {
    const { process } = createFleet();
    const { ask, inspect, names } = process();
    await inspect("hotKeys { reads }");
    await ask('{ movie(id: 7, order: NEWEST) genre(name: "a \\"b\\"") owner { wealth } }');
    await names("x");
    const { hotKeys } = await inspect(KEYS);
    const shown = (hotKeys as { readonly keys: readonly Record<string, unknown>[] }).keys.map(
      ({ coordinate, args, source, id }) => ({ coordinate, args, source, id }),
    );
    expect(shown).toEqual([
      { coordinate: "Query.movie", args: { id: "7", order: "NEWEST" }, source: {}, id: null },
      { coordinate: "Query.genre", args: { name: 'a "b"' }, source: {}, id: null },
      { coordinate: "Owner.wealth", args: {}, source: { id: "7" }, id: null },
      { coordinate: "Name", args: null, source: null, id: "x" },
    ]);
    expect(await inspect('entry(coordinate: "Query.movie", args: { id: "7", order: NEWEST }) { state }')).toEqual({
      entry: { state: "VALUE" },
    });
  });

  it("shows arguments only to callers to whom `allow` grants them, by coordinate", async () => {
    const { process } = createFleet();
    const asked: unknown[] = [];
    const { ask, inspect, names } = process({
      allow: (_context, detail) => {
        asked.push(detail);
        return detail === undefined || detail.coordinate === "Name";
      },
    });
    await inspect("hotKeys { reads }");
    await ask("{ movie(id: 7) }");
    await ask("{ movie(id: 7) }");
    await names("x");
    asked.length = 0;
    const { hotKeys } = await inspect(KEYS);
    expect((hotKeys as { readonly keys: unknown }).keys).toMatchObject([
      { coordinate: "Query.movie", reads: 2, args: null, source: null, id: null },
      { coordinate: "Name", reads: 1, id: "x" },
    ]);
    expect(asked).toEqual([
      undefined,
      { kind: "arguments", coordinate: "Query.movie" },
      { kind: "arguments", coordinate: "Name" },
    ]);
  });

  it("finds the keys of a Zipf load over four processes within the stated error", async () => {
    const { clock, process } = createFleet();
    const fleet = [process(), process(), process(), process()];
    await fleet[0]?.inspect("hotKeys { reads }");
    await clock.advance(INTERVAL_MS);
    // 3,000 keys; the reads of key n are in proportion to 1 / n.
    const random = mulberry(7);
    const total = Array.from({ length: 3_000 }, (_, nth) => 1 / (nth + 1)).reduce((sum, share) => sum + share, 0);
    const draw = (): string => {
      let left = random() * total;
      let nth = 0;
      do left -= 1 / ++nth;
      while (left > 0 && nth < 3_000);
      return `key ${nth}`;
    };
    const truth = new Map<string, number>();
    for (let round = 0; round < 5; round++) {
      for (const { names } of fleet)
        await Promise.all(
          Array.from({ length: 500 }, () => {
            const id = draw();
            truth.set(id, (truth.get(id) ?? 0) + 1);
            return names(id);
          }),
        );
      await clock.advance(INTERVAL_MS);
    }
    const { hotKeys } = await (fleet[0] as (typeof fleet)[number]).inspect(
      "hotKeys(first: 100) { reads maxError keys { id reads maxError } }",
    );
    const { reads, maxError, keys } = hotKeys as {
      readonly reads: number;
      readonly maxError: number;
      readonly keys: readonly { readonly id: string | null; readonly reads: number; readonly maxError: number }[];
    };
    expect(reads).toBe(10_000);
    expect(maxError).toBeGreaterThan(0);
    expect(maxError).toBeLessThanOrEqual(reads / 100);
    const named = keys.filter(({ id }) => id !== null);
    for (const key of named) {
      const count = truth.get(key.id as string) as number;
      expect(key.reads).toBeGreaterThanOrEqual(count);
      expect(key.reads - key.maxError).toBeLessThanOrEqual(count);
      expect(key.maxError).toBeLessThanOrEqual(maxError);
    }
    const shown = new Set(keys.map(({ id }) => id));
    const last = keys.at(-1)?.reads as number;
    for (const [id, count] of truth) if (count > Math.max(maxError, last)) expect(shown, id).toContain(id);
  });

  it("counts 100 keys of every process exactly, whatever their shares", async () => {
    const { clock, process } = createFleet();
    const [one, two] = [process(), process()];
    await one.inspect("hotKeys { reads }");
    await clock.advance(INTERVAL_MS);
    for (const [nth, { names }] of [one, two].entries())
      for (let id = 0; id < 50; id++) for (let times = -1; times < id % 3; times++) await names(`${nth} ${id}`);
    await clock.advance(INTERVAL_MS);
    const { hotKeys } = await one.inspect("hotKeys(first: 100) { reads maxError keys { reads maxError } }");
    const reads = Array.from({ length: 100 }, (_, nth) => 1 + ((nth % 50) % 3)).sort((a, b) => b - a);
    expect(hotKeys).toEqual({
      reads: reads.reduce((sum, count) => sum + count, 0),
      maxError: 0,
      keys: reads.map((count) => ({ reads: count, maxError: 0 })),
    });
  });

  it("refuses a number of keys that it cannot keep its bound for", async () => {
    const { ask } = createFleet().process();
    const { errors } = await ask("{ cacheInspection { hotKeys(first: 101) { reads } } }");
    expect(errors?.[0]).toMatchObject({
      message: "cacheInspection.hotKeys: `first`: expected an integer from 1 to 100, got 101",
      extensions: { code: "CACHED_OPTION_INVALID" },
    });
  });
});

const iso = (ms: number): string => new Date(ms).toISOString();

/** A small generator of random numbers that are the same in every run. */
function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
