import { settle } from "@graphql-cached/testing";
import { type GraphQLSchema, graphql } from "graphql";
import { applyCached, type Cache, CachedError, createCache, memoryStore } from "graphql-cached";
import { afterEach, describe, expect, it, vi } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";
import { overrideStore } from "../../support/override-store.js";

const batch = async (ids: readonly number[]) => ids;
const topOf = (top: () => unknown, type = "Int"): GraphQLSchema =>
  schemaOf(`type Query { top(id: ID): ${type} @cached(maxAge: 60) }`, { Query: { top } });
const apply = (cache: Cache, top: () => unknown, type?: string): GraphQLSchema => applyCached(topOf(top, type), cache);
const TOP = { coordinate: "Query.top", args: { id: 1 } };
const read = async (schema: GraphQLSchema): Promise<unknown> => {
  const { data, errors } = await graphql({ schema, source: "{ top(id: 1) }", contextValue: {} });
  expect(errors).toBeUndefined();
  await settle();
  return data?.top;
};

describe("a schema or loader that is given to a cache again", () => {
  afterEach(() => void vi.unstubAllEnvs());

  it("is refused in production if it is a loader with the name of another one and another batch function", async () => {
    vi.stubEnv("NODE_ENV", "production");
    const { cache } = listen();
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
    listen().cache.loader({ name: "Product", batch: async (ids: readonly number[]) => ids, maxAge: 60 });
  });

  it("replaces the earlier one if it is a loader, outside of production", async () => {
    const { cache, infos } = listen();
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
    expect(infos).toEqual([
      'cache.loader("Product") was called again with another `batch`; the later loader replaces the earlier one. In production it throws: if these are two loaders, rename one of them',
    ]);
  });

  it("is accepted by a cache of another evaluation of this package, as a development server makes them", async () => {
    const { cache } = listen();
    expect(await read(apply(cache, () => 1))).toBe(1);
    vi.resetModules();
    const other = await import("graphql-cached");
    expect(other.createCache).not.toBe(createCache);
    await cache.invalidate(TOP);
    expect(
      await read(
        other.applyCached(
          topOf(() => 2),
          cache,
        ),
      ),
    ).toBe(2);
    // Recognises what the other copy has wrapped.
    const applied = apply(cache, () => 1);
    expect(() => other.applyCached(applied, other.createCache({ defaultScope: "PUBLIC" }))).toThrow(
      "reads through another cache",
    );
    const error = await cache.invalidate({ coordinate: "Query.none" }).catch((thrown: unknown) => thrown);
    expect([error instanceof CachedError, error instanceof other.CachedError]).toEqual([true, true]);
  });

  it("is refused if it is a schema that reads through another cache, which would go on to serve it", () => {
    const [one, two] = [listen().cache, listen().cache];
    const plain = topOf(() => 1);
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

  it("is accepted by another cache if the first one caches no field of it, and is cached there", async () => {
    const plain = schemaOf("type Query { top(id: ID): Top } type Top { id: ID }", {
      Query: { top: () => ({ id: ++loads }) },
    });
    let loads = 0;
    const one = applyCached(plain, listen().cache);
    const two = applyCached(one, listen().cache, { policies: { "Query.top": { maxAge: 60 } } });
    for (let round = 0; round < 2; round++) {
      const { data } = await graphql({ schema: two, source: "{ top { id } }", contextValue: {} });
      expect(data).toEqual({ top: { id: "1" } });
      await settle();
    }
    expect(() => applyCached(two, listen().cache)).toThrow("`Query.top` reads through another cache");
  });

  it("is accepted if its fields have equal rules and shapes: the later resolvers load what is not stored", async () => {
    const { cache } = listen();
    const before = apply(cache, () => 1);
    expect(await read(before)).toBe(1);
    const after = apply(cache, () => 2);
    expect(await read(after)).toBe(1);
    await cache.invalidate(TOP);
    expect([await read(after), await read(before)]).toEqual([2, 2]);
  });

  it("is accepted if its fields have another shape, keeps their entries apart, and is invalidated with them", async () => {
    const { cache } = listen();
    const number = apply(cache, () => 1);
    let text = "a";
    const string = apply(cache, () => text, "String");
    expect([await read(number), await read(string), await read(number)]).toEqual([1, "a", 1]);
    text = "b";
    expect(await read(string)).toBe("a");
    for (const target of [TOP, { coordinate: "Query.top" }]) {
      await cache.invalidate(target);
      expect(await read(string)).toBe(text);
      text += "b";
    }
  });

  it("has no entries in keys of another form while an invalidation by key is not confirmed", async () => {
    const inner = memoryStore();
    let isAway = false;
    const store = overrideStore(inner, {
      appendClock: (records) =>
        isAway && records.length > 0 ? Promise.reject(new Error("away")) : inner.appendClock(records),
    });
    const state = { value: 1 };
    const apply = (key: string, { cache }: ReturnType<typeof listen>): GraphQLSchema => {
      const sdl = `type Query { top(id: ID, lang: String): Int @cached(maxAge: 60${key}) }`;
      return applyCached(schemaOf(sdl, { Query: { top: () => state.value } }), cache);
    };
    const shared = { prefix: "forms", store };
    const [own, foreign] = [listen(shared), listen(shared)];
    const byId = ', key: ["$args.id"]';
    // Invalidations use the keys of the last one.
    const [other, last] = [apply(byId, own), apply("", own)];
    const foreignSchema = apply(byId, foreign);
    await read(last);
    // The position of the value is later than all that the cache knows.
    await foreign.cache.invalidateTags(["Unrelated"]);
    await foreign.cache.invalidate(TOP);
    expect(await read(foreignSchema)).toBe(1);
    isAway = true;
    state.value = 2;
    await expect(own.cache.invalidate(TOP)).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    expect([await read(other), await read(last)]).toEqual([2, 2]);
    isAway = false;
  });
});
