import { ApolloServer } from "@apollo/server";
import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { execute, GraphQLScalarType, parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Context, HINTS, knowOperations, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  scalar JSON
  scalar Opaque
  interface Node @cacheControl(maxAge: 600, scope: PRIVATE) { name: String }
  type Plain implements Node @cacheControl(maxAge: 600) { name: String }
  union Any @cacheControl(maxAge: 600, scope: PRIVATE) = Plain
  input In { a: Int = 5 b: [Int] c: In }
  type Query {
    echo(json: JSON, in: In, s: String = "d", o: Opaque): JSON @cacheControl(maxAge: 600)
    node: Node @cacheControl(maxAge: 600)
    any: Any @cacheControl(maxAge: 600)
    nodes: [Node!]! @cacheControl(maxAge: 600)
    page: Plain @cacheControl(maxAge: 600)
  }
`;
class Opaque {
  readonly #value: string;
  constructor(value: string) {
    this.#value = value;
  }
  toString(): string {
    return this.#value;
  }
}
const parseOpaque = (value: unknown) => new Opaque(String(value));
const scalars = {
  JSON: new GraphQLScalarType({ name: "JSON" }),
  Opaque: new GraphQLScalarType({ name: "Opaque", parseValue: parseOpaque } as never),
};
const resolvers = {
  ...scalars,
  Query: {
    echo: (_: unknown, args: { o?: Opaque }) =>
      JSON.stringify({ ...args, o: args.o === undefined ? "none" : String(args.o) }),
    node: (_: unknown, __: unknown, { user }: Context) => ({ __typename: "Plain", user }),
    any: (_: unknown, __: unknown, { user }: Context) => ({ __typename: "Plain", user }),
    nodes: (_: unknown, __: unknown, { user }: Context) => [{ __typename: "Plain", user }],
    page: () => ({ user: "all" }),
  },
  Plain: { name: ({ user }: { user?: string }) => user },
};

describe.each(SERVERS)("on %s", (server) => {
  it.each(["{ node { name } }", "{ any { ... on Plain { name } } }", "{ nodes { ... on Node { name } } }"])(
    "%s, whose abstract type is PRIVATE, is one caller's",
    async (query) => {
      const { ask } = openSite({
        typeDefs,
        resolvers,
        server,
        cache: { privacy: { sharedContextKeys: ["user"] } },
      });
      const asked = async (user: string) => JSON.stringify((await ask(query, { user })).data);
      expect(await asked("ann")).toContain("ann");
      expect(await asked("bob")).toContain("bob");
    },
  );

  it("variables give what they give without the cache", async () => {
    const { ask, schema } = openSite({ typeDefs, resolvers, server });
    const query =
      'query ($json: JSON, $in: In, $s: String, $t: String = "t", $o: Opaque) { echo(json: $json, in: $in, s: $s, o: $o) b: echo(s: $t) }';
    const document = parse(query);
    const all: Record<string, unknown>[] = [
      {},
      { s: null },
      { s: "d" },
      { s: "" },
      { s: "null" },
      { t: null },
      { t: "t" },
      { in: null },
      { in: {} },
      { in: { a: null } },
      { in: { a: 5 } },
      { in: { b: [] } },
      { in: { b: 1 } },
      { in: { b: [1] } },
      { in: { b: [null] } },
      { in: { c: {} } },
      { json: null },
      { json: "null" },
      { json: 0 },
      { json: "0" },
      { json: false },
      { json: {} },
      { json: [] },
      { json: [[]] },
      { json: { a: 1, b: 2 } },
      { json: { b: 2, a: 1 } },
      { json: JSON.parse('{ "__proto__": 1 }') },
      { json: JSON.parse('{ "__proto__": { "a": 1 } }') },
      { json: JSON.parse('{ "__proto__": null }') },
      { json: { constructor: 1 } },
      { json: { toJSON: 1 } },
      { json: "a\u0000b" },
      { json: "a" },
      { json: "\ud800" },
      { json: "\ufffd" },
      { json: 1e21 },
      { json: 1e-7 },
      { json: Number("9007199254740993") },
      { o: "x" },
      { o: "y" },
      JSON.parse('{ "__proto__": { "s": "p" } }'),
      { extra: 1 },
      { in: { a: "no" } },
    ];
    for (const variables of [...all, ...all.toReversed()]) {
      const expected = JSON.parse(
        JSON.stringify(execute({ schema, document, variableValues: variables, contextValue: {} })),
      );
      const { data, errors } = await ask(query, {}, variables);
      expect([variables, data ?? undefined, errors?.length]).toEqual([
        variables,
        expected.data ?? undefined,
        expected.errors?.length,
      ]);
    }
  });

  it("aliases with names that JavaScript knows are answered as without the cache", async () => {
    const { ask, schema } = openSite({ typeDefs, resolvers, server });
    const names = [
      "__proto__",
      "constructor",
      "toJSON",
      ...(server === "GraphQL Yoga" ? [] : ["then"]),
      "hasOwnProperty",
      "length",
      "data",
      "stringify",
      "__typename2",
    ];
    const query = `{ ${names.map((name) => `${name}: page { ${names.map((one) => `${one}: name`).join(" ")} __typename }`).join(" ")} a: __typename __schema { queryType { name } } }`;
    const expected = JSON.stringify((await execute({ schema, document: parse(query), contextValue: {} })).data);
    for (let nth = 0; nth < 4; nth++) expect(JSON.stringify((await ask(query)).data)).toBe(expected);
  });

  it("fragments and directives are told apart", async () => {
    const { ask, schema } = openSite({ typeDefs, resolvers, server });
    const queries = [
      "query ($x: Boolean!) { page { name @include(if: $x) __typename } }",
      "query ($x: Boolean!) { page { name @skip(if: $x) __typename } }",
      "query ($x: Boolean!) { page { ...F @include(if: $x) __typename } } fragment F on Plain { name }",
      "query ($x: Boolean!) { page { ...F @include(if: $x) __typename } } fragment F on Plain { n: name }",
      "query ($x: Boolean!) { page { ...F @include(if: $x) __typename } } fragment F on Plain { ...G } fragment G on Plain { g: name }",
      "query ($x: Boolean!) { page { ...F @include(if: $x) __typename } } fragment F on Plain { ...G } fragment G on Plain { h: name }",
      "query ($x: Boolean!) { ...Q @skip(if: $x) t: __typename } fragment Q on Query { page { name } }",
      "query ($x: Boolean!) { ...Q @skip(if: $x) t: __typename } fragment Q on Query { page { name } page { x: name } }",
      'query ($x: Boolean!) { t: __typename @skip(if: $x) echo(s: "a") }',
      'query ($x: Boolean!) { t: __typename @skip(if: $x) echo(s: """a""") }',
      'query ($x: Boolean!) { t: __typename @skip(if: $x) echo(s: """a\\n """) }',
      "query ($x: Boolean!) { t: __typename @skip(if: $x) echo(json: 1) }",
      "query ($x: Boolean!) { t: __typename @skip(if: $x) echo(json: 1.0) }",
      'query ($x: Boolean!) { t: __typename @skip(if: $x) echo(json: "1") }',
      "query ($x: Boolean!) { t: __typename @skip(if: $x) echo(json: ENUM) }",
      'query ($x: Boolean!) { t: __typename @skip(if: $x) echo(json: "ENUM") }',
      "query ($x: Boolean = true) { t: __typename @skip(if: $x) page { name } }",
      "query ($x: Boolean = false) { t: __typename @skip(if: $x) page { name } }",
    ];
    for (let nth = 0; nth < 3; nth++)
      for (const query of queries)
        for (const x of [true, false, undefined, null]) {
          const variables = x === undefined ? {} : { x };
          const result = await execute({ schema, document: parse(query), variableValues: variables, contextValue: {} });
          const { data, errors } = await ask(query, {}, variables);
          expect([query, x, JSON.stringify(data ?? null), errors?.length]).toEqual([
            query,
            x,
            JSON.stringify(result.data ?? null),
            result.errors?.length,
          ]);
        }
  });
});

function openNamed() {
  knowOperations();
  const cache = createCache<object>({
    defaultScope: "PUBLIC",
    logger: { warn: () => undefined, info: () => undefined },
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, typeDefs], resolvers: resolvers as never }),
    cache,
  );
  return { cache, schema };
}

const DOCUMENTS = [
  "{ page { name } }",
  "query A { page { name } }",
  "query A { page { name } } query B { b: page { name } }",
];
const NAMES = [undefined, null, "", "A", "B", "unknown", "__proto__"];

describe("the name of an operation", () => {
  it("chooses on cache.execute what it chooses without the cache", async () => {
    const { cache, schema } = openNamed();
    for (let nth = 0; nth < 3; nth++)
      for (const text of DOCUMENTS)
        for (const operationName of NAMES) {
          const args = { schema, document: parse(text), operationName, contextValue: {} };
          const expected = JSON.stringify(await execute(args));
          const got = JSON.stringify(await cache.execute(args));
          await settle();
          expect([nth, text, operationName, got]).toEqual([nth, text, operationName, expected]);
        }
  });

  it("chooses on Apollo Server what it chooses without the cache", async () => {
    const { cache, schema } = openNamed();
    const [one, other] = [[], [cachedPlugin(cache, { responses: true })]].map(
      (plugins) => new ApolloServer({ schema, plugins: plugins as never, includeStacktraceInErrorResponses: false }),
    ) as [ApolloServer, ApolloServer];
    onTestFinished(async () => void (await one.stop(), await other.stop()));
    for (let nth = 0; nth < 3; nth++)
      for (const query of DOCUMENTS)
        for (const operationName of NAMES) {
          const of = async (apollo: ApolloServer) => {
            const { body } = await apollo.executeOperation({ query, operationName: operationName as never });
            await settle();
            return JSON.stringify(body.kind === "single" ? body.singleResult : {});
          };
          expect([nth, query, operationName, await of(other)]).toEqual([nth, query, operationName, await of(one)]);
        }
  });

  it("chooses on GraphQL Yoga what it chooses without the cache", async () => {
    const { cache, schema } = openNamed();
    const [one, other] = [[], [useCached(cache, { responses: true })]].map((plugins) =>
      createYoga({ schema, logging: false, plugins: plugins as never }),
    ) as [ReturnType<typeof createYoga>, ReturnType<typeof createYoga>];
    for (let nth = 0; nth < 3; nth++)
      for (const query of DOCUMENTS)
        for (const operationName of NAMES) {
          const of = async (yoga: typeof one) => {
            const response = await yoga.fetch("http://localhost/graphql", {
              method: "POST",
              headers: { "content-type": "application/json" },
              body: JSON.stringify({ query, operationName }),
            });
            const text = await response.text();
            await settle();
            return text;
          };
          expect([nth, query, operationName, await of(other)]).toEqual([nth, query, operationName, await of(one)]);
        }
  });
});
