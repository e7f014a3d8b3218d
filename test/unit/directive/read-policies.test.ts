import { buildSchema, defaultFieldResolver } from "graphql";
import { applyCached, type CacheOptions, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { Policy } from "../../../src/core/policy/policy.js";
import { dataOf, memoryWorld } from "../../support/world.js";

/** The policies of the cached fields of a schema. Every field is given a resolver. */
function policiesOf(typeDefs: string, options: CacheOptions = {}): Record<string, Policy> {
  const schema = buildSchema(`${cachedTypeDefs}\n${typeDefs}`);
  for (const type of Object.values(schema.getTypeMap()))
    if ("getFields" in type && !type.name.startsWith("__"))
      for (const field of Object.values(type.getFields())) Object.assign(field, { resolve: () => null });
  const cache = createCache({ defaultScope: "PUBLIC", identify: () => "me", ...options });
  applyCached(schema, cache);
  return Object.fromEntries([...partsOf(cache, "test").rules.fields].map(([name, { policy }]) => [name, policy]));
}

const EVERYTHING =
  '@cached(maxAge: 9, staleWhileRevalidate: 8, refresh: FOREGROUND, neverExpires: true, staleIfError: 7, negativeMaxAge: 6, jitter: 0.5, earlyRefresh: 2, scope: PRIVATE, readOnly: true, key: ["$args"], tags: ["T"])';
const EVERY_POLICY: Policy = {
  maxAgeMs: 9_000,
  staleWhileRevalidateMs: 8_000,
  refresh: "FOREGROUND",
  neverExpires: true,
  staleIfErrorMs: 7_000,
  negativeMaxAgeMs: 6_000,
  jitterRatio: 0.5,
  earlyRefreshBeta: 2,
  scope: "PRIVATE",
  readOnly: true,
};

describe("@cached", () => {
  it("means the same on a field, an object type, an interface and a union, through lists and non-null types", () => {
    const typesWith = (on: Record<string, string>): string => `
      interface Node ${on.Node ?? ""} { id: ID }
      type Movie implements Node ${on.Movie ?? ""} { id: ID }
      union Found ${on.Found ?? ""} = Movie`;
    expect(policiesOf(`${typesWith({})} type Query { a: [Movie!]! ${EVERYTHING} }`)).toEqual({
      "Query.a": EVERY_POLICY,
    });
    for (const type of ["Movie", "Node", "Found"])
      for (const reference of [type, `${type}!`, `[${type}]`, `[[${type}!]!]!`])
        expect(policiesOf(`${typesWith({ [type]: EVERYTHING })} type Query { a: ${reference} b: Int }`)).toEqual({
          "Query.a": EVERY_POLICY,
        });
  });

  it("on an interface or a union does not apply to fields that return one of its types", () => {
    const types =
      "interface Node @cached(maxAge: 9) { id: ID } type Movie implements Node { id: ID } union Found @cached(maxAge: 9) = Movie";
    expect(policiesOf(`${types} type Query { a: Movie b: Node c: Found }`)).toEqual({
      "Query.b": expect.anything(),
      "Query.c": expect.anything(),
    });
  });

  it("on a type that no field with a resolver returns is reported, since it has no effect", () => {
    const warn = vi.fn<(message: string) => void>();
    const sdl = `interface Node @cached(maxAge: 9) { id: ID }
      type Movie implements Node @cached(maxAge: 9) { id: ID }
      union Found @cached(maxAge: 9) = Movie
      type Query { a: Int @cached(maxAge: 9) }`;
    const cache = createCache({ defaultScope: "PUBLIC", logger: { info: () => undefined, warn } });
    applyCached(buildSchema(cachedTypeDefs + sdl), cache);
    const messageOn = (name: string): string =>
      `graphql-cached: @cached on \`${name}\`: no field with a resolver of its own returns the type, so it has no effect; put \`@cached\` on the fields that load values, or remove it`;
    expect(warn.mock.calls.flat().sort()).toEqual(["Found", "Movie", "Node"].map(messageOn));
  });
});

describe("the policy of a type", () => {
  it("does not apply to a field with the default resolver, set explicitly or not, which reads its parent", () => {
    const schema = buildSchema(
      `${cachedTypeDefs} type Movie @cached(maxAge: 9) { id: ID } type Query { a: Movie b: Movie c: Movie }`,
    );
    const { b, c } = schema.getQueryType()?.getFields() ?? {};
    Object.assign(b ?? {}, { resolve: defaultFieldResolver });
    Object.assign(c ?? {}, { resolve: () => null });
    const cache = createCache({ defaultScope: "PUBLIC" });
    applyCached(schema, cache);
    expect([...partsOf(cache, "test").rules.fields.keys()]).toEqual(["Query.c"]);
  });
});

describe("an unrelated directive", () => {
  it("is ignored even if its arguments are invalid", () => {
    const typeDefs =
      'directive @cost(n: Int) on FIELD_DEFINITION type Query { a: Int @cost(n: "x") b: Int @cached(maxAge: 1) }';
    expect(Object.keys(policiesOf(typeDefs))).toEqual(["Query.b"]);
  });
});

describe("the policy of a field", () => {
  const defaults = { maxAge: 50, jitter: 0.5, earlyRefresh: 5, staleWhileRevalidate: 50 };

  it("takes each setting from the field, then the type, then the defaults", () => {
    const { "Query.a": policy } = policiesOf(
      "type Movie @cached(maxAge: 30, jitter: 0.3) { id: ID } type Query { a: Movie @cached(maxAge: 20) }",
      { defaults },
    );
    expect(policy).toMatchObject({
      maxAgeMs: 20_000,
      jitterRatio: 0.3,
      earlyRefreshBeta: 5,
      staleWhileRevalidateMs: 50_000,
    });
  });

  it("can be set in extensions.cached of types and fields, where the directive takes precedence", () => {
    const schema = buildSchema(
      `${cachedTypeDefs} type Movie { id: ID } type Query { a: Movie b: Int @cached(maxAge: 3) }`,
    );
    const fields = schema.getQueryType()?.getFields();
    Object.assign(fields?.a ?? {}, { resolve: () => null });
    Object.assign(fields?.b ?? {}, { extensions: { cached: { maxAge: 9, jitter: 0 } } });
    Object.assign(schema.getType("Movie") ?? {}, { extensions: { cached: { maxAge: 7 } } });
    const cache = createCache({ defaultScope: "PUBLIC" });
    applyCached(schema, cache);
    const { fields: rules } = partsOf(cache, "test").rules;
    expect(rules.get("Query.a")?.policy.maxAgeMs).toBe(7_000);
    expect(rules.get("Query.b")?.policy).toMatchObject({ maxAgeMs: 3_000, jitterRatio: 0 });
  });
});

describe("a key with a part of the context", () => {
  it("separates contexts by that part, and bypasses the cache if the part is missing", async () => {
    let loads = 0;
    const { ask, outcomes } = memoryWorld().process(
      'type Query { hello: Int @cached(maxAge: 9, key: ["$context.site.locale"]) }',
      { Query: { hello: () => ++loads } },
    );
    const results: unknown[] = [];
    for (const locale of ["en", "de", "en", undefined])
      results.push(await dataOf(ask("{ hello }", { site: { locale } })));
    expect(results).toEqual([{ hello: 1 }, { hello: 2 }, { hello: 1 }, { hello: 3 }]);
    expect(outcomes()).toEqual({ loaded: 2, hit: 1, "bypassed(KEY_UNUSABLE)": 1 });
  });
});
