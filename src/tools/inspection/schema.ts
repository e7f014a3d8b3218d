import { buildSchema, type GraphQLObjectType, type GraphQLSchema } from "graphql";
import type { CacheHandle } from "../../core/parts.js";
import { INSPECTION_SDL } from "../../generated/schema.js";
import { inspectionResolvers } from "./resolvers.js";

/** Returns a schema with the inspection query, which everybody may use, and nothing else. */
export function inspectionSchema(cache: CacheHandle<never>): GraphQLSchema {
  // The enum is one of `@cached`.
  const schema = buildSchema(["type Query", INSPECTION_SDL, "enum CachedScope { PUBLIC PRIVATE }"].join("\n"));
  const resolvers = inspectionResolvers(cache as CacheHandle<unknown>, { allow: () => true });
  for (const typeName of ["Query", "CacheInspection"] as const)
    for (const [fieldName, resolve] of Object.entries(resolvers[typeName])) {
      const field = (schema.getType(typeName) as GraphQLObjectType).getFields()[fieldName];
      if (field !== undefined) field.resolve = resolve;
    }
  for (const name of ["CacheArguments", "CacheId"] as const) Object.assign(schema.getType(name) ?? {}, resolvers[name]);
  return schema;
}
