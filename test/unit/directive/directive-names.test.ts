import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, cachedTypeDefs, cachedTypeDefsAs, createCache } from "graphql-cached";
import { expect, it } from "vitest";
import {
  type DirectiveNames,
  renameDirectives,
  resolveNames,
} from "../../../src/core/directive/compile/directive-names.js";

const NAMES: DirectiveNames = { directive: "cacheField", invalidates: "evicts" };
const typeDefs = `
  directive @cached(seconds: Int) on FIELD_DEFINITION
  directive @invalidates on FIELD_DEFINITION
  type Query { top: Int @cacheField(maxAge: 60, tags: ["Top"]) other: Int @cached(seconds: 9) }
  type Mutation { rate: Int @evicts(tags: ["Top"]) touch: Int @invalidates }
`;

it("both directives can be renamed in a schema that uses their default names for other directives", async () => {
  const loads = { top: 0, other: 0 };
  const resolvers = {
    Query: { top: () => ++loads.top, other: () => ++loads.other },
    Mutation: { rate: () => 1, touch: () => 1 },
  };
  const cache = createCache();
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefsAs(NAMES), typeDefs], resolvers }),
    cache,
    NAMES,
  );
  const execute = (source: string) => graphql({ schema, source });
  for (let nth = 0; nth < 2; nth++) await execute("{ top other }");
  expect(loads).toEqual({ top: 1, other: 2 });
  await execute("mutation { touch }");
  await execute("{ top }");
  expect(loads.top).toBe(1);
  await execute("mutation { rate }");
  await execute("{ top }");
  expect(loads.top).toBe(2);
  await cache.close();
});

it("error messages use the name that the directive has in the schema", () => {
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefsAs(NAMES), "type Query { a: Int } type Mutation { b: Int @cacheField(maxAge: 1) }"],
  });
  expect(() => applyCached(schema, createCache(), NAMES)).toThrow(
    "@cacheField on `Mutation.b`: mutation and subscription fields are never cached; remove `@cacheField`",
  );
});

it("omitted names have their defaults, and all invalid names are reported at once", () => {
  expect(cachedTypeDefsAs({})).toBe(cachedTypeDefs);
  expect(renameDirectives(cachedTypeDefs, resolveNames(undefined, "applyCached"))).toBe(cachedTypeDefs);
  expect(() => cachedTypeDefsAs({ directive: "@cached", invalidate: "x" } as never)).toThrow(
    'cachedTypeDefsAs: `directive`: expected a GraphQL name without the @, got "@cached"; ' +
      "`invalidate`: unknown option; expected `directive` or `invalidates`, the names of @cached and @invalidates",
  );
  expect(() => cachedTypeDefsAs({ directive: "x", invalidates: "x" })).toThrow(
    'cachedTypeDefsAs: `invalidates`: expected another name than `directive`, got "x" for both',
  );
});
