import { execute, GraphQLScalarType, parse } from "graphql";
import { describe, expect, it } from "vitest";
import { apolloOf, askApollo, type Context, openSite, postYoga, SERVERS, type ServerName, yogaOf } from "./site.js";

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
const plain = (_: unknown, __: unknown, { user }: Context) => ({ __typename: "Plain", user });
const resolvers = {
  JSON: new GraphQLScalarType({ name: "JSON" }),
  Opaque: new GraphQLScalarType({ name: "Opaque", parseValue: parseOpaque } as never),
  Query: {
    echo: (_: unknown, { o, ...args }: { o?: Opaque }) => JSON.stringify({ ...args, o: String(o ?? "none") }),
    node: plain,
    any: plain,
    nodes: (...args: Parameters<typeof plain>) => [plain(...args)],
    page: () => ({ user: "all" }),
  },
  Plain: { name: ({ user }: { user?: string }) => user },
};

/** Values of the variables of a query, as clients send them. */
const VARIABLES = JSON.parse(String.raw`[
  {}, { "s": null }, { "s": "d" }, { "s": "" }, { "s": "null" }, { "t": null }, { "t": "t" },
  { "in": null }, { "in": {} }, { "in": { "a": null } }, { "in": { "a": 5 } }, { "in": { "a": "no" } },
  { "in": { "b": [] } }, { "in": { "b": 1 } }, { "in": { "b": [1] } }, { "in": { "b": [null] } }, { "in": { "c": {} } },
  { "json": null }, { "json": "null" }, { "json": 0 }, { "json": "0" }, { "json": false },
  { "json": {} }, { "json": [] }, { "json": [[]] },
  { "json": [[1, 2], [3]] }, { "json": [[1], [2, 3]] }, { "json": [[1, 2, 3]] }, { "json": 1 }, { "json": "1" }, { "json": true }, { "json": "true" },
  { "json": { "a": 1, "b": 2 } }, { "json": { "b": 2, "a": 1 } },
  { "json": { "__proto__": 1 } }, { "json": { "__proto__": { "a": 1 } } }, { "json": { "__proto__": null } },
  { "json": { "constructor": 1 } }, { "json": { "toJSON": 1 } }, { "__proto__": { "s": "p" } }, { "extra": 1 },
  { "json": "a\u0000b" }, { "json": "a" }, { "json": "\ud800" }, { "json": "\ufffd" },
  { "json": 1e21 }, { "json": 1e-7 }, { "json": 9007199254740993 }, { "o": "x" }, { "o": "y" }
]`) as readonly Record<string, unknown>[];

describe.each(SERVERS)("on %s", (server) => {
  it.each(["{ node { name } }", "{ any { ... on Plain { name } } }", "{ nodes { ... on Node { name } } }"])(
    "%s, whose abstract type is PRIVATE, is one caller's",
    async (query) => {
      const { ask } = openSite({ typeDefs, resolvers, server, cache: { privacy: { sharedContextKeys: ["user"] } } });
      for (const user of ["ann", "bob"]) expect(JSON.stringify((await ask(query, { user })).data)).toContain(user);
    },
  );

  /** Asks with and without the cache, as often as there are `rounds`. */
  async function expectAsWithout(rounds: readonly (readonly [query: string, variables: Record<string, unknown>])[]) {
    const { ask, schema } = openSite({ typeDefs, resolvers, server });
    for (const [query, variables] of rounds) {
      const args = { schema, document: parse(query), variableValues: variables, contextValue: {} };
      const expected = await execute(args);
      const { data, errors } = await ask(query, {}, variables);
      const of = (one: unknown, count = 0) => [query, variables, JSON.stringify(one ?? null), count];
      expect(of(data, errors?.length)).toEqual(of(expected.data, expected.errors?.length));
    }
  }

  it("variables give what they give without the cache", async () => {
    const query =
      'query ($json: JSON, $in: In, $s: String, $t: String = "t", $o: Opaque) { echo(json: $json, in: $in, s: $s, o: $o) b: echo(s: $t) }';
    await expectAsWithout([...VARIABLES, ...VARIABLES.toReversed()].map((variables) => [query, variables]));
  });

  it("aliases with names that JavaScript knows are answered as without the cache", async () => {
    const known = "__proto__ constructor toJSON then hasOwnProperty toString length data stringify __typename2".split(
      " ",
    );
    const names = known.filter((name) => name !== "then" || server !== "GraphQL Yoga");
    const fields = names.map((name) => `${name}: name`).join(" ");
    const query = `{ ${names.map((name) => `${name}: page { ${fields} __typename }`).join(" ")} a: __typename __schema { queryType { name } } }`;
    await expectAsWithout(Array(4).fill([query, {}]));
  });

  it("fragments and directives are told apart", async () => {
    const spread = "query ($x: Boolean!) { page { ...F @include(if: $x) __typename } } fragment F on Plain";
    const skipped = "query ($x: Boolean!) { t: __typename @skip(if: $x)";
    const queries = [
      "query ($x: Boolean!) { page { name @include(if: $x) __typename } }",
      "query ($x: Boolean!) { page { name @skip(if: $x) __typename } }",
      `${spread} { name }`,
      `${spread} { n: name }`,
      `${spread} { ...G } fragment G on Plain { g: name }`,
      `${spread} { ...G } fragment G on Plain { h: name }`,
      "query ($x: Boolean!) { ...Q @skip(if: $x) t: __typename } fragment Q on Query { page { name } }",
      "query ($x: Boolean!) { ...Q @skip(if: $x) t: __typename } fragment Q on Query { page { name } page { x: name } }",
      `${skipped} echo(s: "a") }`,
      `${skipped} echo(s: """a""") }`,
      `${skipped} echo(s: """a\\n """) }`,
      `${skipped} echo(json: 1) }`,
      `${skipped} echo(json: 1.0) }`,
      `${skipped} echo(json: "1") }`,
      `${skipped} echo(json: ENUM) }`,
      `${skipped} echo(json: "ENUM") }`,
      "query ($x: Boolean = true) { t: __typename @skip(if: $x) page { name } }",
      "query ($x: Boolean = false) { t: __typename @skip(if: $x) page { name } }",
    ];
    const round = queries.flatMap((query) =>
      [{ x: true }, { x: false }, {}, { x: null }].map((variables) => [query, variables] as const),
    );
    await expectAsWithout([...round, ...round, ...round]);
  });
});

type Site = ReturnType<typeof openSite>;
type Named = { readonly query: string; readonly operationName: string | null | undefined };

/** What answers an operation by its name without the cache, and with it. */
const SENDERS: Readonly<Record<ServerName, (site: Site) => readonly ((named: Named) => Promise<string>)[]>> = {
  "cache.execute": ({ cache, schema }) =>
    [execute, cache.execute.bind(cache)].map((run) => async ({ query, operationName }) => {
      const args = { schema, document: parse(query), operationName, contextValue: {} };
      return JSON.stringify(await run(args));
    }),
  "Apollo Server": (site) =>
    [{ own: [] }, {}].map((plugins) => {
      const server = apolloOf(site, { ...plugins, includeStacktraceInErrorResponses: false });
      return async ({ query, operationName }) => {
        const { http: _, ...answer } = await askApollo(server, query, {}, { operationName });
        return JSON.stringify(answer);
      };
    }),
  "GraphQL Yoga": (site) =>
    [{ own: [] }, {}].map((plugins) => {
      const yoga = yogaOf(site, plugins);
      return (named) => postYoga(yoga, named);
    }),
};

it.each(SERVERS)("the name of an operation chooses on %s what it chooses without the cache", async (server) => {
  const [plainly, cached] = SENDERS[server](openSite({ typeDefs, resolvers }));
  const queries = [
    "{ page { name } }",
    "query A { page { name } }",
    "query A { page { name } } query B { b: page { name } }",
  ];
  for (let nth = 0; nth < 3; nth++)
    for (const query of queries)
      for (const operationName of [undefined, null, "", "A", "B", "unknown", "__proto__"])
        expect([nth, query, operationName, await cached?.({ query, operationName })]).toEqual([
          nth,
          query,
          operationName,
          await plainly?.({ query, operationName }),
        ]);
});
