import { chaosStore, FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  cachedTypeDefs,
  createCache,
  invalidationResolvers,
  invalidationTypeDefs,
  memoryStore,
} from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Int @cached(maxAge: 60, staleWhileRevalidate: 60, tags: ["Movie:{$args.id}"])
    mine(n: Int): Int @cached(maxAge: 60, scope: PRIVATE)
    price(id: Int!): Int
    top: Int @cached(maxAge: 60)
  }
  type Mutation {
    change: Int
  }
`;

interface Context {
  readonly isAdmin?: boolean;
  readonly userId?: number;
}

const admin: Context = { isAdmin: true, userId: 8 };

function createSite(allow: (context: Context) => unknown = ({ isAdmin }) => isAdmin === true) {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const cache = createCache<Context>({
    store,
    testing: { clock },
    defaults: { earlyRefresh: 0, jitter: 0 },
    identify: ({ userId }) => userId,
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  let loads = 0;
  const load = (): number => ++loads;
  const prices = cache.loader({
    name: "Price",
    maxAge: 60,
    batch: async (ids: readonly number[]) => ids.map(load),
  });
  const resolvers = {
    Query: {
      movie: load,
      mine: load,
      price: (_: unknown, { id }: { id: number }, context: Context) => prices(context).load(id),
      top: load,
    },
    Mutation: { change: () => 1 },
  };
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, invalidationTypeDefs, typeDefs],
      resolvers: [resolvers, invalidationResolvers(cache, { allow: allow as never })],
    }),
    cache,
  );
  const ask = async (source: string, contextValue: Context = { ...admin }, variableValues = {}) => {
    const result = await graphql({ schema, source, contextValue, variableValues });
    await settle();
    return result;
  };
  return { ask, cache, clock, store, loads: () => loads };
}

const ALL = "{ a: movie(id: 1) b: movie(id: 2) c: mine(n: 1) d: mine(n: 2) e: price(id: 1) f: price(id: 2) g: top }";
const MUTATIONS = [
  'cacheInvalidate(coordinate: "Query.movie", args: { id: 1 })',
  'cacheInvalidateAll(coordinate: "Query.movie")',
  'cacheInvalidateTags(tags: ["Movie:1"])',
  "cacheClear",
];

describe("the mutations that invalidate", () => {
  it.each([
    ["one entry of a field", MUTATIONS[0], ["a"]],
    ["one entry of a field by an id that is spelled otherwise", MUTATIONS[0]?.replace("1", '"1"'), ["a"]],
    ["the only entry of a field", 'cacheInvalidate(coordinate: "Query.top")', ["g"]],
    ["one entry of one identity", 'cacheInvalidate(coordinate: "Query.mine", args: { n: 1 }, private: 8)', ["c"]],
    ["one entry of a loader", 'cacheInvalidate(coordinate: "Price", id: 1)', ["e"]],
    ["every entry of a field", MUTATIONS[1], ["a", "b"]],
    ["every entry of all identities", 'cacheInvalidateAll(coordinate: "Query.mine")', ["c", "d"]],
    ["every entry of a loader", 'cacheInvalidateAll(coordinate: "Price")', ["e", "f"]],
    ["everything with a tag", 'cacheInvalidateTags(tags: ["Movie:1", "Movie:2"])', ["a", "b"]],
    ["everything", "cacheClear", ["a", "b", "c", "d", "e", "f", "g"]],
  ])("invalidate %s, and nothing else", async (_, mutation, expected) => {
    const { ask } = createSite();
    const { data: before } = await ask(ALL);
    const { data, errors } = await ask(`mutation { done: ${mutation} }`);
    expect(errors).toBeUndefined();
    expect(data).toEqual({ done: true });
    const { data: after } = await ask(ALL);
    const changed = Object.keys(after ?? {}).filter((alias) => after?.[alias] !== before?.[alias]);
    expect(changed).toEqual(expected);
  });

  it.each([
    'cacheInvalidate(coordinate: "Query.movie", args: { id: 1 }, soft: true)',
    'cacheInvalidateAll(coordinate: "Query.movie", soft: true)',
    'cacheInvalidateTags(tags: ["Movie:1"], soft: true)',
    "cacheClear(soft: true)",
  ])("serve the old value until it has been loaded again if they are soft: %s", async (mutation) => {
    const { ask } = createSite();
    const values: unknown[] = [];
    const read = async (): Promise<void> => void values.push((await ask("{ movie(id: 1) }")).data?.movie);
    await read();
    await ask(`mutation { ${mutation} }`);
    await read();
    await read();
    expect(values).toEqual([1, 1, 2]);
  });

  it.each(MUTATIONS)("are denied unless `allow` returns true, and say how to allow them: %s", async (mutation) => {
    const denying = [() => false, () => undefined, () => "yes", () => Promise.reject(new Error("away"))];
    for (const allow of denying) {
      const { ask, loads } = createSite(allow);
      await ask(ALL);
      const before = loads();
      const { data, errors } = await ask(`mutation { ${mutation} }`);
      expect(data).toBeNull();
      expect(errors?.[0]?.extensions).toEqual({ code: "CACHED_INVALIDATION_DENIED" });
      expect(errors?.[0]?.message).toContain("`allow` of invalidationResolvers returns true");
      await ask(ALL);
      expect(loads()).toBe(before);
    }
  });

  it("are not available without `allow`", () => {
    const cache = createCache();
    onTestFinished(() => cache.close());
    for (const options of [undefined, {}, { allow: true }])
      expect(() => invalidationResolvers(cache, options as never)).toThrow(
        "invalidationResolvers: `allow`: expected a function that returns true or false for a context",
      );
  });

  it.each([
    ["a field without the parts of its key", 'cacheInvalidate(coordinate: "Query.movie")', "CACHED_KEY_UNUSABLE"],
    ["a loader without an id", 'cacheInvalidate(coordinate: "Price")', "CACHED_KEY_UNUSABLE"],
    [
      "PRIVATE entries without an identity",
      'cacheInvalidate(coordinate: "Query.mine", args: { n: 1 })',
      "CACHED_KEY_UNUSABLE",
    ],
    ["arguments that are null", 'cacheInvalidate(coordinate: "Query.movie", args: null)', "CACHED_OPTION_INVALID"],
    ["an unset variable", 'cacheInvalidate(coordinate: "Query.movie", args: $args)', "CACHED_KEY_UNUSABLE"],
    ["an unknown coordinate", 'cacheInvalidateAll(coordinate: "Query.movies")', "CACHED_COORDINATE_UNKNOWN"],
    ["an empty tag", 'cacheInvalidateTags(tags: [""])', "CACHED_OPTION_INVALID"],
  ])("reject %s, and invalidate nothing", async (_, mutation, code) => {
    const { ask, loads } = createSite();
    await ask(ALL);
    const variables = mutation.includes("$args") ? "($args: CacheKeyPart)" : "";
    const { errors } = await ask(`mutation ${variables} { ${mutation} }`);
    expect(errors?.[0]?.extensions).toEqual({ code });
    await ask(ALL);
    expect(loads()).toBe(7);
  });

  it("fail with a code while the store is away, and are repeated until it confirms", async () => {
    const { ask, clock, store } = createSite();
    expect((await ask("{ top }")).data).toEqual({ top: 1 });
    store.chaos.mode = "throws";
    const { errors } = await ask('mutation { cacheInvalidate(coordinate: "Query.top") }');
    expect(errors?.[0]?.extensions).toEqual({ code: "CACHED_STORE_UNAVAILABLE" });
    store.chaos.mode = undefined;
    await clock.advance(5_000);
    expect((await ask("{ top }")).data).toEqual({ top: 2 });
    expect((await ask("{ top }")).data).toEqual({ top: 2 });
  });
});
