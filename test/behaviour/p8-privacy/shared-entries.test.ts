import { buildSubgraphSchema } from "@apollo/subgraph";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { mapSchema } from "@graphql-tools/utils";
import { GraphQLSchema, graphql, parse } from "graphql";
import { applyCached, type Cache, cachedTypeDefs } from "graphql-cached";
import { afterEach, describe, expect, it, vi } from "vitest";
import { listen } from "../../support/listen.js";

afterEach(() => void vi.unstubAllEnvs());

function cacheOf(env: string) {
  vi.stubEnv("NODE_ENV", env);
  const { cache, warnings, infos } = listen();
  return { cache, linesWith: (text: string) => [...warnings, ...infos].filter((line) => line.includes(text)) };
}

const SDL = "type Query { price: Int @cached(maxAge: 60, scope: PUBLIC) other: Int }";
const schemaOf = (price: () => unknown, sdl = SDL): GraphQLSchema => {
  const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl] });
  // Not as a resolver of graphql-tools, which binds each.
  Object.assign(schema.getQueryType()?.getFields().price as object, { resolve: price });
  return schema;
};
const applySubgraph = (id: number, cache: Cache): GraphQLSchema => {
  const subgraph = buildSubgraphSchema({
    typeDefs: parse(
      `${String(cachedTypeDefs)} type Item @key(fields: "id") @cached(maxAge: 60, scope: PUBLIC) { id: ID! } type Query { a: Int }`,
    ),
    resolvers: { Item: { __resolveReference: () => ({ id }) } },
  });
  return applyCached(subgraph, cache);
};

describe("two schemas of one cache", () => {
  it.each<[string, () => GraphQLSchema]>([
    ["of the same shape", () => schemaOf(() => Math.random())],
    [
      "made of two maps of resolvers",
      () => makeExecutableSchema({ typeDefs: [cachedTypeDefs, SDL], resolvers: { Query: { price: () => 1 } } }),
    ],
    ["of which only the cached field is the same", () => schemaOf(() => 2, SDL.replace("other", "another"))],
  ])("with other resolvers of a cached field are refused in production: %s", (_what, make) => {
    const { cache } = cacheOf("production");
    applyCached(make(), cache);
    expect(() => applyCached(make(), cache)).toThrow(
      "applyCached: expected one resolver for each cached field of a cache, since schemas share its entries, got a schema with other resolvers of `Query.price`",
    );
  });

  it("with other resolvers of references are refused in production", () => {
    const { cache } = cacheOf("production");
    applySubgraph(1, cache);
    expect(() => applySubgraph(2, cache)).toThrow("other resolvers of `Item.__resolveReference`");
  });

  it.each<[string, (schema: GraphQLSchema, cache: Cache) => GraphQLSchema]>([
    ["the same schema", (schema) => schema],
    ["a copy", (schema) => new GraphQLSchema(schema.toConfig())],
    ["a mapped schema", (schema) => mapSchema(schema, {})],
    ["the schema with the cache", (schema, cache) => applyCached(schema, cache)],
    ["a copy of the schema with the cache", (schema, cache) => mapSchema(applyCached(schema, cache), {})],
    [
      "a schema with the same function",
      (schema) => schemaOf(schema.getQueryType()?.getFields().price?.resolve as never),
    ],
    ["a field of another shape", () => schemaOf(() => 2, SDL.replace("price: Int", "price: String"))],
    ["a field that is not cached there", () => schemaOf(() => 2, "type Query { price: Int }")],
  ])("are accepted if they resolve their cached fields by the same functions: %s", async (_what, derive) => {
    const { cache, linesWith } = cacheOf("production");
    const schema = schemaOf(() => 1);
    applyCached(schema, cache);
    const applied = applyCached(derive(schema, cache), cache);
    expect((await graphql({ schema: applied, source: "{ price }", contextValue: {} })).errors).toBeUndefined();
    expect(linesWith("resolvers")).toEqual([]);
  });

  it.each(["production", "development"])("are accepted if one is the other with cached references, in %s", (env) => {
    const { cache, linesWith } = cacheOf(env);
    const applied = applySubgraph(1, cache);
    for (const again of [applied, mapSchema(applied, {})]) expect(() => applyCached(again, cache)).not.toThrow();
    expect(linesWith("resolvers")).toEqual([]);
  });

  it("replace each other outside of production, which is said once", () => {
    for (const env of ["development", "test"]) {
      const { cache, linesWith } = cacheOf(env);
      const schema = (evaluation: number) => schemaOf(() => evaluation);
      for (let evaluation = 0; evaluation < 3; evaluation++) applyCached(schema(evaluation), cache);
      expect(linesWith("the later schema replaces the earlier one")).toHaveLength(1);
    }
  });
});
