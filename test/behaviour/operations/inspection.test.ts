import { deflateRawSync } from "node:zlib";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { graphql } from "graphql";
import { applyCached, type CacheOptions, inspectionResolvers, inspectionTypeDefs, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { inspect } from "../../support/inspection.js";
import { listen, schemaOf } from "../../support/listen.js";

const typeDefs = /* GraphQL */ `
  enum Order { NEWEST OLDEST }
  input Page { size: Int = 10 order: Order }
  type Query {
    list(order: Order = NEWEST, page: Page = {}, of: ID): Int
      @cached(maxAge: 60, tags: ["List:{$args.order}:{$args.page.size}", "Of:{$args.of}"])
    movie(id: ID!): Movie
      @cached(maxAge: 60, staleWhileRevalidate: 60, staleIfError: 600, tags: ["Movie:{$args.id}", "Genre:{$result.genre}"])
    mine: Int @cached(maxAge: 60, scope: PRIVATE)
    live: Int @cached(maxAge: 60)
  }
  type Mutation {
    rename(id: ID!): Boolean @invalidates(tags: ["Movie:{$args.id}"])
    relist: Boolean @invalidates(tags: ["List"])
  }
  type Movie {
    id: ID!
    genre: String!
  }
`;

/** An answer, which each test knows. */
type Json = ReturnType<typeof JSON.parse>;

interface Context {
  readonly userId?: number;
}

/** A store in memory that several processes share, and their clock. */
const newWorld = () => {
  const clock = new FakeClock();
  return { clock, store: memoryStore({ clock }) };
};

interface SiteOptions extends CacheOptions<Context> {
  readonly store?: Store;
  readonly allow?: () => boolean;
}

/** A process with cached fields, two loaders and the inspection query. */
function createSite({ clock, store }: { clock: FakeClock; store: Store } = newWorld(), options: SiteOptions = {}) {
  const { allow = () => true, ...cacheOptions } = options;
  const { cache } = listen<Context>({
    store,
    testing: { clock },
    defaults: { earlyRefresh: 0, jitter: 0 },
    identify: ({ userId }) => userId,
    ...cacheOptions,
  });
  const batch = async (ids: readonly number[]): Promise<readonly number[]> => ids;
  const prices = cache.loader({
    name: "Price",
    maxAge: 30,
    staleWhileRevalidate: 30,
    version: "2",
    tags: (id: number) => [`Price:${id}`],
    batch,
  });
  const discounts = cache.loader({ name: "Discount", maxAge: 40, scope: "PRIVATE", batch });
  const source = { isFailing: false, opened: Promise.resolve() };
  const resolvers = {
    Query: {
      movie: async (_: unknown, { id }: { id: string }) => {
        await source.opened;
        if (source.isFailing) throw new Error("the source is down: secret");
        return { id, genre: "drama" };
      },
      mine: () => 1,
      live: () => 1,
      list: () => 1,
    },
    Mutation: { rename: () => true, relist: () => true },
    Order: { NEWEST: -1, OLDEST: 1 },
  };
  const schema = applyCached(
    schemaOf(`${inspectionTypeDefs}${typeDefs}`, [resolvers, inspectionResolvers(cache, { allow })]),
    cache,
  );
  const ask = async (query: string, contextValue: Context = {}) => {
    const result = await graphql({ schema, source: query, contextValue });
    await settle();
    return result;
  };
  const inspect = async (selection: string): Promise<Json> => {
    const { data, errors } = await ask(`{ cacheInspection { ${selection} } }`);
    expect(errors).toBeUndefined();
    return JSON.parse(JSON.stringify((data as { cacheInspection: unknown }).cacheInspection));
  };
  const entry = async (target: string, selection = "state use reasons { reason }"): Promise<Json> =>
    (await inspect(`entry(${target}) { ${selection} }`)).entry;
  const mistake = async (selection: string): Promise<string | undefined> => {
    const [error] = (await ask(`{ cacheInspection { ${selection} } }`)).errors ?? [];
    // Servers mask errors without a code of their own.
    if (error !== undefined) expect(error.extensions.code).toMatch(/^CACHED_/);
    return error?.message;
  };
  /** Looks at the entry of a movie while it is loaded. */
  const whileLoading = async (look: () => Promise<void>): Promise<void> => {
    const loading = gate();
    source.opened = loading.passed;
    const asked = ask(READ_MOVIE);
    await settle();
    await look();
    loading.open();
    await asked;
  };
  return { cache, clock, ask, inspect, entry, mistake, prices, discounts, source, whileLoading };
}

const FRESH = { state: "VALUE", use: "FRESH", reasons: [] };
const ABSENT = { state: "ABSENT", use: "NONE", reasons: [] };
const MOVIE = 'coordinate: "Query.movie", args: { id: 1 }';
const READ_MOVIE = "{ movie(id: 1) { genre } }";
/** The bytes of a report of another process. `version`: as long as the report shall be. */
const reportOf = (total: Json, minutes: Json, version = "1"): Uint8Array => {
  const times = { startedAt: 0, reportedAt: 0 };
  const info = { id: "other", host: "", pid: 1, version, nodeVersion: "", ...times };
  return deflateRawSync(JSON.stringify({ format: 1, info, details: { total, minutes, events: [] } }));
};
/** The time between two reports of a process. */
const REPORT_MS = 5_000;

describe("cacheInspection", () => {
  it.each([
    ["returns anything but true", () => "yes" as unknown as boolean],
    ["throws", () => (undefined as never as { allowed: boolean }).allowed],
  ])("is denied if allow %s", async (_, allow) => {
    const { ask } = createSite(newWorld(), { allow });
    const { errors } = await ask("{ cacheInspection { missing } }");
    expect(errors?.[0]?.extensions.code).toBe("CACHED_INSPECTION_DENIED");
  });
});

describe("cacheInspection.policies", () => {
  it("lists fields and loaders with the whole policy in force", async () => {
    const { policies } = await createSite().inspect(
      `policies { coordinate kind variant policy { maxAge maxAgeLimit staleWhileRevalidate refresh neverExpires staleIfError negativeMaxAge
        jitter earlyRefresh scope readOnly key tags version followsHints } }`,
    );
    const names = policies.map(({ coordinate, kind }: Record<string, unknown>) => `${kind} ${coordinate}`);
    expect(names.join(", ")).toBe(
      "FIELD Query.list, FIELD Query.live, FIELD Query.mine, FIELD Query.movie, LOADER Discount, LOADER Price",
    );
    expect(policies[3]).toEqual({
      coordinate: "Query.movie",
      kind: "FIELD",
      variant: expect.stringMatching(/^[0-9a-zA-Z_-]{6,}$/),
      policy: {
        maxAge: 60,
        maxAgeLimit: null,
        staleWhileRevalidate: 60,
        refresh: "BACKGROUND",
        neverExpires: false,
        staleIfError: 600,
        negativeMaxAge: 10,
        jitter: 0,
        earlyRefresh: 0,
        scope: "PUBLIC",
        readOnly: false,
        key: ["$args"],
        tags: ["Genre:{$result.genre}", "Movie:{$args.id}"],
        version: null,
        followsHints: false,
      },
    });
    expect(policies[4].policy).toMatchObject({ maxAge: 40, scope: "PRIVATE", key: null, tags: null });
    expect(policies[5].policy).toMatchObject({ maxAge: 30, version: "2" });
  });

  it("names the mutation fields that reach a field by tag", async () => {
    const { policies } = await createSite().inspect("policies { coordinate invalidatedBy }");
    const reached = policies.map(({ coordinate, invalidatedBy }: Record<string, unknown>) => [
      coordinate,
      invalidatedBy,
    ]);
    const [list, movie] = [["Mutation.relist"], ["Mutation.rename"]];
    expect(Object.fromEntries(reached)).toEqual({
      ...{ "Query.list": list, "Query.live": [], "Query.mine": [], "Query.movie": movie },
      ...{ Discount: [], Price: [] },
    });
  });

  it("names the mutation fields that return entities which a field can contain, and none whose tags end otherwise", async () => {
    const { cache } = listen();
    const sdl = /* GraphQL */ `
      type Query {
        shelf: Shelf @cached(maxAge: 60)
        hall: Hall @cached(maxAge: 60)
        seats(id: ID!): Int @cached(maxAge: 60, tags: ["Hall:{$args.id}:seats"])
      }
      type Mutation { lend(id: ID!): Book count: Int open(id: ID!): Int @invalidates(tags: ["Hall:{$args.id}:doors"]) }
      type Shelf { books: [Book!] }
      type Book { id: ID! shelf: Shelf }
      type Hall { size: Int }
    `;
    applyCached(schemaOf(sdl), cache, { entityTags: true });
    expect((await inspect(cache, "policies { coordinate invalidatedBy }")).policies).toEqual([
      { coordinate: "Query.hall", invalidatedBy: [] },
      { coordinate: "Query.seats", invalidatedBy: [] },
      { coordinate: "Query.shelf", invalidatedBy: ["Mutation.lend"] },
    ]);
  });
});

describe("cacheInspection.entry", () => {
  it("shows the entries of loaders by id, and those of PRIVATE ones by identity", async () => {
    const { entry, prices, discounts } = createSite();
    await prices({}).load(7);
    await discounts({ userId: 8 }).load(7);
    await settle();
    expect(await entry('coordinate: "Price", id: 7')).toEqual(FRESH);
    expect(await entry('coordinate: "Price", id: "7"')).toEqual(ABSENT);
    expect(await entry('coordinate: "Discount", id: 7, private: 8')).toEqual(FRESH);
    expect(await entry('coordinate: "Discount", id: 7, private: "8"')).toEqual(FRESH);
    expect(await entry('coordinate: "Discount", id: 7, private: 9')).toEqual(ABSENT);
  });

  it("shows PRIVATE entries of numeric identities, written as a number or a string", async () => {
    const { ask, entry } = createSite();
    await ask("{ mine }", { userId: 8 });
    for (const identity of ["8", '"8"'])
      expect(await entry(`coordinate: "Query.mine", private: ${identity}`)).toEqual(FRESH);
  });

  it.each([
    ["without an id", 'coordinate: "Price"', "loader `Price`: `id`: expected the id of the entry, got nothing"],
    ["with args", 'coordinate: "Price", args: { id: 7 }', "`args`: unknown property; known are loader, id, private"],
    ["without an identity", 'coordinate: "Discount", id: 7', "`private`: expected the identity that owns the entry"],
    ["with an identity", 'coordinate: "Price", id: 7, private: 8', "belong to no identity; leave it out"],
    [
      "of no loader",
      'coordinate: "Prices", id: 7',
      "known fields: Query.list, Query.movie, Query.mine, Query.live; known loaders: Price, Discount",
    ],
    ["of a field", 'coordinate: "Query.movie", id: 7', "`id`: unknown property; known are coordinate, args, source"],
  ])("says what is wrong with a target of a loader %s", async (_, target, expected) => {
    expect(await createSite().mistake(`entry(${target}) { state }`)).toContain(expected);
  });

  it("shows age, remaining freshness, how long it is served, load time and size", async () => {
    const { ask, clock, entry } = createSite();
    const times = "ageMs freshForMs servableForMs loadMs storedBytes negative";
    expect(await entry(MOVIE, times)).toEqual({
      ageMs: null,
      freshForMs: null,
      servableForMs: null,
      loadMs: null,
      storedBytes: null,
      negative: false,
    });
    await ask(READ_MOVIE);
    await clock.advance(20_000);
    expect(await entry(MOVIE, times)).toMatchObject({
      ageMs: 20_000,
      freshForMs: 40_000,
      servableForMs: 640_000,
      loadMs: 0,
      negative: false,
    });
    expect((await entry(MOVIE, times)).storedBytes).toBeGreaterThan(10);
  });

  it("counts the freshness of a value that a release with a longer maxAge has stored by its own maxAge", async () => {
    const { clock, store } = newWorld();
    const { entry } = createSite({ clock, store });
    const { cache: other } = listen({ store, testing: { clock }, defaults: { jitter: 0 } });
    const batch = async (ids: readonly number[]) => ids;
    const options = { name: "Price", version: "2", tags: (id: number) => [`Price:${id}`], batch };
    await other
      .loader<number, number>({ ...options, maxAge: 600 })({})
      .load(7);
    await clock.advance(20_000);
    expect(await entry('coordinate: "Price", id: 7', "use freshForMs")).toEqual({ use: "FRESH", freshForMs: 10_000 });
  });

  it("says when each tag was last invalidated, and shows digests of those that are derived from the value", async () => {
    const { ask, cache, clock, entry } = createSite();
    await ask(READ_MOVIE);
    const tags = async () => (await entry(MOVIE, "tags { text digest invalidatedAt isSoft }")).tags;
    const never = { digest: expect.any(String), invalidatedAt: null, isSoft: false };
    expect(await tags()).toEqual([
      { ...never, text: "Movie:1" },
      { ...never, text: null },
      { ...never, text: null },
    ]);
    await clock.advance(5_000);
    const at = new Date(clock.now()).toISOString();
    await cache.invalidateTags(["Genre:drama"], { soft: true });
    expect((await tags()).filter(({ invalidatedAt }: Record<string, unknown>) => invalidatedAt !== null)).toEqual([
      { text: null, digest: expect.any(String), invalidatedAt: at, isSoft: true },
    ]);
  });

  it("says of an invalidated entry why it does not count, since when, and who has invalidated it", async () => {
    const { ask, clock, entry, inspect } = createSite();
    await ask(READ_MOVIE);
    await clock.advance(1_000);
    const since = new Date(clock.now()).toISOString();
    await ask("mutation { rename(id: 1) }");
    await clock.advance(3_000);
    const [{ id }] = (await inspect("processes { id }")).processes;
    const selection = "use reasons { reason since tag invalidation { process at invalidation { via mutation kind } } }";
    expect(await entry(MOVIE, selection)).toEqual({
      use: "NONE",
      reasons: [
        {
          reason: "TAG_INVALIDATED",
          since,
          tag: "Movie:1",
          invalidation: {
            process: id,
            at: since,
            invalidation: { via: "@invalidates", mutation: "Mutation.rename", kind: "HARD" },
          },
        },
      ],
    });
  });

  it("shows entries as invalidated after a hard invalidation of any kind", async () => {
    const { ask, cache, entry } = createSite();
    const ways = [
      ["TAG_INVALIDATED", () => cache.invalidateTags(["Movie:1"])],
      ["TAG_INVALIDATED", () => cache.invalidateTags(["Genre:drama"])],
      ["KEY_INVALIDATED", () => cache.invalidate({ coordinate: "Query.movie", args: { id: 1 } })],
      ["FIELD_INVALIDATED", () => cache.invalidate({ coordinate: "Query.movie" })],
      ["CLEARED", () => cache.clear()],
    ] as const;
    for (const [reason, invalidate] of ways) {
      await ask(READ_MOVIE);
      expect(await entry(MOVIE)).toEqual(FRESH);
      await invalidate();
      expect(await entry(MOVIE)).toMatchObject({ use: "NONE", reasons: [{ reason }] });
    }
  });

  it("shows a value that was invalidated by its tag as that only, also while it is loaded again", async () => {
    const { ask, cache, entry, whileLoading } = createSite();
    await ask(READ_MOVIE);
    await cache.invalidateTags(["Genre:drama"]);
    await whileLoading(async () =>
      expect(await entry(MOVIE, "reasons { reason } lease { hasWaiters }")).toEqual({
        reasons: [{ reason: "TAG_INVALIDATED" }],
        lease: { hasWaiters: false },
      }),
    );
  });

  it("shows a value that is too old as expired by its age, also while it is loaded after a pause for its source", async () => {
    const world = newWorld();
    const { ask, entry, source, whileLoading } = createSite(world, { loads: { errorMaxAgeMs: 3_600_000 } });
    await ask(READ_MOVIE);
    const staleAt = new Date(world.clock.now() + 60_000).toISOString();
    await world.clock.advance(655_000);
    source.isFailing = true;
    await ask(READ_MOVIE);
    await world.clock.advance(6_000);
    const expired = { use: "NONE", reasons: [{ reason: "EXPIRED", since: staleAt }] };
    const isExpired = async () => expect(await entry(MOVIE, "use reasons { reason since }")).toEqual(expired);
    await isExpired();
    await whileLoading(isExpired);
  });

  it("shows entries as stale when their maxAge is over, and after a soft invalidation of any kind", async () => {
    const { ask, cache, clock, entry } = createSite();
    const soft = { soft: true };
    const ways: (readonly [string, () => Promise<unknown>])[] = [
      ["EXPIRED", () => clock.advance(60_000)],
      ["SOFTLY_INVALIDATED", () => cache.invalidate({ coordinate: "Query.movie", args: { id: 1 } }, soft)],
      ["SOFTLY_INVALIDATED", () => cache.invalidateTags(["Movie:1"], soft)],
      ["SOFTLY_INVALIDATED", () => cache.invalidateTags(["Genre:drama"], soft)],
      ["SOFTLY_INVALIDATED", () => cache.invalidate({ coordinate: "Query.movie" }, soft)],
      ["SOFTLY_INVALIDATED", () => cache.clear(soft)],
    ];
    for (const [reason, makeStale] of ways) {
      await ask(READ_MOVIE);
      expect(await entry(MOVIE)).toEqual(FRESH);
      await makeStale();
      const shown = await entry(MOVIE, "state use reasons { reason since } freshForMs");
      expect(shown).toMatchObject({ state: "VALUE", use: "STALE", freshForMs: 0 });
      expect(shown.reasons).toEqual([{ reason, since: new Date(clock.now()).toISOString() }]);
    }
  });

  it("shows entries of defaulted arguments and of enums with internal values as invalidated by their tags only", async () => {
    const { ask, cache, entry } = createSite();
    const calls: readonly (readonly [call: string, args: string, tag: string])[] = [
      ["list", "", "List:-1:10"],
      ["list(order: OLDEST)", "args: { order: OLDEST }", "List:1:10"],
      [
        'list(page: { order: NEWEST, size: 3 }, of: "7")',
        'args: { of: 7, page: { size: 3, order: "NEWEST" } }',
        "Of:7",
      ],
      ["list(page: { size: 4 })", "args: { page: { size: 4 }, order: NEWEST }", "List:-1:4"],
    ];
    const uses = (): Promise<unknown[]> =>
      Promise.all(calls.map(async ([, args]) => (await entry(`coordinate: "Query.list" ${args}`, "use")).use));
    for (const [nth, [, , tag]] of calls.entries()) {
      for (const [call] of calls) await ask(`{ ${call} }`);
      expect(await uses()).toEqual(calls.map(() => "FRESH"));
      await cache.invalidateTags([tag]);
      expect(await uses()).toEqual(calls.map((_, other) => (other === nth ? "NONE" : "FRESH")));
    }
  });

  it("shows who holds the lease on an entry, since when, and for how long", async () => {
    const { clock, entry, inspect, whileLoading } = createSite();
    await whileLoading(async () => {
      const since = new Date(clock.now()).toISOString();
      await clock.advance(1_000);
      const [{ id }] = (await inspect("processes { id }")).processes;
      const selection = "state use reasons { reason since } lease { process since endsInMs hasWaiters }";
      expect(await entry(MOVIE, selection)).toEqual({
        state: "PENDING",
        use: "NONE",
        reasons: [{ reason: "LOADING", since }],
        lease: { process: id, since, endsInMs: expect.any(Number), hasWaiters: false },
      });
    });
    expect(await entry(MOVIE, "lease { process }")).toEqual({ lease: null });
  });

  it("shows that a write is in progress, also where there is no entry", async () => {
    const { cache, entry } = createSite();
    await cache.mutate({ tags: ["Movie:1"] }, async () => {
      expect(await entry(MOVIE)).toEqual({ state: "ABSENT", use: "NONE", reasons: [{ reason: "WRITE_IN_PROGRESS" }] });
    });
  });

  it("shows that the last load has failed, and that an entry has expired", async () => {
    const { ask, clock, entry, source } = createSite();
    source.isFailing = true;
    await ask(READ_MOVIE);
    expect(await entry(MOVIE)).toMatchObject({ state: "FAILED", use: "NONE", reasons: [{ reason: "FAILED" }] });
    await clock.advance(30_000);
    source.isFailing = false;
    await ask(READ_MOVIE);
    await clock.advance(200_000);
    expect(await entry(MOVIE)).toMatchObject({ use: "STALE_IF_ERROR", reasons: [{ reason: "EXPIRED" }] });
  });
});

describe("cacheInspection.counts", () => {
  const COUNT = "reads hit stale loaded coalesced bypassed bypassedOnPurpose servedWithoutLoad loads";

  it("counts reads by outcome and loads, in total and for each field and loader", async () => {
    const { ask, cache, clock, inspect, prices, discounts } = createSite();
    await prices({}).loadMany([1, 2]);
    await settle();
    await prices({}).load(1);
    await discounts({}).load(1);
    await ask(READ_MOVIE);
    await clock.advance(60_000);
    await ask(READ_MOVIE);
    const context = {};
    cache.override(context, "BYPASS");
    await ask(READ_MOVIE, context);
    const { counts } = await inspect(
      `counts { processes since total { coordinate sinceStart { ${COUNT} loadMs { count p50Ms } } }
        fields { coordinate sinceStart { ${COUNT} refreshes bypasses { reason reads } } } }`,
    );
    expect(counts).toMatchObject({
      processes: 1,
      since: new Date(1_000_000).toISOString(),
      total: {
        coordinate: null,
        // A hit and a stale value, of the six reads that were not bypassed on purpose.
        sinceStart: { reads: 7, hit: 1, stale: 1, loaded: 3, bypassed: 2, bypassedOnPurpose: 1, loads: 4 },
      },
      fields: [
        {
          coordinate: "Discount",
          sinceStart: { reads: 1, bypassed: 1, bypassedOnPurpose: 0, bypasses: [{ reason: "NO_IDENTITY", reads: 1 }] },
        },
        { coordinate: "Price", sinceStart: { reads: 3, hit: 1, loaded: 2, servedWithoutLoad: 1 / 3 } },
        {
          coordinate: "Query.movie",
          sinceStart: {
            reads: 3,
            stale: 1,
            loaded: 1,
            refreshes: 1,
            servedWithoutLoad: 1 / 2,
            bypasses: [{ reason: "REQUESTED", reads: 1 }],
          },
        },
      ],
    });
    expect(counts.total.sinceStart.servedWithoutLoad).toBeCloseTo(2 / 6);
    expect(counts.total.sinceStart.loadMs.count).toBe(4);
  });

  it("counts by minute of the clock, for the last ten", async () => {
    const { ask, clock, inspect } = createSite();
    const minutes = async () =>
      (await inspect("counts { total { minutes { at count { reads } } } }")).counts.total.minutes.map(
        ({ at, count }: { at: string; count: { reads: number } }) => [Date.parse(at) / 60_000 - 16, count.reads],
      );
    await ask("{ live }");
    await clock.advance(61_000);
    await ask("{ live }");
    await ask("{ live }");
    expect(Object.fromEntries(await minutes())).toEqual({ 0: 1, 1: 2 });
    await clock.advance(8 * 60_000);
    await ask("{ live }");
    expect(Object.fromEntries(await minutes())).toEqual({ 0: 1, 1: 2, 9: 1 });
    await clock.advance(60_000);
    expect(Object.fromEntries(await minutes())).toEqual({ 1: 2, 9: 1 });
  });

  it("adds what other processes have counted as soon as they know that somebody asks, and shows that of one", async () => {
    const world = newWorld();
    const [one, other] = [createSite(world), createSite(world)];
    await one.ask("{ live }");
    await other.ask("{ live }");
    await other.ask("{ live }");
    const reads = "counts { processes total { sinceStart { reads } minutes { count { reads } } } }";
    expect((await one.inspect(reads)).counts).toMatchObject({ processes: 1, total: { sinceStart: { reads: 1 } } });
    await world.clock.advance(REPORT_MS);
    expect((await one.inspect(reads)).counts).toEqual({
      processes: 2,
      total: { sinceStart: { reads: 3 }, minutes: [{ count: { reads: 3 } }] },
    });
    const { processes } = await one.inspect("processes { id isThis isComplete }");
    expect(processes).toEqual([
      { id: expect.any(String), isThis: true, isComplete: true },
      { id: expect.any(String), isThis: false, isComplete: true },
    ]);
    const [, { id }] = processes;
    expect((await one.inspect(`counts(process: "${id}") { total { sinceStart { reads } } }`)).counts).toEqual({
      total: { sinceStart: { reads: 2 } },
    });
    expect(await one.mistake('counts(process: "x") { processes }')).toContain("expected the id of a process");
  });
});

describe("cacheInspection.processes", () => {
  it("lists a process that does not count for anybody, and forgets it a minute after its last report", async () => {
    const world = newWorld();
    const one = createSite(world);
    const other = createSite(world, { inspection: { report: false } });
    const { cache: worker } = listen({
      store: world.store,
      testing: { clock: world.clock },
      inspection: { report: true },
    });
    const selection = "processes { isThis host pid version nodeVersion startedAt reportedAt isComplete } missing";
    const { processes, missing } = await one.inspect(selection);
    expect(processes).toMatchObject([
      { isThis: true, pid: process.pid, nodeVersion: process.version, isComplete: true },
      { isThis: false, pid: process.pid, isComplete: false },
    ]);
    expect(missing).toBeNull();
    await other.cache.close();
    await worker.close();
    await world.clock.advance(61_000);
    expect((await one.inspect(selection)).processes).toHaveLength(1);
  });

  it("ignores what is no report, and reports that claim to be this process", async () => {
    const world = newWorld();
    const one = createSite(world);
    const [{ id }] = (await one.inspect("processes { id }")).processes;
    for (const [nth, text] of ["", "{}", "garbage", `{"info":{"id":"${id}"}}`].entries())
      await world.store.writeReport?.(`${nth}`, Buffer.from(text), 60_000);
    // What was read before is over.
    await world.clock.advance(1_000);
    expect(await one.inspect("processes { id } counts { processes } missing")).toEqual({
      processes: [{ id }],
      counts: { processes: 1 },
      missing: "Not all reports could be read: 4 have another form, such as those of another release.",
    });
  });

  it.each<[string, object]>([
    ["a bucket that is none", { "loadMs.x": 5 }],
    ["a count beyond all", { reads: 1e308 }],
    ["a negative count", { reads: -1 }],
    ["half a count", { reads: 0.5 }],
  ])("does not count a report with %s", async (_, tally) => {
    const world = newWorld();
    const one = createSite(world);
    const of = (counted: object) => reportOf([["Query.live", counted]], [[0, []]]);
    await world.store.writeReport?.("garbage", of(tally), 60_000);
    await world.store.writeReport?.("other", of({ reads: 2, "loadMs.12": 1 }), 60_000);
    expect(await one.inspect("counts { processes total { sinceStart { reads loadMs { count } } } }")).toEqual({
      counts: { processes: 2, total: { sinceStart: { reads: 2, loadMs: { count: 1 } } } },
    });
  });

  it("counts a process whose clock is ahead, without the minutes that are to come", async () => {
    const world = newWorld();
    const one = createSite(world);
    const tallies = [["Query.live", { reads: 2 }]] as const;
    // The time is in the first of them.
    const minutes = [960_000, 1_080_000, 90_000_000_000_000].map((at) => [at, tallies] as const);
    await world.store.writeReport?.("ahead", reportOf(tallies, minutes), 60_000);
    const counts = "counts { processes total { sinceStart { reads } minutes { at count { reads } } } } missing";
    expect(await one.inspect(counts)).toEqual({
      counts: {
        processes: 2,
        total: { sinceStart: { reads: 2 }, minutes: [{ at: "1970-01-01T00:16:00.000Z", count: { reads: 2 } }] },
      },
      missing: null,
    });
  });

  it("reads reports once for all who ask within a second, and shows its own counts as they are", async () => {
    const world = newWorld();
    let reads = 0;
    const readReports = () => (reads++, world.store.readReports?.() as Promise<readonly Uint8Array[]>);
    const { ask, clock, inspect } = createSite({ ...world, store: { ...world.store, readReports } });
    const counts = "counts { total { sinceStart { reads } } }";
    for (const expected of [0, 1, 2]) {
      expect((await inspect(counts)).counts.total.sinceStart.reads).toBe(expected);
      await ask("{ live }");
    }
    expect(reads).toBe(1);
    await clock.advance(1_000);
    await inspect("processes { id }");
    expect(reads).toBe(2);
  });

  it("stops reading at 64 MB of reports, and says so", async () => {
    const world = newWorld();
    const one = createSite(world);
    const bytes = reportOf([], [], "x".repeat(15 * 1024 * 1024));
    for (let nth = 0; nth < 10; nth++) await world.store.writeReport?.(`${nth}`, bytes, 60_000);
    expect((await one.inspect("missing")).missing).toContain("too large");
  });

  it("waits for a report under way when it is closed, and writes the last one after it", async () => {
    const world = newWorld();
    const writing = gate();
    let written = 0;
    const writeReport = async () => {
      await writing.passed;
      written++;
      return false;
    };
    const { cache } = createSite({ ...world, store: { ...world.store, writeReport } });
    const closed = cache.close().then(() => written);
    await settle();
    writing.open();
    expect(await closed).toBe(2);
  });

  it("says why other processes are missing if their reports cannot be read", async () => {
    const world = newWorld();
    const store: Store = { ...world.store, readReports: () => Promise.reject(new Error("the disk is full")) };
    const shown = await createSite({ ...world, store }).inspect("processes { isThis } missing");
    expect(shown).toEqual({
      processes: [{ isThis: true }],
      missing: expect.stringMatching(/could not be read: [A-Z_]+\.$/),
    });
    expect(shown.missing).not.toContain("disk");
  });

  it("says that a shared store keeps no reports", async () => {
    const world = newWorld();
    const { writeReport: _write, readReports: _read, ...rest } = world.store;
    const site = createSite({ ...world, store: { ...rest, isShared: true } }, { prefix: "shop" });
    expect((await site.inspect("missing")).missing).toContain("keeps no reports");
  });

  it("writes no report of counts while nobody asks", async () => {
    const world = newWorld();
    const written: number[] = [];
    const store: Store = {
      ...world.store,
      writeReport: (process, report, ttlMs) => (
        written.push(report.byteLength), world.store.writeReport?.(process, report, ttlMs) as Promise<boolean>
      ),
    };
    const { ask, clock, inspect } = createSite({ ...world, store });
    for (let nth = 0; nth < 20; nth++) await ask(`{ list(of: ${nth}) movie(id: ${nth}) { id } }`);
    await clock.advance(2 * REPORT_MS);
    const small = Math.max(...written.splice(0));
    await inspect("processes { id }");
    await clock.advance(REPORT_MS);
    expect(Math.max(...written.splice(0))).toBeGreaterThan(small + 50);
    await clock.advance(40_000);
    written.splice(0);
    await clock.advance(REPORT_MS);
    expect(written).toHaveLength(1);
    expect(Math.abs((written[0] as number) - small)).toBeLessThan(20);
  });
});

describe("cacheInspection.events", () => {
  const EVENT = `name at count coordinates digest detail error
    invalidation { kind via mutation isConfirmed isClear tags tagCount entryCount }`;

  it("shows invalidations with their cause, and what they concerned", async () => {
    const { ask, cache, entry, inspect } = createSite();
    await ask("mutation { rename(id: 1) }");
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 2 } }, { soft: true });
    await cache.clear();
    const { events } = await inspect(`events { ${EVENT} }`);
    const [{ digest }] = (await entry(MOVIE, "tags { digest }")).tags;
    expect(events[2].invalidation.tagCount).toBe(events[2].invalidation.tags.length);
    expect(events).toMatchObject([
      { name: "invalidation.finished", invalidation: { via: "cache.clear", isClear: true } },
      { coordinates: ["Query.movie"], invalidation: { via: "cache.invalidate", kind: "SOFT", entryCount: 1 } },
      {
        coordinates: [],
        digest: null,
        invalidation: { via: "@invalidates", mutation: "Mutation.rename", kind: "HARD", isConfirmed: true },
      },
    ]);
    expect(events[2].invalidation.tags).toContain(digest);
  });

  it("counts equal trouble once, names no texts of errors, and shows what concerns one field", async () => {
    const { ask, cache, clock, inspect, source } = createSite();
    source.isFailing = true;
    await ask(READ_MOVIE);
    await clock.advance(30_000);
    await ask(READ_MOVIE);
    await cache.invalidateTags(["List:1"]);
    const selection = 'events(coordinate: "Query.movie") { name count coordinates error }';
    const { events } = await inspect(selection);
    expect(events).toEqual([{ name: "load.failed", count: 2, coordinates: ["Query.movie"], error: "Error" }]);
    expect(JSON.stringify(await inspect(`events { ${EVENT} }`))).not.toContain("secret");
    expect((await inspect("events(first: 1) { name }")).events).toEqual([{ name: "invalidation.finished" }]);
  });

  it("shows those of all processes, the newest first", async () => {
    const world = newWorld();
    const [one, other] = [createSite(world), createSite(world)];
    await one.cache.invalidateTags(["List:1"]);
    await world.clock.advance(1_000);
    await other.cache.invalidateTags(["List:2"]);
    await one.inspect("missing");
    await world.clock.advance(REPORT_MS);
    const { events, processes } = await one.inspect("events { process } processes { id }");
    expect(events).toEqual([{ process: processes[1].id }, { process: processes[0].id }]);
  });

  it("keeps the last hundred", async () => {
    const { cache, inspect } = createSite();
    for (let nth = 0; nth < 120; nth++) await cache.invalidateTags([`List:${nth}`]);
    expect((await inspect("events(first: 1000) { name }")).events).toHaveLength(100);
  });

  it.each([-1, 0, 1_001])("refuses to return %d of them", async (first) => {
    const expected = "`first`: expected an integer from 1 to 1000";
    expect(await createSite().mistake(`events(first: ${first}) { name }`)).toContain(expected);
  });
});
