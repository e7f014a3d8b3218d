import { FakeClock } from "@graphql-cached/testing";
import { MapperKind, mapSchema } from "@graphql-tools/utils";
import { type GraphQLSchema, lexicographicSortSchema, parse } from "graphql";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { applyMiddleware, rule, shield } from "../support/graphql-shield.js";
import {
  apolloOf,
  askApollo,
  type Context,
  openSite,
  postYoga,
  SERVERS,
  type ServerName,
  type Site,
  type SiteOptions,
  yogaOf,
} from "./site.js";

const typeDefs = `
  type Query {
    salaries: [String!] @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
    plain: String @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
    open: String @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60, scope: PUBLIC)
    person: Person @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
  }
  type Person { salary: Int @cacheControl(maxAge: 60) }
`;
const resolvers = {
  Query: { salaries: () => ["100"], plain: () => "plain", open: () => "open", person: () => ({ salary: 100 }) },
};
const isBoss = rule({ cache: "no_cache" })((_: unknown, __: unknown, { user }: Context) => user === "boss");

type Ask = (query: string, user: string) => Promise<unknown>;
const ASKS: Readonly<Record<ServerName, (site: Site) => Ask>> = {
  "Apollo Server": (site) => {
    const server = apolloOf(site);
    return async (query, user) => (await askApollo(server, query, { user })).data;
  },
  "GraphQL Yoga": (site) => {
    const context = ({ request }: { request: Request }) => ({ user: request.headers.get("x-user") ?? "" });
    const yoga = yogaOf(site, { context });
    return async (query, user) =>
      (JSON.parse(await postYoga(yoga, { query }, { "x-user": user })) as { data?: unknown }).data;
  },
  "cache.execute":
    ({ cache, schema }) =>
    async (query, user) =>
      (await cache.execute({ schema, document: parse(query), contextValue: { user } })).data,
};

describe.each(SERVERS)("a response whose resolvers are wrapped after applyCached, on %s", (server) => {
  const start = (wrap: (schema: GraphQLSchema) => GraphQLSchema, shared: Pick<SiteOptions, "store" | "clock"> = {}) => {
    const stored: unknown[] = [];
    const { cache, schema, lines } = openSite({
      typeDefs,
      resolvers,
      ...shared,
      cache: {
        onEvent: (event) => {
          if (event.name === "entry.served" && event.coordinate === "responses") stored.push(event.outcome);
        },
      },
    });
    const answer = ASKS[server]({ cache, schema: wrap(schema) });
    const ask: Ask = async (query, user) => {
      const data = await answer(query, user);
      await cache.settled();
      return data;
    };
    return { ask, stored, lines: () => lines.filter((line) => line.includes("wrapped")) };
  };
  const guarded = (schema: GraphQLSchema): GraphQLSchema =>
    applyMiddleware(schema, shield({ Query: { salaries: isBoss, open: isBoss } }));

  it("is not shared with callers whom graphql-shield refuses", async () => {
    const { ask, stored, lines } = start(guarded);
    for (const _ of [1, 2]) {
      expect(await ask("{ salaries }", "boss")).toEqual({ salaries: ["100"] });
      expect(await ask("{ salaries }", "alice")).toEqual({ salaries: null });
    }
    expect(stored).toContain("hit");
    expect(lines()).toEqual([expect.stringContaining("`Query.salaries`")]);
  });

  it("is shared if its own resolvers are as applyCached has left them", async () => {
    const { ask, stored, lines } = start((schema) =>
      applyMiddleware(schema, { Query: { salaries: async (resolve) => resolve() } }),
    );
    for (const _ of [1, 2]) await ask("{ plain }", "boss");
    stored.length = 0;
    expect(await ask("{ plain }", "alice")).toEqual({ plain: "plain" });
    expect(stored).toEqual(["hit"]);
    expect(lines()).toEqual([]);
  });

  it("is not shared if the field that is refused has no resolver of its own", async () => {
    const { ask } = start((schema) => applyMiddleware(schema, shield({ Person: { salary: isBoss } })));
    for (const _ of [1, 2]) {
      expect(await ask("{ person { salary } }", "boss")).toEqual({ person: { salary: 100 } });
      expect(await ask("{ person { salary } }", "alice")).toEqual({ person: { salary: null } });
    }
  });

  it.each<[string, (schema: GraphQLSchema) => GraphQLSchema, string[]]>([
    ["with the same resolvers", (schema) => lexicographicSortSchema(mapSchema(schema, {})), []],
    [
      "whose resolvers its server has replaced for an operation before",
      (schema) => mapSchema(schema, {}),
      ["{ open }"],
    ],
  ])("is shared by a copy of the schema %s", async (_, copy, before) => {
    const { ask, stored, lines } = start(copy);
    for (const query of before) await ask(query, "boss");
    for (const _ of [1, 2]) await ask("{ plain person { salary } }", "boss");
    stored.length = 0;
    expect(await ask("{ plain person { salary } }", "alice")).toEqual({ plain: "plain", person: { salary: 100 } });
    expect(stored).toEqual(["hit"]);
    expect(lines()).toEqual([]);
  });

  it("is not taken from a release that did not wrap them, nor shared with it", async () => {
    const clock = new FakeClock();
    const shared = { store: memoryStore({ clock }), clock };
    const [before, after] = [start((schema) => schema, shared), start(guarded, shared)];
    for (const _ of [1, 2]) await before.ask("{ salaries }", "boss");
    expect(before.stored).toContain("hit");
    for (const _ of [1, 2]) expect(await after.ask("{ salaries }", "alice")).toEqual({ salaries: null });
    expect(await after.ask("{ salaries }", "boss")).toEqual({ salaries: ["100"] });
    expect(await before.ask("{ salaries }", "alice")).toEqual({ salaries: ["100"] });
  });

  it("is shared if its fields have @cacheControl(scope: PUBLIC)", async () => {
    const { ask, stored } = start(guarded);
    for (const _ of [1, 2]) await ask("{ open }", "boss");
    stored.length = 0;
    await ask("{ open }", "alice");
    expect(stored).toEqual(["hit"]);
  });
});

/** A transformer that runs around the resolvers of a schema, such as one of translations or masks. */
const perUser = (schema: GraphQLSchema): GraphQLSchema =>
  mapSchema(schema, {
    [MapperKind.OBJECT_FIELD]: (config: object, name: string) =>
      name === "title" ? { ...config, resolve: titleFor } : undefined,
  } as never);
const titleFor = ({ title }: { title?: unknown }, _: unknown, { user }: Context): string => `${title} for ${user}`;

describe("what is returned per caller is not shared", () => {
  const open = () =>
    openSite({
      typeDefs: "type Query { movie: Movie @cached(maxAge: 60, scope: PUBLIC) } type Movie { id: ID! title: String }",
      resolvers: { Query: { movie: () => ({ id: 1, title: "Ran" }) } },
    });

  it("by cache.execute, if a transformer around the applied schema does it", async () => {
    const { cache, schema } = open();
    const wrapped = perUser(schema);
    const document = parse("{ movie { title } }");
    for (const user of ["ann", "bob"]) {
      const { data } = await cache.execute({ schema: wrapped, document, contextValue: { user } });
      await cache.settled();
      expect(JSON.stringify(data)).toBe(`{"movie":{"title":"Ran for ${user}"}}`);
    }
  });

  const settingResolver = {
    onExecute({ args }: { args: { fieldResolver?: unknown } }) {
      args.fieldResolver = (
        source: Record<string, unknown>,
        given: unknown,
        context: Context,
        { fieldName }: { fieldName: string },
      ) => (fieldName === "title" ? titleFor(source, given, context) : source[fieldName]);
    },
  };
  it.each([
    ["a transformer around the applied schema", perUser, []],
    ["a fieldResolver that a plugin sets", (schema: GraphQLSchema) => schema, [settingResolver]],
  ])("by useCached, if %s does it", async (_, wrap, before) => {
    const { cache, schema } = open();
    const context = ({ request }: { request: Request }) => ({ user: request.headers.get("user") });
    const yoga = yogaOf({ cache, schema: wrap(schema) }, { before, context, maskedErrors: false });
    for (const user of ["ann", "bob"])
      expect(await postYoga(yoga, { query: "{ movie { title } }" }, { user })).toBe(
        `{"data":{"movie":{"title":"Ran for ${user}"}}}`,
      );
  });
});
