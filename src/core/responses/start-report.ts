import type { GraphQLSchema } from "graphql";
import type { AnyField } from "../directive/compile/field-rule.js";
import { wrappedBy } from "../directive/compile/own-resolver.js";
import { listOf } from "../directive/compile/served-schema.js";
import { hintOf } from "../directive/hints/cache-control.js";
import type { CacheParts } from "../parts.js";
import type { SchemaRules } from "../schema-rules.js";

/**
 * Returns the fields of the query type whose responses may be kept although they are not cached themselves: what invalidates such a
 * response is only what their resolvers read through loaders and fields below them.
 */
export function fieldsWithoutEntries(
  schema: GraphQLSchema,
  { fields }: Pick<SchemaRules, "fields">,
): readonly string[] {
  const root = schema.getQueryType();
  if (root == null) return [];
  return (
    (Object.values(root.getFields()) as AnyField[])
      .filter((field) => (hintOf(field).maxAge ?? 0) > 0)
      // With entity tags, the entities that it returns are parts of the response.
      .filter(({ resolve }) => resolve === undefined || wrappedBy(resolve) === undefined)
      .map(({ name }) => `${root.name}.${name}`)
      .filter((coordinate) => !fields.has(coordinate))
  );
}

/** Logs once which responses nothing but their age may make outdated. */
export function reportStart(schema: GraphQLSchema, parts: CacheParts): void {
  const fields = fieldsWithoutEntries(schema, parts.rules);
  if (fields.length === 0) return;
  parts.onceLog.info(
    `graphql-cached: responses with ${listOf(fields)} are kept for their maxAge, whatever changes, unless their resolvers read cached fields or loaders; add @cached with tags to what mutations change`,
  );
}
