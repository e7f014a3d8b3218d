import { MapperKind, mapSchema } from "@graphql-tools/utils";
import { buildSchema, defaultFieldResolver, type GraphQLSchema, graphql } from "graphql";
import { applyCached, type CacheOptions, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { applyMiddleware, rule, shield } from "../../support/graphql-shield.js";
import { listen, mistakeIn, schemaOf } from "../../support/listen.js";

interface Context {
  readonly isMember: boolean;
}

const typeDefs = /* GraphQL */ `
  directive @auth on FIELD_DEFINITION | OBJECT | INTERFACE | SCALAR
  directive @federation__policy on FIELD_DEFINITION
  directive @members on FIELD_DEFINITION
`;

function createSite() {
  let loads = 0;
  const resolvers = { Query: { news: () => `news ${++loads}` } };
  return { ...listen(), schema: schemaOf("type Query { news: String @cached(maxAge: 60) }", resolvers) };
}

const isMember = rule({ cache: "no_cache" })((_parent, _args, context: Context) => context.isMember);
const permissions = shield({ Query: { news: isMember } }, { fallbackError: new Error("members only") });

/** The same permission check as a hand-written schema transform. */
const withMembersCheck = (schema: GraphQLSchema): GraphQLSchema =>
  mapSchema(schema, {
    [MapperKind.OBJECT_FIELD]: (field) => {
      const resolve = field.resolve ?? defaultFieldResolver;
      return {
        ...field,
        resolve: (source: unknown, args: unknown, context: Context, info: never) => {
          if (!context.isMember) throw new Error("members only");
          return resolve(source, args as never, context, info);
        },
      } as typeof field;
    },
  });

async function ask(schema: GraphQLSchema, member: boolean): Promise<unknown> {
  const { data, errors } = await graphql({ schema, source: "{ news }", contextValue: { isMember: member } });
  return errors?.[0]?.message ?? data?.news;
}

describe("permissions applied after the cache", () => {
  for (const [how, protect] of [
    ["graphql-shield", (schema: GraphQLSchema) => applyMiddleware(schema, permissions)],
    ["a transform", withMembersCheck],
  ] as const)
    it(`checks permissions applied by ${how} on every request, hits included`, async () => {
      const { cache, schema, events } = createSite();
      const safe = protect(applyCached(schema, cache));
      expect([await ask(safe, true), await ask(safe, true), await ask(safe, false)]).toEqual([
        "news 1",
        "news 1",
        "members only",
      ]);
      expect(events.filter(({ name }) => name === "context.read")).toEqual([]);
    });
});

describe("permissions applied before the cache", () => {
  it("reports a permission check in a wrapped resolver on the first load, because hits would skip it", async () => {
    const { cache, schema, events, warnings } = createSite();
    const unsafe = applyCached(withMembersCheck(schema), cache);
    expect([await ask(unsafe, true), await ask(unsafe, false)]).toEqual(["news 1", "news 1"]);
    expect(events).toContainEqual({ name: "context.read", coordinate: "Query.news", digest: "", property: "isMember" });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("apply permissions to the schema that applyCached returns, set scope: PRIVATE");
  });
});

/** Returns the mistake in a schema of a cache whose default scope is PUBLIC, or "accepted". */
const mistakeOf = (sdl: string, options: CacheOptions = {}): string =>
  mistakeIn(typeDefs + sdl, {}, { identify: () => 1, ...options });

describe("public fields under an auth directive", () => {
  const places: Record<string, string> = {
    "on the field": "type Query { a: Int @auth @cached(maxAge: 1) }",
    "on its type": "type Query @auth { a: Int @cached(maxAge: 1) }",
    "on an extension of its type": "type Query { a: Int @cached(maxAge: 1) } extend type Query @auth",
    "on the type it returns": "type Query { a: [Bill!] @cached(maxAge: 1) } type Bill @auth { id: ID }",
    "on a member of the union it returns":
      "type Query { a: Paper @cached(maxAge: 1) } union Paper = Bill type Bill @auth { id: ID }",
    "on an implementation of the interface it returns":
      "type Query { a: Paper @cached(maxAge: 1) } interface Paper { id: ID } type Bill implements Paper @auth { id: ID }",
    "on an interface of the type it returns":
      "type Query { a: Bill @cached(maxAge: 1) } interface Paper @auth { id: ID } type Bill implements Paper { id: ID }",
    "on the interface that has the field":
      "interface Has { a: Int @auth } type Query implements Has { a: Int @cached(maxAge: 1) }",
    "on the scalar it returns": "scalar Secret @auth type Query { a: Secret @cached(maxAge: 1) }",
    "in federation's namespace": "type Query { a: Int @federation__policy @cached(maxAge: 1) }",
    "when only the policy of its type is PUBLIC":
      "type Query { a: Bill @auth @cached(maxAge: 1) } type Bill @cached(scope: PUBLIC) { id: ID }",
  };
  for (const [where, sdl] of Object.entries(places))
    it(`rejects a public field at start-up with the directive ${where}`, () => {
      expect(mistakeOf(sdl)).toMatch(
        /^@cached on `Query\.a`: `scope`: expected a declaration on the field itself, since `@(auth|federation__policy)` covers it/,
      );
    });

  it("rejects a public field under an auth directive in a code-first schema too", () => {
    const schema = buildSchema("type Query { a: Int }");
    for (const directives of [{ auth: {} }, [{ name: "auth", args: {} }]]) {
      Object.assign(schema.getQueryType()?.getFields().a ?? {}, { extensions: { cached: { maxAge: 1 }, directives } });
      expect(() => applyCached(schema, createCache({ defaultScope: "PUBLIC" }))).toThrow("since `@auth` covers it");
    }
  });

  it("accepts a field under an auth directive that sets a scope itself", () => {
    expect(mistakeOf("type Query { a: Int @auth @cached(maxAge: 1, scope: PUBLIC) }")).toBe("accepted");
    expect(mistakeOf("type Query { a: Int @auth @cached(maxAge: 1, scope: PRIVATE) }")).toBe("accepted");
    expect(mistakeOf("type Query { a: Int @auth @cached(maxAge: 1) }", { defaultScope: "PRIVATE" })).toBe("accepted");
  });

  it.each(
    "hasRole hasPermission isAuthenticated requireAuth authorized aws_auth policy policies authority requiresScopes roles HASROLE my__hasRole oauth".split(
      " ",
    ),
  )("takes a directive for an auth directive by its name: @%s", (name) => {
    const sdl = `directive @${name} on FIELD_DEFINITION type Query { a: Int @${name} @cached(maxAge: 1) }`;
    expect(mistakeOf(sdl)).toContain(`since \`@${name}\` covers it`);
  });

  it.each(
    "computed plugin rateLimit complexity tag requires provides external key author coauthored members".split(" "),
  )("does not take another directive for an auth directive: @%s", (name) => {
    const sdl = `${name === "members" ? "" : `directive @${name} on FIELD_DEFINITION`} type Query { a: Int @${name} @cached(maxAge: 1) }`;
    expect(mistakeOf(sdl)).toBe("accepted");
  });

  it.each([
    ["a setting of the field", { auth: { role: "ADMIN" } }, "`auth`"],
    ["rules of graphql-authz", { authz: { rules: ["isAdmin"] } }, "`authz`"],
    ["a role for field middleware of Nest", { role: "ADMIN" }, "`role`"],
    [
      "an option of a plugin of Pothos",
      { pothosOptions: { permissions: ["admin"] }, pothosResolveWrapped: false },
      "`permissions`",
    ],
  ])("rejects a public field in a code-first schema with %s", (_, extensions, mark) => {
    const schema = buildSchema("type Query { a: Int b: Thing } type Thing { id: ID }");
    const fields = schema.getQueryType()?.getFields();
    Object.assign(fields?.a ?? {}, { extensions: { cached: { maxAge: 1 }, ...extensions } });
    expect(() => applyCached(schema, createCache({ defaultScope: "PUBLIC" }))).toThrow(`since ${mark} covers it`);
    Object.assign(fields?.a ?? {}, { extensions: {} });
    Object.assign(fields?.b ?? {}, { extensions: { cached: { maxAge: 1 } } });
    Object.assign(schema.getType("Thing") ?? {}, { extensions });
    expect(() => applyCached(schema, createCache({ defaultScope: "PUBLIC" }))).toThrow(`since ${mark} covers it`);
  });

  it("rejects a public field in a process of NestJS, whose guards no schema shows, unless the field says its scope", () => {
    const holder = globalThis as { GqlTypeMetadataStorage?: object };
    holder.GqlTypeMetadataStorage = {};
    try {
      expect(mistakeOf("type Query { a: Int @cached(maxAge: 1) }", { defaultScope: "PUBLIC" })).toMatch(
        /^@cached on `Query\.a`: `scope`: expected .* since guards of NestJS run inside of its resolver, got nothing; set/,
      );
      expect(mistakeOf("type Query { a: Int @cached(maxAge: 1, scope: PUBLIC) }")).toBe("accepted");
      expect(mistakeOf("type Query { a: Int @cached(maxAge: 1) }", { defaultScope: "PRIVATE" })).toBe("accepted");
    } finally {
      delete holder.GqlTypeMetadataStorage;
    }
  });

  it("ignores settings that are not set", () => {
    const schema = buildSchema("type Query { a: Int }");
    const extensions = { cached: { maxAge: 1 }, auth: false, role: undefined, pothosOptions: { authScopes: null } };
    Object.assign(schema.getQueryType()?.getFields().a ?? {}, { extensions });
    expect(() => applyCached(schema, createCache({ defaultScope: "PUBLIC" }))).not.toThrow();
  });
});

describe("private fields without a resolver", () => {
  it("rejects a private field without a resolver inside a public value, at any depth", () => {
    expect(
      mistakeOf(
        "type Query { page: Page @cached(maxAge: 1) } type Page { parts: [Part!] } union Part = Box type Box { id: ID mine: Int @cached(maxAge: 1, scope: PRIVATE) }",
      ),
    ).toBe(
      "@cached on `Box.mine`: `scope`: the field is PRIVATE but has no resolver, so its value is stored inside the PUBLIC value of `Query.page`; give it a resolver, or make `Query.page` PRIVATE",
    );
  });

  it("rejects a field without a resolver inside a public value if its type is private, unless it is an entity", () => {
    const inside =
      "type Query { page: Page @cached(maxAge: 1) mine: Mine } type Page { parts: [Part!] } union Part = Mine";
    expect(mistakeOf(`${inside} type Mine @cached(maxAge: 1, scope: PRIVATE) { id: ID }`)).toBe(
      "@cached on `Page.parts`: `scope`: the field is PRIVATE but has no resolver, so its value is stored inside the PUBLIC value of `Query.page`; give it a resolver, or make `Query.page` PRIVATE",
    );
  });

  it("accepts a private field without a resolver below a private or an uncached field", () => {
    const mine = "type Page { id: ID mine: Int @cached(maxAge: 1, scope: PRIVATE) }";
    expect(mistakeOf(`type Query { page: Page @cached(maxAge: 1, scope: PRIVATE) } ${mine}`)).toBe("accepted");
    expect(mistakeOf(`type Query { page: Page } ${mine}`)).toBe("accepted");
  });
});
