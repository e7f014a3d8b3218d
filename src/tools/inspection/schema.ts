import { buildSchema, type GraphQLSchema, isObjectType, isScalarType } from "graphql";
import type { CacheHandle } from "../../core/parts.js";
import { INSPECTION_SDL, INVALIDATION_SDL } from "../../generated/schema.js";
import { type InvalidationAccess, invalidationResolvers } from "./invalidation-resolvers.js";
import { type InspectionOptions, inspectionResolvers } from "./resolvers.js";

/**
 * Returns a schema with the inspection query and its mutations, and nothing else. Its executions need a context that is an
 * object, which is what `access` gets.
 */
export function inspectionSchema<Context>(cache: CacheHandle<Context>, access: SchemaAccess<Context>): GraphQLSchema {
  const schema = buildSchema(["type Query type Mutation", INSPECTION_SDL, INVALIDATION_SDL, SCOPE].join("\n"));
  const resolvers = [
    inspectionResolvers(cache, { allow: access.inspection }),
    invalidationResolvers(cache, { allow: access.invalidation }),
  ];
  for (const [typeName, given] of resolvers.flatMap((one) => Object.entries(one))) {
    const type = schema.getType(typeName);
    if (isScalarType(type)) Object.assign(type, given);
    if (!isObjectType(type)) continue;
    for (const [fieldName, resolve] of Object.entries(given as object)) {
      const field = type.getFields()[fieldName];
      if (field !== undefined) field.resolve = resolve;
    }
  }
  return schema;
}

export interface SchemaAccess<Context> {
  readonly inspection: InspectionOptions<Context>["allow"];
  readonly invalidation: InvalidationAccess<Context>["allow"];
}

/** The enum of `@cached` that the inspection refers to. */
const SCOPE = "enum CachedScope { PUBLIC PRIVATE }";
