import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, cachedTypeDefs, cachedTypeDefsAs, createCache, type DirectiveNames } from "graphql-cached";
import { expect, it } from "vitest";
import { renamed, resolveNames } from "../../../src/directive/directive-names.js";

const NAMES: DirectiveNames = { directive: "cacheField", invalidates: "evicts" };
const typeDefs = `
  directive @cached(seconds: Int) on FIELD_DEFINITION
  directive @invalidates on FIELD_DEFINITION
  type Query { top: Int @cacheField(maxAge: 60, tags: ["Top"]) other: Int @cached(seconds: 9) }
  type Mutation { rate: Int @evicts(tags: ["Top"]) touch: Int @invalidates }
`;

it("both directives can have other names, beside directives that have theirs", async () => {
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
  const ask = (source: string) => graphql({ schema, source });
  for (let nth = 0; nth < 2; nth++) await ask("{ top other }");
  expect(loads).toEqual({ top: 1, other: 2 });
  await ask("mutation { touch }");
  await ask("{ top }");
  expect(loads.top).toBe(1);
  await ask("mutation { rate }");
  await ask("{ top }");
  expect(loads.top).toBe(2);
  await cache.close();
});

it("what is said of a mistake uses the name that the schema knows", () => {
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefsAs(NAMES), "type Query { a: Int } type Mutation { b: Int @cacheField(maxAge: 1) }"],
  });
  expect(() => applyCached(schema, createCache(), NAMES)).toThrow(
    "`Mutation.b`: fields of the mutation and subscription types are never cached; remove `@cacheField`",
  );
});

it("names that are not said are the usual ones, and wrong ones are refused all at once", () => {
  expect(cachedTypeDefsAs({})).toBe(cachedTypeDefs);
  expect(renamed(cachedTypeDefs, resolveNames(undefined, "applyCached"))).toBe(cachedTypeDefs);
  expect(() => cachedTypeDefsAs({ directive: "@cached", invalidate: "x" } as never)).toThrow(
    'cachedTypeDefsAs: `directive` must be a GraphQL name without the @, "@cached" came; `invalidate` is not an option; there are directive, ' +
      "invalidates, the names of @cached and @invalidates",
  );
  expect(() => cachedTypeDefsAs({ directive: "x", invalidates: "x" })).toThrow(
    "cachedTypeDefsAs: `directive` and `invalidates` must be two names",
  );
});
