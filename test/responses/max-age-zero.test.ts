import { resultControl } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { subgraph } from "../support/subgraph.js";
import { apolloOf, askApollo, type Context, HINTS, knowOperations, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 600)
    unkept: Int @cached(maxAge: 60) @cacheControl(maxAge: 600)
    never: Int @cached(maxAge: 0) @cacheControl(maxAge: 600)
    own: String @cached(maxAge: 0, scope: PRIVATE) @cacheControl(maxAge: 600)
    feed: Feed @cacheControl(maxAge: 600)
    tuned: Tuned @cacheControl(maxAge: 600)
  }
  type Feed @cached(maxAge: 0) { version: Int @cacheControl(maxAge: 600) }
  type Tuned @cached(maxAge: 60) { version: Int @cacheControl(maxAge: 600) }
  type Page @cacheControl(maxAge: 600) { version: Int unkept: Int }
`;

function open(server: (typeof SERVERS)[number]) {
  const source = { version: 1 };
  const resolvers = {
    Query: {
      page: () => ({}),
      unkept: (...[, , , info]: [unknown, unknown, unknown, never]) => (resultControl(info).skip(), source.version),
      never: () => source.version,
      own: (_: unknown, __: unknown, { user }: Context) => user,
      feed: () => ({ ...source }),
      tuned: () => ({ ...source }),
    },
    Page: {
      version: (_: unknown, __: unknown, context: Context) => versions(context).load(1),
      unkept: (_: unknown, __: unknown, context: Context) => unkept(context).load(1),
    },
  };
  const applied = { policies: { Tuned: { maxAge: 0 } } };
  const site = openSite({ typeDefs, resolvers, server, applied });
  const versions = site.cache.loader<number, number>({
    name: "Version",
    maxAge: 0,
    batch: async (ids) => ids.map(() => source.version),
  });
  const unkept = site.cache.loader<number, number>({
    name: "Unkept",
    maxAge: 60,
    batch: async (ids, _, { results }) => {
      for (const result of results) result.skip();
      return ids.map(() => source.version);
    },
  });
  return { ...site, source };
}

describe.each(SERVERS)("on %s", (server) => {
  it.each([
    ["a loader with maxAge 0", "{ page { version } }"],
    ["a field with @cached(maxAge: 0)", "{ never }"],
    ["a field whose type has @cached(maxAge: 0)", "{ feed { version } }"],
    ["a field whose type a deployment has turned off", "{ tuned { version } }"],
    ["a field whose load has called skip()", "{ unkept }"],
    ["a loader whose load has called skip()", "{ page { unkept } }"],
  ])("a response is not stored with the value of %s", async (_, query) => {
    const { ask, source } = open(server);
    await ask(query);
    source.version = 2;
    expect(JSON.stringify((await ask(query)).data)).toContain("2");
  });

  it("a response with a field that is PRIVATE and has the maxAge 0 is not shared", async () => {
    const { ask } = open(server);
    const { cacheControl } = await ask("{ own }", { user: "ann" });
    // Only Apollo Server makes a header of hints.
    if (server === "Apollo Server") expect(cacheControl).toBe("max-age=600, private");
    expect((await ask("{ own }", { user: "bob" })).data).toEqual({ own: "bob" });
  });
});

it.each([
  ["a type that has @cached(maxAge: 0)", "type Product", "@cached(maxAge: 0)", {}],
  ["a type that a deployment has turned off", "type Product", "@cached(maxAge: 60)", { Product: { maxAge: 0 } }],
  [
    "an interface that has @cached(maxAge: 0)",
    'type Book implements Product @key(fields: "id") { id: ID! version: Int } interface Product',
    "@cached(maxAge: 0)",
    {},
  ],
])("on Apollo Server, a response is not stored with an entity of %s", async (_, definition, cached, policies) => {
  knowOperations();
  let version = 1;
  const typeDefs = `${HINTS} type Query { ping: String }
    ${definition} @key(fields: "id") ${cached} @cacheControl(maxAge: 600) { id: ID! version: Int }`;
  const __typename = definition === "type Product" ? "Product" : "Book";
  const resolvers = { Product: { __resolveReference: ({ id }: { id: string }) => ({ __typename, id, version }) } };
  const { schema, cache } = subgraph(typeDefs, resolvers, {}, { policies });
  const apollo = apolloOf({ schema, cache: cache as never }, { responses: { scope: "PUBLIC" } });
  const query = '{ _entities(representations: [{ __typename: "Product", id: 7 }]) { ... on Product { version } } }';
  const ask = async () => (await askApollo(apollo, query)).data;
  // The first response shows that it is cacheable, and the second one would be stored.
  for (let nth = 0; nth < 2; nth++) await ask();
  version = 2;
  expect(JSON.parse(JSON.stringify(await ask()))).toEqual({ _entities: [{ version: 2 }] });
});
