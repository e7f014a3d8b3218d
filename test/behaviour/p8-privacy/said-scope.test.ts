import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, type CachedError, type CacheOptions, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";

const identify = (): string => "ann";

/** Returns the scopes in force, by coordinate, or the mistakes. */
function scopesOf(typeDefs: string, options: CacheOptions = {}, apply = {}): Record<string, string> | string {
  const cache = createCache({ identify, logger: { info: () => undefined, warn: () => undefined }, ...options });
  try {
    const hints =
      "directive @cacheControl(maxAge: Int, scope: CacheControlScope) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION enum CacheControlScope { PUBLIC PRIVATE } directive @auth on FIELD_DEFINITION";
    applyCached(
      makeExecutableSchema({ typeDefs: [cachedTypeDefs, hints, typeDefs], resolvers: own(typeDefs) }),
      cache,
      apply,
    );
  } catch (error) {
    return (error as Error).message;
  }
  return Object.fromEntries([...partsOf(cache, "test").rules.fields].map(([at, { policy }]) => [at, policy.scope]));
}

/** A resolver for each field that is written with `# loads`. */
function own(typeDefs: string): Record<string, Record<string, () => unknown>> {
  const resolvers: Record<string, Record<string, () => unknown>> = {};
  for (const [, coordinate = ""] of typeDefs.matchAll(/# loads (\S+)/g)) {
    const [type = "", field = ""] = coordinate.split(".");
    resolvers[type] = { ...resolvers[type], [field]: () => null };
  }
  return resolvers;
}

const MISSING = "`scope`: expected PUBLIC or PRIVATE, got nothing";

describe("a policy that says no scope", () => {
  it.each([
    ["a field", "type Query { a: Int @cached(maxAge: 1) }", {}],
    ["a nested field", "type Query { a: A } type A { id: ID b: Int @cached(maxAge: 1) }", {}],
    ["the type that a field returns", "type Query { a: A # loads Query.a\n } type A @cached(maxAge: 1) { id: ID }", {}],
    ["an entry of `policies`", "type Query { a: Int }", { policies: { "Query.a": { maxAge: 1 } } }],
    [
      "a hint of @cacheControl",
      "type Query { a: Int @cacheControl(maxAge: 1) # loads Query.a\n }",
      { cacheControl: true },
    ],
  ])("is refused at start-up with the remedy: %s", (_where, typeDefs, apply) => {
    const message = scopesOf(typeDefs, {}, apply);
    expect(message).toContain(MISSING);
    expect(message).toContain("createCache({ defaultScope })");
    const scopes = Object.values(scopesOf(typeDefs, { defaultScope: "PUBLIC" }, apply));
    expect(scopes).toEqual(["PUBLIC"]);
    expect(Object.values(scopesOf(typeDefs, { defaultScope: "PRIVATE" }, apply))).toEqual(["PRIVATE"]);
  });

  it("is refused for a loader alike, and not asked of one that caches nothing", () => {
    const batch = async (ids: readonly number[]) => ids;
    const make = (options: CacheOptions, more: object) =>
      createCache(options).loader({ name: "A", maxAge: 1, batch, ...more });
    expect(() => make({}, {})).toThrow(`cache.loader("A"): ${MISSING}`);
    for (const [options, more] of [
      [{ defaultScope: "PUBLIC" }, {}],
      [{ defaultScope: "PRIVATE", identify }, {}],
      [{}, { scope: "PUBLIC" }],
      [{}, { maxAge: 0 }],
    ] as const)
      expect(() => make(options, more)).not.toThrow();
    expect(scopesOf("type Query { a: Int @cached(maxAge: 0) b: Int }")).toEqual({});
  });

  it("has the code CACHED_SCOPE_MISSING, and names each field beside other mistakes", () => {
    const { code, coordinate } = (() => {
      try {
        applyCached(
          makeExecutableSchema({ typeDefs: [cachedTypeDefs, "type Query { a: Int @cached(maxAge: 1) }"] }),
          createCache(),
        );
      } catch (error) {
        return error as CachedError;
      }
      throw new Error("it is accepted");
    })();
    expect({ code, coordinate }).toEqual({ code: "CACHED_SCOPE_MISSING", coordinate: "Query.a" });
    const both = scopesOf('type Query { a: Int @cached(maxAge: 1) b: Int @cached(maxAge: 1, key: ["x"]) }');
    expect(both).toContain(`@cached on \`Query.a\`: ${MISSING}`);
    expect(both).toContain(`@cached on \`Query.b\`: ${MISSING}`);
    expect(both).toContain("@cached on `Query.b`: `key`");
  });

  it("is told of the mark of permission that covers it, for which defaultScope does not speak", () => {
    const typeDefs = "type Query { a: Int @auth @cached(maxAge: 1) }";
    for (const options of [{}, { defaultScope: "PUBLIC" }] as const)
      expect(scopesOf(typeDefs, options)).toContain(
        "expected a declaration on the field itself, since `@auth` covers it",
      );
    expect(scopesOf(typeDefs, { defaultScope: "PRIVATE" })).toEqual({ "Query.a": "PRIVATE" });
  });
});

describe("a field below a PRIVATE parent", () => {
  const me = "type Query { me: User @cached(maxAge: 1, scope: PRIVATE) } type User { id: ID";
  it.each([
    ["a field", `${me} feed: Int @cached(maxAge: 1) }`, "User.feed"],
    ["an object in its value", `${me} cart: Cart } type Cart { id: ID total: Int @cached(maxAge: 1) }`, "Cart.total"],
    [
      "what a resolver makes of its value",
      `${me} carts: [Cart!]! # loads User.carts\n } type Cart { id: ID total: Int @cached(maxAge: 1) }`,
      "Cart.total",
    ],
    [
      "one that is only PRIVATE by its type",
      "type Query { me: User # loads Query.me\n } type User @cached(maxAge: 1, scope: PRIVATE) { id: ID feed: Int @cached(maxAge: 1) }",
      "User.feed",
    ],
    [
      "one that is only PRIVATE by a hint",
      "type Query { me: User @cacheControl(scope: PRIVATE) } type User { id: ID feed: Int @cached(maxAge: 1) }",
      "User.feed",
    ],
    [
      "a member of a union that it returns",
      `${me} seen: Seen @cached(maxAge: 1) } union Seen = Film type Film { id: ID why: Int @cached(maxAge: 1) }`,
      "Film.why",
    ],
  ])("is PRIVATE unless it says its scope: %s", (_where, typeDefs, coordinate) => {
    for (const options of [{}, { defaultScope: "PUBLIC" }] as const)
      expect(scopesOf(typeDefs, options)).toMatchObject({ [coordinate]: "PRIVATE" });
    const said = typeDefs.replace(/(?<=Int @cached\(maxAge: 1)\)/, ", scope: PUBLIC)");
    expect(scopesOf(said, { defaultScope: "PRIVATE" })).toMatchObject({ [coordinate]: "PUBLIC" });
  });

  it.each([
    ["a root field", "extend type Query { user: User }"],
    ["a mutation", "type Mutation { rename: User }"],
    ["a field that says PUBLIC below it", "extend type User { friend: User @cached(maxAge: 1, scope: PUBLIC) }"],
  ])("has the default scope if its parent can come from elsewhere: %s", (_where, more) => {
    const typeDefs = `${me} feed: Int @cached(maxAge: 1) } ${more}`;
    expect(scopesOf(typeDefs, { defaultScope: "PUBLIC" })).toMatchObject({ "User.feed": "PUBLIC" });
    expect(scopesOf(typeDefs)).toContain(`@cached on \`User.feed\`: ${MISSING}`);
  });
});

describe("a type that is PRIVATE by its hint", () => {
  const typesOf = (implemented: string): string => `
    type Post ${implemented} { id: ID title: String @cached(maxAge: 1) }
    type Message ${implemented} @cacheControl(scope: PRIVATE) { id: ID body: String @cached(maxAge: 1) } # loads Message.body
    type Page { item: Item @cacheControl(maxAge: 1) }`;
  const union = `${typesOf("")} union Item = Post | Message`;
  const face = `${typesOf("implements Item")} interface Item { id: ID }`;

  it.each([
    ["returned by the field", "a: Message @cacheControl(maxAge: 1)", union, "PRIVATE"],
    ["returned by a field with @cached", "a: [Message] @cached(maxAge: 1)", union, "PRIVATE"],
    ["a member of a union", "a: [Item] @cacheControl(maxAge: 1)", union, "PRIVATE"],
    ["a member of a union, returned by a field with @cached", "a: [Item] @cached(maxAge: 1)", union, "PRIVATE"],
    ["behind an interface", "a: [Item] @cacheControl(maxAge: 1)", face, "PRIVATE"],
    ["in the value of the field", "a: Page @cacheControl(maxAge: 1)", union, "PRIVATE"],
    ["returned by a field that says PUBLIC", "a: Item @cacheControl(maxAge: 1, scope: PUBLIC)", union, "PUBLIC"],
    ["not returned by the field", "a: Post @cacheControl(maxAge: 1)", union, "PUBLIC"],
  ])("makes a field PRIVATE that does not say PUBLIC itself: %s", (_where, field, types, scope) => {
    const typeDefs = `type Query { ${field} # loads Query.a\n } ${types}`;
    expect(scopesOf(typeDefs, { defaultScope: "PUBLIC" }, { cacheControl: true })).toMatchObject({ "Query.a": scope });
  });

  it("makes all queries PRIVATE if it is their type", () => {
    const typeDefs = "type Query @cacheControl(scope: PRIVATE) { a: Int @cacheControl(maxAge: 1) # loads Query.a\n }";
    const scopes = scopesOf(typeDefs, { defaultScope: "PUBLIC" }, { cacheControl: true });
    expect(scopes).toEqual({ "Query.a": "PRIVATE" });
  });

  it("has fields that are PRIVATE unless they say otherwise, whatever returns it", () => {
    const typeDefs = `type Query { message: Message search: [Item] post: Post } ${union}`;
    expect(scopesOf(typeDefs, { defaultScope: "PUBLIC" })).toEqual({
      "Message.body": "PRIVATE",
      "Post.title": "PUBLIC",
    });
  });
});
