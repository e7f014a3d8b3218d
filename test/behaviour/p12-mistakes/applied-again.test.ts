import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, graphql } from "graphql";
import { applyCached, type Cache, CachedError, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { afterEach, describe, expect, it, vi } from "vitest";
import { overrideStore } from "../../support/override-store.js";

const schemaOf = (top: () => unknown, type = "Int"): GraphQLSchema =>
  makeExecutableSchema({
    typeDefs: [cachedTypeDefs, `type Query { top(id: ID): ${type} @cached(maxAge: 60) }`],
    resolvers: { Query: { top } },
  });
const read = async (schema: GraphQLSchema): Promise<unknown> => {
  const { data, errors } = await graphql({ schema, source: "{ top(id: 1) }", contextValue: {} });
  expect(errors).toBeUndefined();
  await settle();
  return data?.top;
};
const applyAndRead = async (cache: Cache<unknown>, apply: typeof applyCached, value: number): Promise<void> =>
  expect(
    await read(
      apply(
        schemaOf(() => value),
        cache,
      ),
    ),
  ).toBe(value);

describe("a schema or loader that is given to a cache again", () => {
  afterEach(() => void vi.unstubAllEnvs());

  it("is refused in production if it is a loader with the name of another one and another batch function", async () => {
    vi.stubEnv("NODE_ENV", "production");
    const cache = createCache({ defaultScope: "PUBLIC" });
    const batch = async (ids: readonly number[]) => ids.map((id) => id);
    const first = cache.loader({ name: "Product", batch, maxAge: 60 });
    expect(() =>
      cache.loader({ name: "Product", batch: async (ids: readonly number[]) => ids.map(String), maxAge: 60 }),
    ).toThrow(
      expect.objectContaining({
        code: "CACHED_OPTION_INVALID",
        message:
          'cache.loader("Product"): `name`: expected a name that no other loader of the cache has, since loaders of one name share entries, got one with another `batch`; create each loader once, outside of requests, or rename it',
      }),
    );
    expect(await first({}).load(7)).toBe(7);
    const again = cache.loader({ name: "Product", batch, maxAge: 60 });
    expect(await again({}).load(7)).toBe(7);
    createCache({ defaultScope: "PUBLIC" }).loader({
      name: "Product",
      batch: async (ids: readonly number[]) => ids,
      maxAge: 60,
    });
  });

  it("replaces the earlier one if it is a loader, outside of production", async () => {
    const logged: string[] = [];
    const logger = { info: (line: string) => void logged.push(line), warn: () => undefined };
    const cache = createCache({ defaultScope: "PUBLIC", logger });
    const define = (version: string) =>
      cache.loader({
        name: "Product",
        maxAge: 60,
        version,
        batch: async (ids: readonly number[]) => ids.map((id) => `${version} ${id}`),
      });
    const context = {};
    expect(await define("first")(context).load(7)).toBe("first 7");
    await settle();
    const second = define("second");
    expect(await second(context).load(7)).toBe("second 7");
    await settle();
    expect(await second({}).load(7)).toBe("second 7");
    await cache.invalidate({ loader: "Product", id: 7 });
    expect(await define("third")({}).load(7)).toBe("third 7");
    expect(logged).toEqual([
      'graphql-cached: cache.loader("Product") was called again with another `batch`; the later loader replaces the earlier one. In production it throws: if these are two loaders, rename one of them',
    ]);
    await cache.close();
  });

  it("is accepted by a cache of another evaluation of this package, as a development server makes them", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    await applyAndRead(cache, applyCached, 1);
    vi.resetModules();
    const other = await import("graphql-cached");
    expect(other.createCache).not.toBe(createCache);
    await cache.invalidate({ coordinate: "Query.top", args: { id: 1 } });
    await applyAndRead(cache, other.applyCached, 2);
    // Recognises what the other copy has wrapped.
    const applied = applyCached(
      schemaOf(() => 1),
      cache,
    );
    expect(() => other.applyCached(applied, other.createCache({ defaultScope: "PUBLIC" }))).toThrow(
      "reads through another cache",
    );
    const error = await cache.invalidate({ coordinate: "Query.none" }).catch((thrown: unknown) => thrown);
    expect([error instanceof CachedError, error instanceof other.CachedError]).toEqual([true, true]);
    await cache.close();
  });

  it("is refused if it is a schema that reads through another cache, which would go on to serve it", () => {
    const [one, two] = [createCache({ defaultScope: "PUBLIC" }), createCache({ defaultScope: "PUBLIC" })];
    const plain = schemaOf(() => 1);
    const applied = applyCached(plain, one);
    expect(() => applyCached(applied, two as never)).toThrow(
      expect.objectContaining({
        code: "CACHED_SCHEMA_INVALID",
        message:
          "applyCached: expected a schema that no other cache was applied to, got one whose `Query.top` reads through another cache; pass the schema from before applyCached",
      }),
    );
    applyCached(applied, one);
    applyCached(plain, two);
  });

  it("is accepted if its fields have equal rules and shapes: the later resolvers load what is not stored", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const before = applyCached(
      schemaOf(() => 1),
      cache,
    );
    expect(await read(before)).toBe(1);
    const after = applyCached(
      schemaOf(() => 2),
      cache,
    );
    expect(await read(after)).toBe(1);
    await cache.invalidate({ coordinate: "Query.top", args: { id: 1 } });
    expect([await read(after), await read(before)]).toEqual([2, 2]);
  });

  it("is accepted if its fields have another shape, keeps their entries apart, and is invalidated with them", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const number = applyCached(
      schemaOf(() => 1),
      cache,
    );
    let text = "a";
    const string = applyCached(
      schemaOf(() => text, "String"),
      cache,
    );
    expect([await read(number), await read(string), await read(number)]).toEqual([1, "a", 1]);
    text = "b";
    expect(await read(string)).toBe("a");
    for (const target of [{ coordinate: "Query.top", args: { id: 1 } }, { coordinate: "Query.top" }]) {
      await cache.invalidate(target);
      expect(await read(string)).toBe(text);
      text += "b";
    }
  });

  /** Reads through schemas of one cache that make the keys of a field in different ways. Invalidations use the keys of `last`. */
  function twoKeyForms(store: Store) {
    const state = { value: 1 };
    const schema = (key: string): GraphQLSchema =>
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, `type Query { top(id: ID, lang: String): Int @cached(maxAge: 60${key}) }`],
        resolvers: { Query: { top: () => state.value } },
      });
    const byId = ', key: ["$args.id"]';
    const logger = { info: () => undefined, warn: () => undefined };
    const cache = createCache({ defaultScope: "PUBLIC", prefix: "forms", store, logger });
    const other = applyCached(schema(byId), cache);
    const last = applyCached(schema(""), cache);
    const foreign = createCache({ defaultScope: "PUBLIC", prefix: "forms", store, logger });
    return { state, cache, other, last, foreign, foreignSchema: applyCached(schema(byId), foreign) };
  }

  const storeWith = (own: (inner: Store) => Partial<Store>): Store => {
    const inner = memoryStore();
    return overrideStore(inner, own(inner));
  };

  it("has no entries in keys of another form while an invalidation by key is not confirmed", async () => {
    let failing = 0;
    const store = storeWith((inner) => ({
      appendClock: (records) =>
        failing > 0 && records.length > 0 ? Promise.reject(new Error("away")) : inner.appendClock(records),
    }));
    const { state, cache, other, last, foreign, foreignSchema } = twoKeyForms(store);
    await read(last);
    // The position of the value is later than all that the cache knows.
    await foreign.invalidateTags(["Unrelated"]);
    await foreign.invalidate({ coordinate: "Query.top", args: { id: 1 } });
    expect(await read(foreignSchema)).toBe(1);
    failing = 1;
    state.value = 2;
    await expect(cache.invalidate({ coordinate: "Query.top", args: { id: 1 } })).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
    });
    expect([await read(other), await read(last)]).toEqual([2, 2]);
    failing = 0;
    await Promise.all([cache.close(), foreign.close()]);
  });
});
