import { makeExecutableSchema } from "@graphql-tools/schema";
import { buildSchema, type GraphQLSchema, graphql, parse, printSchema, validate } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

/** Runs `queries` one after the other and returns the number of loads of each. */
async function countLoads(
  typeDefs: string,
  resolve: (source: never, args: never, context: never) => unknown,
  queries: readonly string[],
) {
  let loads = 0;
  const search = (source: never, args: never, context: never): unknown => (loads++, resolve(source, args, context));
  const { ask } = memoryWorld().process(typeDefs, { Query: { search } });
  const counts: number[] = [];
  for (const query of queries) {
    const before = loads;
    await dataOf(ask(query));
    counts.push(loads - before);
  }
  return counts;
}

describe("the default key", () => {
  it("consists of all arguments, with defaults applied, regardless of their order", async () => {
    const typeDefs =
      "enum G { A B } input F { g: G = A, n: Int } type Query { search(f: F, q: [Int!], x: Int = 1): Int @cached(maxAge: 9) }";
    const queries = [
      "{ search }",
      "{ search(x: 1) }",
      "{ s: search(x: 2) }",
      "{ search(f: { n: 1 }) }",
      "{ search(f: { g: A, n: 1 }) }",
      "{ search(f: { n: 1, g: B }) }",
      "{ search(q: [1, 2]) }",
      "{ search(q: [2, 1]) }",
      "{ search(f: null) }",
    ];
    expect(await countLoads(typeDefs, () => 1, queries)).toEqual([1, 0, 1, 1, 0, 1, 1, 1, 1]);
  });
});

describe("an explicit key", () => {
  it("consists of the named parts only", async () => {
    const typeDefs = 'type Query { search(q: String, tracking: String): Int @cached(maxAge: 9, key: ["$args.q"]) }';
    expect(
      await countLoads(typeDefs, () => 1, [
        '{ search(q: "a", tracking: "1") }',
        '{ search(q: "a", tracking: "2") }',
        '{ search(q: "b") }',
        "{ search }",
        "{ search(q: null) }",
      ]),
    ).toEqual([1, 0, 1, 1, 1]);
  });

  it("separates different selections if it contains $selection", async () => {
    const typeDefs =
      'type M { a: Int b(n: Int): Int } type Query { search: M @cached(maxAge: 9, key: ["$selection"]) }';
    expect(
      await countLoads(typeDefs, () => ({}), [
        "{ search { a } }",
        "{ search { a b } }",
        "{ search { a } }",
        "{ search { b(n: 1) } }",
        "{ search { b(n: 2) } }",
      ]),
    ).toEqual([1, 1, 0, 1, 1]);
  });
});

describe("applyCached", () => {
  const typeDefs = "type Query { top: Int @cached(maxAge: 9) } type Mutation { rate: Int }";

  it("does not modify the schema that it receives", async () => {
    let loads = 0;
    const schema = makeExecutableSchema({
      typeDefs: [cachedTypeDefs, typeDefs],
      resolvers: { Query: { top: () => ++loads } },
    });
    const before = printSchema(schema);
    const applied = applyCached(schema, createCache({ defaultScope: "PUBLIC" }));
    for (let nth = 0; nth < 2; nth++) await graphql({ schema, source: "{ top }" });
    expect(loads).toBe(2);
    expect(printSchema(schema)).toBe(before);
    expect(printSchema(applied)).toBe(before);
  });

  it("wraps each field once, even if it is applied twice", async () => {
    const { schema, cache, outcomes } = memoryWorld().process(typeDefs, { Query: { top: () => 1 } });
    await graphql({ schema: applyCached(schema, cache), source: "{ top }" });
    expect(outcomes()).toEqual({ loaded: 1 });
  });

  it("refuses other options than those with which it was applied to a field before", () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const plain = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] });
    const applied = applyCached(plain, cache, { entityTags: true });
    const again = applyCached(applied, cache, { entityTags: { exceptTypes: [] }, cacheControl: false });
    expect(() => applyCached(again, cache)).toThrow(
      'applyCached: expected the options with which the cache was applied to `Query.top` before, {"cacheControl":false,"entityTags":{"exceptTypes":[]}}, got {"cacheControl":false,"entityTags":false}; pass all options the first time',
    );
    expect(() => applyCached(again, cache, { entityTags: true, cacheControl: true })).toThrow(
      '"cacheControl":{"fields":"ROOT","defaultMaxAge":0}',
    );
  });

  it("reads extensions.cached in the same way as the directive", async () => {
    let loads = 0;
    const plain: GraphQLSchema = buildSchema("type Query { top: Int }");
    const field = plain.getQueryType()?.getFields().top;
    if (field !== undefined) Object.assign(field, { extensions: { cached: { maxAge: 9 } }, resolve: () => ++loads });
    const schema = applyCached(plain, createCache({ defaultScope: "PUBLIC" }));
    for (let nth = 0; nth < 2; nth++) await graphql({ schema, source: "{ top }" });
    expect(loads).toBe(1);
  });

  it("applies the policy of a type to the fields that return it, unless the field has its own", async () => {
    const loads = { a: 0, b: 0, c: 0 };
    const { ask, schema } = memoryWorld().process(
      'type Movie @cached(maxAge: 9) { id: ID! } type Query { a: Movie b: [Movie!] @cached(maxAge: 0) c: Movie @cached(maxAge: 1, tags: ["T"]) }',
      { Query: { a: () => (loads.a++, { id: 1 }), b: () => (loads.b++, []), c: () => (loads.c++, { id: 2 }) } },
    );
    expect(validate(schema, parse("{ a { id } }"))).toEqual([]);
    for (let nth = 0; nth < 2; nth++) await dataOf(ask("{ a { id } b { id } c { id } }"));
    expect(loads).toEqual({ a: 1, b: 2, c: 1 });
  });

  it("returns the same value on a hit as on a miss, including falsy values", async () => {
    for (const value of [null, false, 0, "", [], [null], { a: [0, ""] }]) {
      const { cache } = memoryWorld().process("type Query { a: Int }", {});
      const load = cache.loader<number, unknown>({
        name: "V",
        maxAge: 9,
        batch: async (ids) => ids.map(() => value as object),
      });
      expect(await load({}).load(1)).toStrictEqual(value);
      expect(await load({}).load(1)).toStrictEqual(value);
    }
  });

  it("remembers nothing beyond a request without a context object or with a shared one", async () => {
    for (const context of [undefined, {}]) {
      let loads = 0;
      const { ask, cache } = memoryWorld().process("type Query { top: Int @cached(maxAge: 9) }", {
        Query: { top: () => ++loads },
      });
      await ask("{ top }", context);
      await cache.invalidate({ coordinate: "Query.top" });
      expect(await dataOf(ask("{ top }", context))).toEqual({ top: 2 });
    }
  });

  it("lets the selection of a mutation read what the mutation has changed", async () => {
    let version = 1;
    const { ask } = memoryWorld().process(
      'type Movie { id: ID! stars: Int @cached(maxAge: 9, tags: ["Movie:{$source.id}"]) } type Query { movie: Movie } type Mutation { rate: Movie @invalidates(tags: ["Movie:{$result.id}"]) fail: Movie @invalidates(tags: ["Movie:7"]) }',
      {
        Query: { movie: () => ({ id: 7 }) },
        Movie: { stars: () => version },
        Mutation: { rate: () => (version++, { id: 7 }), fail: () => Promise.reject(new Error("no")) },
      },
    );
    await ask("{ movie { stars } }");
    expect(await dataOf(ask("mutation { rate { stars } again: rate { stars } }"))).toEqual({
      rate: { stars: 2 },
      again: { stars: 3 },
    });
    expect(await dataOf(ask("{ movie { stars } }"))).toEqual({ movie: { stars: 3 } });
    version = 9;
    await ask("mutation { fail { id } }");
    expect(await dataOf(ask("{ movie { stars } }"))).toEqual({ movie: { stars: 3 } });
  });
});
