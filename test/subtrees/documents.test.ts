import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { MapperKind, mapSchema } from "@graphql-tools/utils";
import { execute, GraphQLScalarType, graphql, introspectionFromSchema, parse, printSchema } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSubtrees, type SubtreeSiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  scalar Stamp
  type Query {
    posts(n: Int = 2, at: Stamp, where: Where): [Post!]! @cached(maxAge: 60, subtree: true)
    best: Post @cached(maxAge: 60, subtree: true)
    plain: String
  }
  input Where { from: Stamp tags: [String!] = ["a"] }
  type Post { id: ID! title(short: Boolean = true): String author: Author seen(at: Stamp): Stamp }
  type Author { id: ID! name: String posts: [Post!]! }
  type Subscription { ticks: Int }
`;

/** Refuses what it has made itself, as strict scalars do. */
class StampValue {
  constructor(readonly text: string) {}
}
const Stamp = new GraphQLScalarType({
  name: "Stamp",
  serialize: (value) => (value instanceof StampValue ? value.text : fail("a stamp", value)),
  parseValue: (value) => (typeof value === "string" ? new StampValue(value) : fail("a string", value)),
  parseLiteral: (node) => ("value" in node ? new StampValue(String(node.value)) : fail("a string", node)),
});
function fail(expected: string, got: unknown): never {
  throw new TypeError(`expected ${expected}, got ${typeof got}`);
}

function open(options: Partial<SubtreeSiteOptions> = {}) {
  const calls: string[] = [];
  const post = (id: number): object => ({ id });
  const resolvers = {
    Stamp,
    Query: {
      posts: (_: unknown, { n, at, where }: { n: number; at?: StampValue; where?: { from?: StampValue } }) => {
        calls.push("posts");
        for (const stamp of [at, where?.from])
          if (stamp != null && !(stamp instanceof StampValue)) throw new Error("not coerced");
        return Array.from({ length: n }, (_item, nth) => post(nth + 1));
      },
      best: () => {
        calls.push("best");
        return post(1);
      },
      plain: () => {
        calls.push("plain");
        return "plain";
      },
    },
    Post: {
      title: ({ id }: { id: number }, { short }: { short: boolean }) => {
        calls.push("title");
        return short ? `Post ${id}` : `The post ${id}`;
      },
      author: ({ id }: { id: number }) => {
        calls.push("author");
        return { id: id % 2, name: `Author ${id % 2}` };
      },
      seen: (_: unknown, { at }: { at?: StampValue }) => at ?? new StampValue("never"),
    },
    Author: { posts: ({ id }: { id: number }) => [post(id)] },
  };
  const site = openSubtrees({ typeDefs, resolvers, ...options });
  /** The same schema without a cache. */
  const uncached = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: resolvers as never });
  const expected = async (query: string, variableValues: Record<string, unknown> = {}) =>
    JSON.stringify(await graphql({ schema: uncached, source: query, variableValues, contextValue: {} }));
  const count = (name: string): number => calls.filter((call) => call === name).length;
  return { ...site, calls, count, expected, uncached, resolvers };
}

/** Queries that select in ways in which a rewritten document could differ from the one of the client. */
const QUERIES: Readonly<Record<string, readonly [query: string, variables?: Record<string, unknown>]>> = {
  "aliases and several calls of a field": ["{ a: posts(n: 1) { x: id } b: posts(n: 2) { id t: title } best { id } }"],
  "a fragment that is spread twice": ["{ ...F ...F } fragment F on Query { posts { id title } plain }"],
  "a fragment that is spread twice, with another between them": [
    "{ ...F ... { ...G } ...F } fragment F on Query { posts { id } best { id } } fragment G on Query { posts { title } plain }",
  ],
  "nodes of one field, in fragments and outside": [
    "{ posts { id } ...F posts { author { id } } } fragment F on Query { posts { title } }",
  ],
  "nodes of one field of which a condition leaves one out": [
    "query ($on: Boolean!) { posts { id } ... @include(if: $on) { posts { title } } ...F @skip(if: $on) } fragment F on Query { posts { author { name } } }",
    { on: true },
  ],
  "the same with the other value": [
    "query ($on: Boolean!) { posts { id } ... @include(if: $on) { posts { title } } ...F @skip(if: $on) } fragment F on Query { posts { author { name } } }",
    { on: false },
  ],
  "a field that is left out": ["query ($on: Boolean!) { plain posts @include(if: $on) { id } }", { on: false }],
  "everything left out": ["query ($on: Boolean!) { posts @include(if: $on) { id } }", { on: false }],
  "fragments in fragments, below and at the top": [
    "{ ...Q } fragment Q on Query { posts { ...P } } fragment P on Post { ...T author { ...A } } fragment T on Post { title } fragment A on Author { name posts { ...T } }",
  ],
  "strict scalars in variables, defaults and input objects": [
    'query ($at: Stamp, $from: Stamp = "then", $where: Where) { a: posts(at: $at, where: { from: $from }) { seen(at: $at) } b: posts(where: $where) { id seen } }',
    { at: "now", where: { from: "later" } },
  ],
  "variables that are null, absent, or only used elsewhere": [
    "query ($n: Int, $short: Boolean, $other: Int = 1, $at: Stamp) { all: posts(n: $n) { id } posts(n: $other) { title(short: $short) seen(at: $at) } more: posts(n: 3, at: $at) { id } x: posts(n: 1) @skip(if: false) { __typename } __typename }",
    { short: false, at: null },
  ],
  "__typename in all places": ["{ __typename posts { __typename author { __typename } } t: __typename }"],
  introspection: [
    '{ __schema { queryType { fields { name } } } __type(name: "Query") { fields { name } } posts { id } }',
  ],
  "a named operation of several": ["query A { posts { id } }"],
  "no order of fields but its own": ["{ plain best { id } posts { author { id } title id } other: plain }"],
};

describe("an operation with subtrees", () => {
  it.each(Object.entries(QUERIES))(
    "has the answer that it has without them, on a miss and on a hit: %s",
    async (_, [query, variables]) => {
      const { ask, expected } = open();
      const answer = await expected(query, variables);
      for (let time = 0; time < 3; time++) expect(JSON.stringify(await ask(query, {}, variables))).toBe(answer);
    },
  );

  it("has the nodes of a field that the conditions of each request leave in", async () => {
    const { ask, expected } = open();
    const query =
      "query ($a: Boolean!, $b: Boolean!) { posts { id } posts @include(if: $a) { title } ...F } fragment F on Query { posts @include(if: $b) { author { name } } }";
    for (let time = 0; time < 2; time++)
      for (const a of [true, false])
        for (const b of [true, false])
          expect(JSON.stringify(await ask(query, {}, { a, b }))).toBe(await expected(query, { a, b }));
  });

  it("executes a fragment that is spread twice once", async () => {
    const { ask, count } = open();
    await ask("{ ...F ...F } fragment F on Query { posts(n: 1) { title } plain }");
    expect([count("posts"), count("title"), count("plain")]).toEqual([1, 1, 1]);
  });

  it("reads all nodes of one field as one subtree", async () => {
    const { ask, calls } = open();
    const query = "{ posts(n: 1) { id } ...F } fragment F on Query { posts(n: 1) { title } }";
    await ask(query);
    const before = calls.length;
    await ask(query);
    expect([before, calls.length]).toEqual([2, 2]);
  });

  it("executes nothing of a field that a stored entry answers, however deep", async () => {
    const { ask, calls } = open();
    const query = "{ posts { title author { name posts { title } } } }";
    const first = await ask(query);
    calls.length = 0;
    expect(await ask(query)).toEqual(first);
    expect(calls).toEqual([]);
  });

  it("shares entries between documents that select the same with other names, comments and fragments elsewhere", async () => {
    const { ask, count } = open();
    await ask("query A { posts { id title } }");
    await ask("query B { posts { id title } plain }");
    await ask("# C\nquery C($n: Int = 2) { posts(n: $n) { id, title } }");
    expect(count("posts")).toBe(1);
  });

  it("leaves subscriptions and mutations as they are", async () => {
    const { cache, schema } = open();
    const result = await cache.execute({ schema, document: parse("subscription { ticks }"), contextValue: {} }, false);
    expect(JSON.stringify(result)).toBe('{"data":{"ticks":null}}');
  });
});

it("leaves no field of its own in the result that other hooks see", async () => {
  const { cache, schema } = open();
  for (let time = 0; time < 2; time++) {
    const document = parse("{ posts { id } best { title } }");
    const { data } = await cache.execute({ schema, document, contextValue: {} }, false);
    await settle();
    expect(Reflect.ownKeys(data as object)).toEqual(["posts", "best"]);
  }
});

it("changes neither the SDL, nor introspection, nor the fields that a server enumerates", () => {
  const { schema, uncached } = open();
  const before = [printSchema(uncached), introspectionFromSchema(uncached)];
  return graphql({ schema, source: "{ posts { id } }", contextValue: {} }).then(() => {
    expect([printSchema(schema), introspectionFromSchema(schema)]).toEqual(before);
    expect(Object.keys(schema.getQueryType()?.getFields() ?? {})).toEqual(["posts", "best", "plain"]);
    expect(Object.keys(schema.getTypeMap()).filter((name) => name.includes("$"))).toEqual([]);
  });
});

describe("a schema that is not the one that was applied", () => {
  it("answers completely, without subtrees, if it is a copy", async () => {
    const { schema, askOf, expected, skipped, warnings, count } = open();
    const copy = mapSchema(schema, { [MapperKind.OBJECT_FIELD]: (field) => ({ ...field }) });
    const query = "{ posts { id title } best { id } }";
    for (let time = 0; time < 2; time++) expect(JSON.stringify(await askOf(copy)(query))).toBe(await expected(query));
    expect(skipped()).toEqual(["NO_TWIN Query.posts", "NO_TWIN Query.best"]);
    expect(warnings.filter((line) => line.includes("got a copy of it"))).toHaveLength(2);
    // Field by field, as without `subtree: true`.
    expect(count("posts")).toBe(1 + 2);
  });

  it("answers completely if both are executed in turn", async () => {
    const { schema, ask, askOf, expected } = open();
    const copy = mapSchema(schema, { [MapperKind.OBJECT_FIELD]: (field) => ({ ...field }) });
    const query = "{ posts { id title } }";
    const answer = await expected(query);
    for (const one of [ask, askOf(copy), ask, askOf(copy)]) expect(JSON.stringify(await one(query))).toBe(answer);
  });
});

describe("the root value of a server", () => {
  const query = "{ posts(n: 1) { id title } }";

  it("is where fields are resolved from, and nothing is stored", async () => {
    const { cache, schema, count } = open();
    const document = parse(query);
    for (let time = 1; time <= 2; time++) {
      const { data } = await cache.execute({ schema, document, contextValue: {}, rootValue: { of: "server" } }, false);
      await settle();
      expect(JSON.stringify(data)).toBe('{"posts":[{"id":"1","title":"Post 1"}]}');
    }
    expect(count("title")).toBe(2);
  });

  it("is noticed by the executed field on servers that do not show it before", async () => {
    const { cache, schema, count, skipped } = open();
    const given = parse(query);
    const { document, finish } = cache.prepare(schema, given);
    expect(document).not.toBe(given);
    for (let time = 1; time <= 2; time++) {
      const result = await execute({ schema, document, contextValue: {}, rootValue: { of: "server" } });
      expect(JSON.stringify(finish(result))).toBe('{"data":{"posts":[{"id":"1","title":"Post 1"}]}}');
    }
    expect(count("title")).toBe(2);
    expect(cache.prepare(schema, given).document).toBe(given);
    expect(skipped()).toEqual(["ROOT_VALUE Query.posts"]);
  });
});

describe("several caches, servers and calls of applyCached", () => {
  it("a second cache for the same schema keeps its own entries", async () => {
    const { schema, uncached, ask, count } = open();
    const second = createCache({ logger: { warn: () => undefined, info: () => undefined } });
    onTestFinished(() => second.close());
    expect(() => applyCached(schema, second)).toThrow("expected a schema that no other cache was applied to");
    const applied = applyCached(uncached, second);
    const document = parse("{ posts { id title } }");
    for (let time = 0; time < 2; time++) {
      const result = await second.execute({ schema: applied, document, contextValue: {} }, false);
      await settle();
      const expected = '{"data":{"posts":[{"id":"1","title":"Post 1"},{"id":"2","title":"Post 2"}]}}';
      expect(JSON.stringify(result)).toBe(expected);
      expect(JSON.stringify(await ask("{ posts { id title } }"))).toBe(expected);
    }
    expect(count("posts")).toBe(2);
  });

  it("two servers over one schema share entries, and answer the same", async () => {
    const { cache, schema, count } = open();
    const query = "{ posts { id title } }";
    // Each server parses for itself.
    for (const document of [parse(query), parse(query), parse(query)]) {
      const { data } = await cache.execute({ schema, document, contextValue: {} }, false);
      await settle();
      expect(Object.keys(data as object)).toEqual(["posts"]);
    }
    expect(count("posts")).toBe(1);
  });

  it("a schema that is applied twice has its subtrees", async () => {
    const { cache, schema, count } = open();
    const again = applyCached(schema, cache);
    const document = parse("{ posts { id title } }");
    for (let time = 0; time < 2; time++) {
      const { data } = await cache.execute({ schema: again, document, contextValue: {} }, false);
      await settle();
      expect(Object.keys(data as object)).toEqual(["posts"]);
    }
    expect([count("posts"), count("title")]).toEqual([1, 2]);
  });

  it("two schemas of one cache have their own subtrees", async () => {
    const { cache, schema, uncached, count } = open();
    const other = applyCached(uncached, cache);
    for (const executed of [schema, other, schema, other]) {
      const document = parse("{ posts { id title } }");
      const { data } = await cache.execute({ schema: executed, document, contextValue: {} }, false);
      await settle();
      expect(JSON.stringify(data)).toBe('{"posts":[{"id":"1","title":"Post 1"},{"id":"2","title":"Post 2"}]}');
    }
    expect(count("posts")).toBe(1);
  });
});
