import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { type Cache, cachedTypeDefs, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { expect } from "vitest";

/** Asks the inspection of a cache, as a caller who may. Fails the test if there are errors. */
export async function inspect(cache: Cache<never>, selection: string): Promise<Record<string, unknown>> {
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, inspectionTypeDefs, "type Query { unused: Int }"],
    resolvers: inspectionResolvers(cache, { allow: () => true }),
  });
  const { data, errors } = await graphql({ schema, source: `{ cacheInspection { ${selection} } }`, contextValue: {} });
  expect(errors).toBeUndefined();
  return JSON.parse(JSON.stringify(data?.cacheInspection)) as Record<string, unknown>;
}
