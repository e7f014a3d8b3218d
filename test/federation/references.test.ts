import { randomUUID } from "node:crypto";
import { ApolloServer } from "@apollo/server";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLResolveInfo, graphql } from "graphql";
import {
  applyCached,
  type Cache,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
  resultControl,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { overrideStore } from "../support/override-store.js";
import { sharedServer } from "../support/shared-servers.js";
import { type Subgraph, subgraph } from "../support/subgraph.js";

type Reference = Readonly<Record<string, unknown>>;

/** A source that notes the representations it is asked for. */
function source(typeName = "Product", more: (reference: Reference, context: never) => object | null = () => ({})) {
  const loads: Reference[] = [];
  const load = async (reference: Reference, context: never) => {
    loads.push(reference);
    const own = more(reference, context);
    return own === null ? null : { ...reference, loads: loads.length, ...own };
  };
  return { loads, resolvers: { [typeName]: { __resolveReference: load } } };
}

/** The store with another `read`. */
const withRead = (store: Store, read: Store["read"]): Store => overrideStore(store, { read });

const QUERY = "type Query { ping: String }";
const PRODUCT = `${QUERY} type Product @key(fields: "id") @cached(maxAge: 60) { id: ID!, name: String, loads: Int }`;
const product = (id: unknown, more: object = {}) => ({ __typename: "Product", id, ...more });
const SELECTION = "... on Product { id loads }";

describe("references to an entity type with @cached", () => {
  it("loads each entity once, whichever request asks for it and however its id is spelled", async () => {
    const { loads, resolvers } = source();
    const { entities } = subgraph(PRODUCT, resolvers);
    const seven = { id: "7", loads: 1 };
    const eight = { id: "8", loads: 2 };
    expect(await entities([product("7"), product(7), product("8")], SELECTION)).toEqual([seven, seven, eight]);
    expect(await entities([product(8), product("7")], SELECTION)).toEqual([eight, seven]);
    expect(loads).toHaveLength(2);
  });

  it("are PUBLIC beside an entity type that is PRIVATE by its hint, and so are fields of their entities", async () => {
    let prices = 0;
    const { loads, resolvers } = source();
    const secret = `directive @cacheControl(scope: CacheControlScope) on OBJECT enum CacheControlScope { PUBLIC PRIVATE }
      type Secret @key(fields: "id") @cacheControl(scope: PRIVATE) { id: ID! }
      extend type Product { price: Int @cached(maxAge: 60) }`;
    const { cache, entities } = subgraph(
      `${PRODUCT} ${secret}`,
      {
        Product: { ...resolvers.Product, price: () => ++prices },
        Secret: { __resolveReference: (one: object) => one },
      },
      { identify: ({ user }: { user: string }) => user } as never,
    );
    for (const user of ["ann", "bob"])
      expect(await entities([product(7)], "... on Product { price loads }", { user })).toEqual([
        { price: 1, loads: 1 },
      ]);
    expect(loads).toHaveLength(1);
    await cache.close();
  });

  it.each([
    ["an entity type that is PRIVATE", "@cached(maxAge: 60, scope: PRIVATE)", "Account"],
    ["an entity type that is PRIVATE, and asked for in the same call", "@cached(maxAge: 60, scope: PRIVATE)", "both"],
    ["a reference that reads a PRIVATE loader", "", "both"],
  ])("leave PUBLIC fields of other entities PUBLIC beside %s", async (_, directive, asked) => {
    let loads = 0;
    const { cache, entities } = subgraph(
      `${QUERY} type Account @key(fields: "id") ${directive} { id: ID! name: String favorite: Product }
        type Product @key(fields: "id") { id: ID! reason: String @cached(maxAge: 60) }`,
      {
        Account: {
          __resolveReference: ({ id }: Reference, context: { user: string }) => accounts(context).load(id as string),
          favorite: ({ name }: Reference) => ({ id: 8, reason: name }),
        },
        Product: {
          __resolveReference: ({ id }: Reference) => ({ id, reason: "new" }),
          reason: ({ reason }: Reference) => (loads++, reason),
        },
      },
      { identify: ({ user }: { user: string }) => user } as never,
    );
    const accounts = cache.loader<string, object, { user: string }>({
      name: "Account",
      scope: "PRIVATE",
      maxAge: 60,
      batch: async (ids, { user }) => ids.map((id) => ({ id, name: `liked by ${user}` })),
    });
    const account = { __typename: "Account", id: 1 };
    const all = asked === "both" ? [product(7), account] : [product(7)];
    const selection = "... on Product { reason } ... on Account { favorite { reason } }";
    for (const user of ["ann", "bob"])
      expect(await entities(all, selection, { user })).toEqual(
        [{ reason: "new" }, { favorite: { reason: `liked by ${user}` } }].slice(0, all.length),
      );
    // What is below the account is each caller's own.
    expect(loads).toBe(all.length === 1 ? 1 : 3);
  });

  it("have a mode: off, each is loaded", async () => {
    const { loads, resolvers } = source();
    const { cache, entities } = subgraph(PRODUCT, resolvers);
    cache.setMode("off", "Product.__resolveReference");
    for (const nth of [1, 2]) {
      expect(await entities([product(7)], SELECTION)).toEqual([{ id: "7", loads: nth }]);
      await settle();
    }
    cache.setMode("on", "Product.__resolveReference");
    for (const _ of [1, 2]) {
      expect(await entities([product(7)], SELECTION)).toEqual([{ id: "7", loads: 3 }]);
      await settle();
    }
    expect(loads).toHaveLength(3);
  });

  it("loads an entity once for requests that ask for it at the same time", async () => {
    const { passed, open } = gate();
    let loads = 0;
    const load = async (reference: Reference) => {
      const nth = ++loads;
      await passed;
      return { ...reference, loads: nth };
    };
    const { entities } = subgraph(PRODUCT, { Product: { __resolveReference: load } });
    const requests = [1, 2, 3].map(() => entities([product(7)], SELECTION));
    await settle();
    open();
    for (const answer of await Promise.all(requests)) expect(answer).toEqual([{ id: "7", loads: 1 }]);
    expect(loads).toBe(1);
  });

  it("are invalidated by a mutation that returns the entity, with entity tags, whatever their @key is", async () => {
    for (const [key, representation] of [
      ["id", { id: 7 }],
      ["sku", { sku: "a" }],
    ] as const) {
      let name = "old";
      const typeDefs = `${QUERY} type Mutation { rename: Product }
        type Product @key(fields: "${key}") @cached(maxAge: 60) { id: ID! sku: String name: String }`;
      const load = () => ({ id: 7, sku: "a", name });
      const resolvers = { Product: { __resolveReference: load }, Mutation: { rename: load } };
      const { ask, entities } = subgraph(typeDefs, resolvers, {}, { entityTags: true });
      const read = () => entities([{ __typename: "Product", ...representation }], "... on Product { name }");
      expect(await read()).toEqual([{ name: "old" }]);
      await settle();
      name = "new";
      expect(await read()).toEqual([{ name: "old" }]);
      expect((await ask("mutation { rename { sku } }")).errors).toBeUndefined();
      expect(await read()).toEqual([{ name: "new" }]);
    }
  });

  it("keeps representations apart that bring other fields for @requires", async () => {
    const typeDefs = `${QUERY}
      type Product @key(fields: "id") @cached(maxAge: 60) {
        id: ID!
        weight: Int @external
        shipping: Int @requires(fields: "weight")
      }`;
    const { loads, resolvers } = source();
    const shipping = { shipping: ({ weight }: { weight: number }) => weight * 2 };
    const { entities } = subgraph(typeDefs, { Product: { ...resolvers.Product, ...shipping } });
    const ask = (weight: number) => entities([product(7, { weight })], "... on Product { shipping }");
    expect(await ask(1)).toEqual([{ shipping: 2 }]);
    expect(await ask(3)).toEqual([{ shipping: 6 }]);
    expect(await ask(1)).toEqual([{ shipping: 2 }]);
    expect(loads).toHaveLength(2);
  });

  it("invalidates an entity by its tag and by its coordinate, whatever else its representations brought", async () => {
    const { loads, resolvers } = source();
    const { entities, cache } = subgraph(PRODUCT, resolvers);
    const loadedBy = async (invalidate: () => Promise<void>): Promise<unknown[]> => {
      await invalidate();
      loads.length = 0;
      await entities([product(7), product("7", { weight: 1 }), product(8)], SELECTION);
      return loads.map(({ id, weight }) => [String(id), weight]);
    };
    expect(await loadedBy(async () => undefined)).toEqual([
      ["7", undefined],
      ["7", 1],
      ["8", undefined],
    ]);
    const coordinate = "Product.__resolveReference";
    const both = [
      ["7", undefined],
      ["7", 1],
    ];
    expect(await loadedBy(() => cache.invalidateTags(["Product:7"]))).toEqual(both);
    expect(await loadedBy(() => cache.invalidate({ coordinate, source: { id: 7 } }))).toEqual(both);
    expect(await loadedBy(() => cache.invalidate({ coordinate }))).toEqual([...both, ["8", undefined]]);
    expect(await loadedBy(() => cache.invalidate({ coordinate, source: { id: 9 } }))).toEqual([]);
  });

  it("never stores a reference whose load began before the entity was invalidated", async () => {
    const { passed, open } = gate();
    let loads = 0;
    const load = async (reference: Reference) => {
      const nth = ++loads;
      if (nth === 1) await passed;
      return { ...reference, loads: nth };
    };
    const { entities, cache } = subgraph(PRODUCT, { Product: { __resolveReference: load } });
    const before = entities([product(7, { weight: 1 })], SELECTION);
    await settle();
    await cache.invalidate({ coordinate: "Product.__resolveReference", source: { id: "7" } });
    open();
    expect(await before).toEqual([{ id: "7", loads: 1 }]);
    expect(await entities([product(7, { weight: 1 })], SELECTION)).toEqual([{ id: "7", loads: 2 }]);
  });

  it("rejects an invalidation that does not name an entity", async () => {
    const { cache } = subgraph(PRODUCT, source().resolvers);
    const coordinate = "Product.__resolveReference";
    await expect(cache.invalidate({ coordinate, source: { sku: 7 } })).rejects.toThrow(
      "expected a representation with `id`",
    );
    await expect(cache.invalidate({ coordinate, args: { id: 7 } })).rejects.toThrow("unknown argument `id`");
  });

  it("tells nested keys apart and invalidates them by all of their parts", async () => {
    const typeDefs = `${QUERY}
      type Organization { id: ID! }
      type Product @key(fields: "id organization { id }") @cached(maxAge: 60) {
        id: ID!
        organization: Organization!
        loads: Int
      }`;
    const { loads, resolvers } = source();
    const { entities, cache } = subgraph(typeDefs, resolvers);
    const of = (organization: unknown) => product(7, { organization: { id: organization } });
    expect(await entities([of("1"), of(1), of("2")], SELECTION)).toEqual([
      { id: "7", loads: 1 },
      { id: "7", loads: 1 },
      { id: "7", loads: 2 },
    ]);
    await cache.invalidateTags(["Product:7:1"]);
    await entities([of(1), of(2)], SELECTION);
    expect(loads).toHaveLength(3);
    const target = { coordinate: "Product.__resolveReference", source: { id: 7, organization: { id: "2" } } };
    await cache.invalidate(target);
    await entities([of(1), of(2)], SELECTION);
    expect(loads).toHaveLength(4);
  });

  it("invalidates an entity that was requested by one of its keys by the tag of any other", async () => {
    const typeDefs = `${QUERY}
      type Product @key(fields: "id") @key(fields: "upc") @cached(maxAge: 60) { id: ID!, upc: String!, loads: Int }`;
    const { loads, resolvers } = source("Product", () => ({ id: 7, upc: "a7" }));
    const { entities, cache, events } = subgraph(typeDefs, resolvers);
    const ask = () => entities([product("7"), { __typename: "Product", upc: "a7" }], SELECTION);
    expect(await ask()).toEqual([
      { id: "7", loads: 1 },
      { id: "7", loads: 2 },
    ]);
    await ask();
    expect(loads).toHaveLength(2);
    await cache.invalidateTags(["Product:7"]);
    await ask();
    expect(loads).toHaveLength(4);
    await cache.invalidateTags(["Product:a7"]);
    await ask();
    expect(loads).toHaveLength(6);
    await cache.invalidate({ coordinate: "Product.__resolveReference", source: { upc: "a7" } });
    await ask();
    expect(loads).toHaveLength(7);
    // A representation has the fields of one key only.
    expect(events.filter(({ name }) => name === "tag.mistaken")).toEqual([]);
  });

  it.each<[what: string, keys: readonly string[], representation: object]>([
    ["null in the place of an object", ["organization { id }", "id"], { organization: null, id: 7 }],
    [
      "null in the place of an object of a key of several fields",
      ["id organization { id }", "id"],
      { id: 7, organization: null },
    ],
    ["an object without its id", ["id organization { id }", "id"], { id: 7, organization: {} }],
    ["a part of another key", ["id sku organization { id }", "id"], { id: 7, sku: "a" }],
  ])("caches a representation with %s beside one key, and invalidates it by that", async (_, keys, representation) => {
    const typeDefs = `${QUERY}
      type Organization { id: ID }
      type Product ${keys.map((fields) => `@key(fields: "${fields}")`).join(" ")} @cached(maxAge: 60) {
        id: ID
        sku: ID
        organization: Organization
        loads: Int
      }`;
    const { loads, resolvers } = source();
    const { entities, cache } = subgraph(typeDefs, resolvers);
    const ask = () => entities([{ __typename: "Product", ...representation }], "... on Product { loads }");
    for (let nth = 0; nth < 2; nth++) {
      expect(await ask()).toEqual([{ loads: 1 }]);
      await settle();
    }
    await cache.invalidate({ coordinate: "Product.__resolveReference", source: { id: 7 } });
    expect(await ask()).toEqual([{ loads: 2 }]);
    expect(loads).toHaveLength(2);
  });

  it("resolves a representation without a key as if it was not cached, and reports it", async () => {
    const { loads, resolvers } = source();
    const { entities, events } = subgraph(PRODUCT, resolvers);
    for (let request = 0; request < 2; request++)
      await entities([{ __typename: "Product", weight: 1 }, product(null)], "... on Product { loads }");
    expect(loads).toHaveLength(4);
    expect(events).toContainEqual(expect.objectContaining({ name: "resolver.bypassed", reason: "KEY_UNUSABLE" }));
  });

  it("reports a part of `key` that a representation lacks, and that it belongs there", async () => {
    const { resolvers } = source();
    const typeDefs = `${QUERY} type Product @key(fields: "id") @cached(maxAge: 60, key: ["$source.id", "$source.sku"]) { id: ID!, loads: Int }`;
    const { entities, events } = subgraph(typeDefs, resolvers);
    await entities([product(1)], "... on Product { loads }");
    expect(events).toContainEqual(
      expect.objectContaining({
        name: "resolver.bypassed",
        error: expect.objectContaining({
          message:
            "`Product.__resolveReference` is not cached: its key needs `$source.sku`, which is missing; pass it in the representation, or set another `key`",
        }) as Error,
      }),
    );
  });

  it("keeps the absence of an entity for negativeMaxAge, and errors not at all", async () => {
    const clock = new FakeClock();
    const typeDefs = `${QUERY}
      type Product @key(fields: "id") @cached(maxAge: 60, negativeMaxAge: 5) { id: ID!, loads: Int }`;
    const failure = new Error("no connection");
    const { loads, resolvers } = source("Product", ({ id }) => {
      if (id === "1") throw failure;
      return null;
    });
    const { entities } = subgraph(typeDefs, resolvers, { store: memoryStore({ clock }), testing: { clock } });
    expect(await entities([product("404")], SELECTION)).toEqual([null]);
    await clock.advance(4_000);
    expect(await entities([product("404")], SELECTION)).toEqual([null]);
    expect(loads).toHaveLength(1);
    await clock.advance(2_000);
    expect(await entities([product("404")], SELECTION)).toEqual([null]);
    expect(loads).toHaveLength(2);
    expect(await entities([product("1")], SELECTION)).toEqual(["no connection"]);
    await clock.advance(2_000);
    expect(await entities([product("1")], SELECTION)).toEqual(["no connection"]);
    expect(loads).toHaveLength(4);
  });

  it("reads all entities of a request from the store at once, and expires them by maxAge", async () => {
    const clock = new FakeClock();
    const memory = memoryStore({ clock });
    let reads = 0;
    const read: typeof memory.read = (...args) => (reads++, memory.read(...args));
    const { loads, resolvers } = source();
    const { entities } = subgraph(PRODUCT, resolvers, { store: withRead(memory, read), testing: { clock } });
    const representations = Array.from({ length: 50 }, (_, id) => product(String(id)));
    await entities(representations, SELECTION);
    await settle();
    reads = 0;
    await entities(representations, SELECTION);
    expect(reads).toBe(1);
    expect(loads).toHaveLength(50);
    await clock.advance(61_000);
    await entities(representations, SELECTION);
    expect(loads).toHaveLength(100);
  });

  it("keeps an entity for each identity if the type is PRIVATE, and caches nothing without one", async () => {
    interface Context {
      readonly user?: string;
    }
    const typeDefs = `${QUERY} type Product @key(fields: "id") @cached(maxAge: 60, scope: PRIVATE) { id: ID!, owner: String }`;
    const { loads, resolvers } = source("Product", (_reference, { user }: Context) => ({ owner: user }));
    const { entities, cache } = subgraph(typeDefs, resolvers, { identify: ({ user }: Context) => user });
    const ask = async (user?: string) =>
      entities([product(7)], "... on Product { owner }", user === undefined ? {} : { user });
    expect(await ask("ann")).toEqual([{ owner: "ann" }]);
    expect(await ask("bob")).toEqual([{ owner: "bob" }]);
    expect(await ask("ann")).toEqual([{ owner: "ann" }]);
    expect(loads).toHaveLength(2);
    await ask();
    await ask();
    expect(loads).toHaveLength(4);
    await cache.invalidate({ coordinate: "Product.__resolveReference", source: { id: 7 }, private: "ann" });
    await ask("ann");
    await ask("bob");
    expect(loads).toHaveLength(5);
  });

  it("resolves references to an interface, and to an object type of it", async () => {
    const typeDefs = `${QUERY}
      interface Media @key(fields: "id") @cached(maxAge: 60) { id: ID!, loads: Int }
      type Book implements Media @key(fields: "id") { id: ID!, loads: Int }
      type Film implements Media @key(fields: "id") @cached(maxAge: 60) { id: ID!, loads: Int }`;
    const media = source("Media", ({ id }) => ({ __typename: id === "1" ? "Book" : "Film" }));
    const film = source("Film", () => ({ loads: 100 }));
    const { entities, cache } = subgraph(typeDefs, { ...media.resolvers, ...film.resolvers });
    const ask = () =>
      entities(
        [
          { __typename: "Media", id: "1" },
          { __typename: "Media", id: "2" },
          { __typename: "Film", id: "2" },
        ],
        "__typename ... on Media { id loads }",
      );
    const expected = [
      { __typename: "Book", id: "1", loads: 1 },
      { __typename: "Film", id: "2", loads: 2 },
      { __typename: "Film", id: "2", loads: 100 },
    ];
    expect(await ask()).toEqual(expected);
    expect(await ask()).toEqual(expected);
    expect([media.loads.length, film.loads.length]).toEqual([2, 1]);
    await cache.invalidateTags(["Media:1", "Film:2"]);
    await ask();
    expect([media.loads.length, film.loads.length]).toEqual([3, 2]);
  });

  it("caches a __resolveReference that looks ahead by selection, without the other representations", async () => {
    let loads = 0;
    const load = (reference: Reference, _context: unknown, info: GraphQLResolveInfo) => {
      loads++;
      const looksAhead = info.fieldNodes[0]?.selectionSet !== undefined;
      return { ...reference, loads: looksAhead ? loads : 0 };
    };
    const keyed = PRODUCT.replace("maxAge: 60", 'maxAge: 60, key: ["$source.id", "$selection"]');
    const { entities, cache } = subgraph(keyed, { Product: { __resolveReference: load } });
    await entities([product(1), product(2)], SELECTION);
    loads = 0;
    await entities([product(2), product(1), product(1)], SELECTION);
    expect(loads).toBe(0);
    await entities([product(1)], "... on Product { loads }");
    expect(loads).toBe(1);
    await cache.invalidate({ coordinate: "Product.__resolveReference", source: { id: 1 } });
    await entities([product(1), product(2)], SELECTION);
    expect(loads).toBe(2);
  });

  it("lets a __resolveReference control how its result is cached", async () => {
    let loads = 0;
    const load = (reference: Reference, _context: unknown, info: GraphQLResolveInfo) => {
      loads++;
      if (reference.id === 1) resultControl(info).skip();
      return reference;
    };
    const { entities } = subgraph(PRODUCT, { Product: { __resolveReference: load } });
    await entities([product(1), product(2)], SELECTION);
    await entities([product(1), product(2)], SELECTION);
    expect(loads).toBe(3);
  });

  it("does not store an entity with null for a selected field that cannot be null", async () => {
    let [loads, price]: [number, number | null] = [0, null];
    const resolve = ({ id }: Reference) => ({ id, price, loads: ++loads });
    const { entities } = subgraph(
      `${QUERY} interface Priced { price: Int! } type Product implements Priced @key(fields: "id") @cached(maxAge: 60) { id: ID! price: Int! loads: Int }`,
      { Product: { __resolveReference: resolve } },
    );
    for (const selection of ["... on Product { price }", "... on Priced { price }"]) {
      price = null;
      const id = selection;
      for (const _ of [1, 2])
        expect(JSON.stringify(await entities([product(id)], selection))).toContain("non-nullable");
      price = 5;
      expect(await entities([product(id)], selection)).toEqual([{ price: 5 }]);
    }
    expect(loads).toBe(6);
  });

  it("serves entities from the store where others are in memory, to which the server adds their type", async () => {
    const client = new Redis(await sharedServer("redisStandalone"));
    onTestFinished(async () => void (await client.quit()));
    let reads = 0;
    const redis = redisStore({ client });
    const read: typeof redis.read = (...args) => (reads++, redis.read(...args));
    const options = {
      store: withRead(redis, read),
      prefix: randomUUID(),
      memory: { maxStalenessMs: 2_000 },
      storage: { storeTimeoutMs: 1_000 },
    };
    let loads = 0;
    const load = ({ id }: Reference) => ({ id, loads: ++loads });
    const { entities } = subgraph(PRODUCT, { Product: { __resolveReference: load } }, options);
    const ask = async (): Promise<boolean> => {
      const before = reads;
      expect(await entities([product(7), product(7)], `__typename ${SELECTION}`)).toEqual([
        { __typename: "Product", id: "7", loads: 1 },
        { __typename: "Product", id: "7", loads: 1 },
      ]);
      return reads > before;
    };
    // Their tags depend on more than their keys, so the store decides each time.
    for (let nth = 0; nth < 5; nth++) expect(await ask()).toBe(true);
    expect(loads).toBe(1);
  });

  it("serves read-only entities, to which the server adds their type", async () => {
    const sdl = PRODUCT.replace("@cached(", "@cached(readOnly: true, ");
    let loads = 0;
    const load = ({ id }: Reference) => ({ id, loads: ++loads });
    const { entities } = subgraph(sdl, { Product: { __resolveReference: load } });
    const expected = { __typename: "Product", id: "7", loads: 1 };
    for (let round = 0; round < 2; round++)
      expect(await entities([product(7), product(7)], `__typename ${SELECTION}`)).toEqual([expected, expected]);
  });

  it("wraps a __resolveReference once, and refuses one that reads through another cache", () => {
    const { schema, cache } = subgraph(PRODUCT, source().resolvers);
    const again = applyCached(schema, cache);
    const resolverIn = ({ getType }: typeof schema) => {
      const { extensions } = getType.call(schema, "Product") as { extensions: { apollo?: unknown } };
      return extensions.apollo;
    };
    expect(resolverIn(again)).toEqual(resolverIn(schema));
    const other = createCache({ defaultScope: "PUBLIC" });
    expect(() => applyCached(schema, other)).toThrow("`Product.__resolveReference` reads through another cache");
    return other.close();
  });
});

interface Caller {
  readonly userId: string;
}
const ownReason = (id: unknown, { userId }: Caller) => ({ id, reason: `for ${userId}` });
/** Ways in which a `__resolveReference` that is not cached finds what is its caller's. */
const PRIVATE_ENTITIES: Readonly<
  Record<string, (cache: () => Cache<Caller>) => (id: unknown, caller: Caller, info: object) => unknown>
> = {
  "has the hint PRIVATE": () => ownReason,
  "is copied from a PRIVATE loader": (cache) => {
    let mine: ReturnType<typeof make> | undefined;
    const make = () =>
      cache().loader({
        name: "Mine",
        maxAge: 60,
        scope: "PRIVATE",
        batch: async (ids: readonly unknown[], caller) => ids.map((id) => ownReason(id, caller)),
      });
    return async (id, caller) => {
      mine ??= make();
      return { ...(await mine(caller).load(id)) };
    };
  },
  "sets the hint PRIVATE": () => async (id, caller, info) => {
    await Promise.resolve();
    (info as { cacheControl?: { setCacheHint(hint: object): void } }).cacheControl?.setCacheHint({ scope: "PRIVATE" });
    return ownReason(id, caller);
  },
};

it.each(Object.entries(PRIVATE_ENTITIES))(
  "a PUBLIC field of an entity that %s belongs to its caller, though the reference is not cached",
  async (how, make) => {
    const hint = how === "has the hint PRIVATE" ? "@cacheControl(scope: PRIVATE)" : "";
    const typeDefs = `${QUERY} enum CacheControlScope { PUBLIC PRIVATE } directive @cacheControl(scope: CacheControlScope) on OBJECT
      type Product @key(fields: "id") ${hint} { id: ID! reason: String @cached(maxAge: 60) }`;
    const find = make(() => site.cache);
    const load = ({ id }: Reference, caller: Caller, info: object) => find(id, caller, info);
    const reason = (product: { reason: string }) => product.reason;
    const site: Subgraph = subgraph(typeDefs, { Product: { __resolveReference: load, reason } }, {
      identify: ({ userId }: Caller) => userId,
    } as CacheOptions<never>);
    const source = '{ _entities(representations: [{ __typename: "Product", id: 7 }]) { ... on Product { reason } } }';
    const server = new ApolloServer<Caller>({ schema: site.schema, plugins: [cachedPlugin(site.cache)] });
    await server.start();
    onTestFinished(() => server.stop());
    const ask = async (contextValue: Caller): Promise<unknown> => {
      // Apollo Server itself knows the hint of the type.
      if (hint !== "") return site.ask(source, {}, contextValue);
      const { body } = await server.executeOperation({ query: source }, { contextValue });
      return (body as { singleResult: object }).singleResult;
    };
    for (const userId of ["alice", "bob", "alice"]) {
      expect(JSON.parse(JSON.stringify(await ask({ userId })))).toMatchObject({
        data: { _entities: [{ reason: `for ${userId}` }] },
      });
      await settle();
    }
    // Wrapped once.
    expect(applyCached(site.schema, site.cache).getType("Product")?.extensions).toEqual(
      site.schema.getType("Product")?.extensions,
    );
  },
);

describe("mistakes on an entity type with @cached", () => {
  const mistakeOf = (type: string, resolvers: object = source().resolvers, options = {}): string => {
    try {
      subgraph(`${QUERY} ${type}`, resolvers, options);
    } catch (error) {
      return (error as Error).message;
    }
    return "none";
  };

  it("refuses a type with a key that has nothing to load", () => {
    expect(mistakeOf('type Product @key(fields: "id") @cached(maxAge: 60) { id: ID! }', {})).toContain(
      "@cached on `Product`: expected a type whose values are loaded, got one that no field with a resolver of its own returns, and it has no `__resolveReference`; put `@cached` on the fields that load values, or remove it",
    );
  });

  it("refuses a type with a __resolveReference that is never called", () => {
    const message =
      "its `__resolveReference` is never called, since the type has no `@key` that this subgraph resolves";
    expect(mistakeOf("type Product @cached(maxAge: 60) { id: ID! }")).toContain(message);
    expect(mistakeOf('type Product @key(fields: "id", resolvable: false) @cached(maxAge: 60) { id: ID! }')).toContain(
      message,
    );
  });

  it("refuses a type with a __resolveReference of another package, and leaves that to its server", () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    onTestFinished(() => cache.close());
    const resolveReference = () => null;
    const schemaWith = (resolvers: Record<string, Record<string, () => object>>) => {
      const typeDefs = [
        cachedTypeDefs,
        "type Query { product: Product }",
        "type Product @cached(maxAge: 60) { id: ID! }",
      ];
      const schema = makeExecutableSchema({ typeDefs, resolvers });
      // As Mercurius does.
      Object.assign(schema.getType("Product") ?? {}, { resolveReference });
      return schema;
    };
    expect(() => applyCached(schemaWith({}), cache)).toThrow(
      "its `__resolveReference` is not one of @apollo/subgraph, and is not cached; use cache.loader in it",
    );
    const schema = applyCached(schemaWith({ Query: { product: () => ({}) } }), cache);
    expect(schema.getType("Product")).toMatchObject({ resolveReference });
  });

  it("refuses arguments in keys and tags, and keys that do not tell entities apart", () => {
    const withSettings = (settings: string) =>
      mistakeOf(`type Product @key(fields: "id") @cached(maxAge: 60, ${settings}) { id: ID!, sku: ID }`);
    expect(withSettings('tags: ["Product:{$args.id}"]')).toContain(
      "`$args.id`: a `__resolveReference` has no arguments; use $source, the representation",
    );
    expect(withSettings('key: ["$args"]')).toContain("`$args`: a `__resolveReference` has no arguments");
    expect(withSettings('key: ["$context.locale", "$source.sku"]')).toContain(
      "`key`: expected the key of the entity for `__resolveReference`, $source.id, got $context.locale, $source.sku",
    );
    expect(withSettings('key: ["$source.id", "$context.locale"]')).toBe("none");
  });

  it("refuses a key that lacks a field of @requires, on the type and on its fields", () => {
    const settings = 'maxAge: 60, key: ["$source.id"]';
    const type = (onType: string, onField: string) =>
      `type Product @key(fields: "id") ${onType} {
        id: ID!
        price: Int @external
        size: Size @external
        offers: [Offer!] @external
        shipping: Int @requires(fields: "price size { height width { cm } } offers { price }") ${onField}
        name: String
      }
      type Size { height: Int @external width: Length @external }
      type Length { cm: Int @external }
      type Offer { price: Int @external }`;
    const expected = (got: string): string =>
      `\`key\`: expected the fields of \`@requires\`, $source.price, $source.size.height, $source.size.width.cm and $source.offers, got ${got}; add them, or remove \`key\``;
    const resolvers = { Product: { ...source().resolvers.Product, shipping: () => 1 } };
    expect(mistakeOf(type("", `@cached(${settings})`), resolvers)).toContain(
      `@cached on \`Product.shipping\`: ${expected("$source.id")}`,
    );
    expect(mistakeOf(type(`@cached(${settings})`, ""), resolvers)).toContain(
      `@cached on \`Product\`: ${expected("$source.id")}`,
    );
    for (const key of [
      '"$source"',
      '"$source.id", "$source.price", "$source.size", "$source.offers"',
      '"$source.id", "$source.price", "$source.size.height", "$source.size.width", "$source.offers"',
    ])
      expect(mistakeOf(type("", `@cached(maxAge: 60, key: [${key}])`), resolvers)).toBe("none");
    expect(mistakeOf(type("", "@cached(maxAge: 60)"), resolvers)).toBe("none");
  });

  it("refuses a PUBLIC entity under an auth directive that does not say that it is shared", () => {
    const type = (settings: string) =>
      `type Product @key(fields: "id") @authenticated @cached(maxAge: 60${settings}) { id: ID! }`;
    expect(mistakeOf(type(""))).toContain(
      "@cached on `Product`: `scope`: expected a declaration on the type itself, since `@authenticated` covers it",
    );
    expect(mistakeOf(type(", scope: PUBLIC"))).toBe("none");
    expect(mistakeOf(type(", scope: PRIVATE"))).toContain("PRIVATE requires the `identify` option");
  });

  it("refuses a PRIVATE field inside a PUBLIC entity", () => {
    expect(
      mistakeOf(
        `type Product @key(fields: "id") @cached(maxAge: 60) {
          id: ID!
          price: Int @cached(maxAge: 60, scope: PRIVATE)
        }`,
        source().resolvers,
        { identify: () => "ann" },
      ),
    ).toContain("so its value is stored inside the PUBLIC value of `Product.__resolveReference`");
  });
});

describe("a cached field with @requires", () => {
  const typeDefs = `${QUERY}
    type Product @key(fields: "id") {
      id: ID!
      price: Int @external
      size: Size @external
      offers: [Offer!] @external
      shipping: String
        @requires(fields: "price size { height width { cm } } offers { price }")
        @cached(maxAge: 60, tags: ["Product:{$source.id}"])
      mine: String @requires(fields: "price") @cached(maxAge: 60, scope: PRIVATE)
    }
    type Size { height: Int @external width: Length @external }
    type Length { cm: Int @external }
    type Offer { price: Int @external }`;

  /** Answers with what the resolver has been given. */
  function site() {
    const loads: string[] = [];
    const resolve = ({ id, ...required }: Reference): string => {
      const given = JSON.stringify(required);
      loads.push(given);
      return given;
    };
    const Product = { __resolveReference: (reference: Reference) => reference, shipping: resolve, mine: resolve };
    const { cache, entities, events } = subgraph(typeDefs, { Product }, { identify: () => "ann" });
    const ask = async (more: object, field = "shipping"): Promise<unknown> => {
      const [entity] = (await entities([product(7, more)], `... on Product { ${field} }`)) as Record<string, string>[];
      const { __typename, ...given } = JSON.parse(entity?.[field] ?? "{}");
      return given;
    };
    return { loads, ask, cache, events };
  }

  const known = { price: 10, size: { height: 1, width: { cm: 2 } }, offers: [{ price: 3 }, { price: 4 }] };
  const others: Readonly<Record<string, object>> = {
    "another number": { ...known, price: 99_999 },
    "another number in an object": { ...known, size: { height: 9, width: { cm: 2 } } },
    "another number in an object of an object": { ...known, size: { height: 1, width: { cm: 9 } } },
    "another number in a list": { ...known, offers: [{ price: 3 }, { price: 9 }] },
    "a shorter list": { ...known, offers: [{ price: 3 }] },
    null: { ...known, price: null },
    "null in the place of an object": { ...known, size: null },
    "null in the place of an inner object": { ...known, size: { height: 1, width: null } },
    "no such field": { size: known.size, offers: known.offers },
  };

  it.each(Object.entries(others))("is not answered with the value for other representations: %s", async (_, other) => {
    const { loads, ask } = site();
    expect(await ask(other)).toEqual(other);
    await settle();
    expect(await ask(known)).toEqual(known);
    await settle();
    expect([await ask(other), await ask(known), await ask(known)]).toEqual([other, known, known]);
    expect(loads).toHaveLength(2);
  });

  it("has an entry for each value for one identity as well", async () => {
    const { loads, ask } = site();
    for (const price of [1, 2, 1, 2]) {
      expect(await ask({ price }, "mine")).toEqual({ price });
      await settle();
    }
    expect(loads).toHaveLength(2);
  });

  it("is invalidated by its tag, whatever its representations brought, and one by one by what they brought", async () => {
    const { loads, ask, cache } = site();
    const loadedAfter = async (invalidate: () => Promise<void>): Promise<number> => {
      for (const price of [1, null]) await ask({ ...known, price });
      await settle();
      loads.length = 0;
      await invalidate();
      for (const price of [1, null]) await ask({ ...known, price });
      await settle();
      return loads.length;
    };
    const coordinate = "Product.shipping";
    const one = (price: number | null) => cache.invalidate({ coordinate, source: { id: "7", ...known, price } });
    expect(await loadedAfter(() => cache.invalidateTags(["Product:7"]))).toBe(2);
    expect(await loadedAfter(() => one(1))).toBe(1);
    expect(await loadedAfter(() => one(null))).toBe(1);
    await expect(cache.invalidate({ coordinate, source: { id: 7 } })).rejects.toThrow(
      "its key needs `$source.price`, which is missing; pass it in `source`",
    );
  });

  it("is kept apart if the directives of federation have other names", async () => {
    for (const [link, requires] of [
      ['as: "fed"', "@fed__requires"],
      ['import: ["@key", "@external", { name: "@requires", as: "@needs" }]', "@needs"],
      ["", "@federation__requires"],
    ] as const) {
      const prefix = link.startsWith("as") ? "fed__" : link === "" ? "federation__" : "";
      const schema = makeExecutableSchema({
        typeDefs: `
          ${cachedTypeDefs}
          directive @link(url: String!, as: String, import: [Any]) repeatable on SCHEMA
          directive ${requires}(fields: String!) on FIELD_DEFINITION
          directive @${prefix}key(fields: String!) repeatable on OBJECT
          scalar Any
          extend schema @link(url: "https://specs.apollo.dev/federation/v2.9", ${link})
          type Query { product(price: Int): Product }
          type Product @${prefix}key(fields: "id") {
            id: ID!
            price: Int
            shipping: Int ${requires}(fields: "price") @cached(maxAge: 60)
          }`,
        resolvers: {
          Query: { product: (_: unknown, { price }: { price: number }) => ({ id: 7, price }) },
          Product: { shipping: ({ price }: { price: number }) => price },
        },
      });
      const cache = createCache({ defaultScope: "PUBLIC" });
      onTestFinished(() => cache.close());
      const applied = applyCached(schema, cache);
      for (const price of [1, 2, 1]) {
        const { data } = await graphql({
          schema: applied,
          source: `{ product(price: ${price}) { shipping } }`,
          contextValue: {},
        });
        expect(data, requires).toEqual({ product: { shipping: price } });
        await settle();
      }
    }
  });
});
