import { makeExecutableSchema } from "@graphql-tools/schema";
import { stitchSchemas } from "@graphql-tools/stitch";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";

const rest = "type Page { id: ID! title: String }";

function errorOf(typeDefs: string, options: object = {}, cacheOptions: object = {}): string {
  const cache = createCache({ logger: { warn: () => undefined, info: () => undefined }, ...cacheOptions });
  onTestFinished(() => cache.close());
  try {
    applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] }), cache, options as never);
  } catch (error) {
    return (error as Error).message;
  }
  return "none";
}

const ELSEWHERE =
  "`subtree`: expected a field of the query type, got another one; remove it: this field is part of the subtrees of the query fields that lead to it";

describe("`subtree: true` is refused when a schema is applied", () => {
  it.each<[string, string, string, object?, object?]>([
    [
      "on a field of another type",
      `type Query { page: Page } type Page { id: ID! next: Page @cached(maxAge: 60, subtree: true) }`,
      `@cached on \`Page.next\`: ${ELSEWHERE}`,
    ],
    [
      "on a field of an interface",
      `type Query { page: Page } interface Node { next: Page @cached(maxAge: 60, subtree: true) } type Page implements Node { id: ID! next: Page }`,
      "@cached on `Node.next`",
    ],
    [
      "on a mutation",
      `type Query { page: Page } type Mutation { make: Page @cached(maxAge: 60, subtree: true) } ${rest}`,
      "@cached on `Mutation.make`",
    ],
    [
      "on a subscription",
      `type Query { page: Page } type Subscription { made: Page @cached(maxAge: 60, subtree: true) } ${rest}`,
      "@cached on `Subscription.made`",
    ],
    [
      "on a leaf",
      "type Query { now: Int @cached(maxAge: 60, subtree: true) }",
      "@cached on `Query.now`: `subtree`: expected a field that returns objects, got one that returns a leaf, whose entry is complete without it; remove it",
    ],
    [
      "on a list of leaves",
      "type Query { now: [Int!]! @cached(maxAge: 60, subtree: true) }",
      "expected a field that returns objects, got one that returns a leaf",
    ],
    ["without maxAge", `type Query { page: Page @cached(subtree: true) } ${rest}`, "`maxAge`"],
    [
      "on a type without an id",
      `type Query { page: Page } type Page @cached(maxAge: 60, subtree: true) { code: ID! }`,
      "`subtree`: expected a type with an `id` without arguments, which each entry has in its key; add one",
    ],
    [
      "with the selection in its key",
      `type Query { page: Page @cached(maxAge: 60, subtree: true, key: ["$selection"]) } ${rest}`,
      "@cached on `Query.page`: `subtree`: the selection is part of the key of a subtree in any case; remove `$selection` from `key`",
    ],
    [
      "with `exists`",
      `type Query { page: Page @cached(maxAge: 60, subtree: true) } ${rest}`,
      '`exists["Query.page"]`: expected a field without `subtree: true`, whose entries are not what its resolver returns; remove one of the two',
      { exists: { "Query.page": () => true } },
    ],
    [
      "with `compare`",
      `type Query { page: Page @cached(maxAge: 60, subtree: true) } ${rest}`,
      '`compare["Query.page"]`: expected a field without `subtree: true`',
      { compare: { "Query.page": () => true } },
    ],
  ])("%s", (_, typeDefs, message, options) => {
    expect(errorOf(typeDefs, options)).toContain(message);
  });

  it("in a stitched schema", () => {
    const cache = createCache({ logger: { warn: () => undefined, info: () => undefined } });
    onTestFinished(() => cache.close());
    const subschema = makeExecutableSchema({
      typeDefs: [cachedTypeDefs, `type Query { page: Page @cached(maxAge: 60, subtree: true) } ${rest}`],
    });
    expect(() => applyCached(stitchSchemas({ subschemas: [subschema] }), cache)).toThrow(/got a stitched one|stitch/);
  });

  it("in `defaults`, and of a loader; profiles may have it", () => {
    const policy = { maxAge: 60, subtree: true };
    expect(() => createCache({ defaults: policy as never })).toThrow("subtree");
    const cache = createCache({ logger: { warn: () => undefined, info: () => undefined } });
    onTestFinished(() => cache.close());
    const batch = async (ids: readonly unknown[]) => ids;
    expect(() => cache.loader({ name: "Note", batch, ...policy } as never)).toThrow("subtree");
    const typeDefs = `type Query { page: Page @cached(profile: "page") } ${rest}`;
    expect(errorOf(typeDefs, {}, { profiles: { page: policy } })).toBe("none");
  });

  it.each([0, -1, 1.5, 20_000, "64"])("with maxSelections that are no count: %s", (maxSelections) => {
    expect(() => createCache({ subtrees: { maxSelections } as never })).toThrow("`subtrees.maxSelections`");
  });
});
