import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";

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

describe("a schema or loader that is given to a cache again", () => {
  it("is refused if it is a loader with the name of another one and another batch function", async () => {
    const cache = createCache();
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
    createCache().loader({ name: "Product", batch: async (ids: readonly number[]) => ids, maxAge: 60 });
  });

  it("is refused if it is a schema that reads through another cache, which would go on to serve it", () => {
    const [one, two] = [createCache(), createCache()];
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
    const cache = createCache();
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
    const cache = createCache();
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
});
