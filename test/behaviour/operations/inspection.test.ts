import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
} from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  enum Order { NEWEST OLDEST }
  input Page { size: Int = 10 order: Order }
  type Query {
    list(order: Order = NEWEST, page: Page = {}, of: ID): Int
      @cached(maxAge: 60, tags: ["List:{$args.order}:{$args.page.size}", "Of:{$args.of}"])
    movie(id: ID!): Movie @cached(maxAge: 60, staleWhileRevalidate: 60, tags: ["Movie:{$args.id}", "Genre:{$result.genre}"])
    mine: Int @cached(maxAge: 60, scope: PRIVATE)
  }
  type Movie {
    id: ID!
    genre: String!
  }
`;

interface Context {
  readonly userId?: number;
}

/** A schema with cached fields, two loaders and the inspection query. */
function createSite() {
  const clock = new FakeClock();
  const cache = createCache<Context>({
    store: memoryStore({ clock }),
    testing: { clock },
    defaults: { earlyRefresh: 0, jitter: 0 },
    identify: ({ userId }) => userId,
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
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
  const resolvers = {
    Query: { movie: (_: unknown, { id }: { id: string }) => ({ id, genre: "drama" }), mine: () => 1, list: () => 1 },
    Order: { NEWEST: -1, OLDEST: 1 },
  };
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
      resolvers: [resolvers, inspectionResolvers(cache, { allow: () => true })],
    }),
    cache,
  );
  const ask = async (source: string, contextValue: Context = {}) => {
    const result = await graphql({ schema, source, contextValue });
    await settle();
    return result;
  };
  const inspect = async (selection: string): Promise<Record<string, unknown>> => {
    const { data, errors } = await ask(`{ cacheInspection { ${selection} } }`);
    expect(errors).toBeUndefined();
    return JSON.parse(JSON.stringify((data as { cacheInspection: unknown }).cacheInspection));
  };
  const entry = async (target: string, selection = "state outdated stale"): Promise<unknown> =>
    (await inspect(`entry(${target}) { ${selection} }`)).entry;
  const mistake = async (target: string): Promise<string | undefined> => {
    const [error] = (await ask(`{ cacheInspection { entry(${target}) { state } } }`)).errors ?? [];
    // Servers mask errors without a code of their own.
    if (error !== undefined) expect(error.extensions.code).toMatch(/^CACHED_/);
    return error?.message;
  };
  return { cache, clock, ask, inspect, entry, mistake, prices, discounts };
}

const CURRENT = { state: "VALUE", outdated: false, stale: false };

describe("cacheInspection.fields", () => {
  it("lists loaders as it lists fields, with policy, variant, counts and bypasses", async () => {
    const { inspect, prices, discounts } = createSite();
    await prices({}).loadMany([1, 2]);
    await settle();
    await prices({}).load(1);
    await discounts({}).load(1);
    const { fields } = await inspect(
      "fields { coordinate maxAge scope variant stats { reads hit loaded bypassed } bypasses { reason reads } }",
    );
    expect(fields).toMatchObject([
      { coordinate: "Query.list" },
      { coordinate: "Query.movie", maxAge: 60, scope: "PUBLIC" },
      { coordinate: "Query.mine", maxAge: 60, scope: "PRIVATE" },
      {
        coordinate: "Price",
        maxAge: 30,
        scope: "PUBLIC",
        variant: expect.stringMatching(/^[0-9a-zA-Z_-]{6,}$/),
        stats: { reads: 3, hit: 1, loaded: 2, bypassed: 0 },
        bypasses: [],
      },
      {
        coordinate: "Discount",
        maxAge: 40,
        scope: "PRIVATE",
        stats: { reads: 1, bypassed: 1 },
        bypasses: [{ reason: "NO_IDENTITY", reads: 1 }],
      },
    ]);
  });
});

describe("cacheInspection.entry", () => {
  it("shows the entries of loaders by id, and those of PRIVATE ones by identity", async () => {
    const { entry, prices, discounts } = createSite();
    await prices({}).load(7);
    await discounts({ userId: 8 }).load(7);
    await settle();
    expect(await entry('coordinate: "Price", id: 7')).toEqual(CURRENT);
    expect(await entry('coordinate: "Price", id: "7"')).toBeNull();
    expect(await entry('coordinate: "Discount", id: 7, private: 8')).toEqual(CURRENT);
    expect(await entry('coordinate: "Discount", id: 7, private: "8"')).toEqual(CURRENT);
    expect(await entry('coordinate: "Discount", id: 7, private: 9')).toBeNull();
  });

  it("shows PRIVATE entries of numeric identities, written as a number or a string", async () => {
    const { ask, entry } = createSite();
    await ask("{ mine }", { userId: 8 });
    for (const identity of ["8", '"8"'])
      expect(await entry(`coordinate: "Query.mine", private: ${identity}`)).toEqual(CURRENT);
  });

  it.each([
    ["without an id", 'coordinate: "Price"', "loader `Price`: `id`: expected the id of the entry, got nothing"],
    ["with args", 'coordinate: "Price", args: { id: 7 }', "`args`: unknown property; known are loader, id, private"],
    ["without an identity", 'coordinate: "Discount", id: 7', "`private`: expected the identity that owns the entry"],
    ["with an identity", 'coordinate: "Price", id: 7, private: 8', "belong to no identity; leave it out"],
    [
      "of no loader",
      'coordinate: "Prices", id: 7',
      "known fields: Query.list, Query.movie, Query.mine; known loaders: Price, Discount",
    ],
    ["of a field", 'coordinate: "Query.movie", id: 7', "`id`: unknown property; known are coordinate, args, source"],
  ])("says what is wrong with a target of a loader %s", async (_, target, expected) => {
    expect(await createSite().mistake(target)).toContain(expected);
  });

  it("shows entries as outdated after a hard invalidation of one of their tags, those of the result included", async () => {
    const { ask, cache, entry, prices } = createSite();
    const movie = 'coordinate: "Query.movie", args: { id: 1 }';
    for (const tag of ["Movie:1", "Genre:drama"]) {
      await ask("{ movie(id: 1) { genre } }");
      expect(await entry(movie)).toEqual(CURRENT);
      await cache.invalidateTags([tag]);
      expect(await entry(movie)).toMatchObject({ outdated: true });
    }
    await prices({}).load(7);
    await settle();
    await cache.invalidateTags(["Price:7"]);
    expect(await entry('coordinate: "Price", id: 7')).toMatchObject({ outdated: true });
  });

  it("shows entries of defaulted arguments and of enums with internal values as outdated after an invalidation of their tags only", async () => {
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
    const states = (): Promise<unknown[]> =>
      Promise.all(calls.map(([, args]) => entry(`coordinate: "Query.list" ${args}`, "outdated")));
    for (const [nth, [, , tag]] of calls.entries()) {
      for (const [call] of calls) await ask(`{ ${call} }`);
      expect(await states()).toEqual(calls.map(() => ({ outdated: false })));
      await cache.invalidateTags([tag]);
      expect(await states()).toEqual(calls.map((_, other) => ({ outdated: other === nth })));
    }
  });

  it("shows entries as stale when their maxAge is over, and after a soft invalidation of any kind", async () => {
    const { ask, cache, clock, entry } = createSite();
    const movie = 'coordinate: "Query.movie", args: { id: 1 }';
    const soft = { soft: true };
    const ways: (() => Promise<unknown>)[] = [
      () => clock.advance(60_000),
      () => cache.invalidate({ coordinate: "Query.movie", args: { id: 1 } }, soft),
      () => cache.invalidateTags(["Movie:1"], soft),
      () => cache.invalidateTags(["Genre:drama"], soft),
      () => cache.invalidate({ coordinate: "Query.movie" }, soft),
      () => cache.clear(soft),
    ];
    for (const makeStale of ways) {
      await ask("{ movie(id: 1) { genre } }");
      expect(await entry(movie, "state stale outdated")).toEqual(CURRENT);
      await makeStale();
      const shown = (await entry(movie, "stale outdated freshForMs")) as { freshForMs: number };
      expect(shown).toMatchObject({ stale: true, outdated: false });
      expect(shown.freshForMs).toBe(0);
    }
  });
});
