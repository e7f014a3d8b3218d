import { defaultFieldResolver, type GraphQLSchema } from "graphql";
import { CachedError } from "../../base/errors.js";
import type { CacheParts } from "../../parts.js";
import type { SchemaRules } from "../../schema-rules.js";
import { hasOwnResolver, wrappedBy } from "./own-resolver.js";
import { fieldAt, REFERENCE, referenceResolverOf } from "./reference.js";

/**
 * Refuses a schema with cached fields that another schema of the cache resolves in another way:
 * they would get each other's values, since fields of one coordinate and shape share entries, as
 * loaders of one name do. A field is the same if its resolver is the same function, as in schemas
 * that are derived from one another. Outside of production it is said, once for all: a development
 * server evaluates a changed module again, with the cache on `globalThis`.
 */
export function checkSources(schema: GraphQLSchema, { fields }: SchemaRules, parts: CacheParts): void {
  const { sources } = parts.rules;
  const own = new Map<string, object>();
  const others: string[] = [];
  for (const [coordinate, { variant }] of fields) {
    const source = sourceOf(schema, coordinate);
    const entries = `${coordinate} ${variant.id}`;
    const known = sources.get(entries);
    if (known !== undefined && known !== source) others.push(coordinate);
    own.set(entries, source);
  }
  if (others.length > 0) {
    const list = `\`${others.slice(0, MAX_LISTED).join("`, `")}\`${others.length > MAX_LISTED ? " and others" : ""}`;
    const mistake = `expected one resolver for each cached field of a cache, since schemas share its entries, got a schema with other resolvers of ${list}`;
    if (parts.isProduction) {
      const message = `applyCached: ${mistake}; derive the schemas from one, so that they have the same functions, or give each a cache with a \`prefix\` of its own; if this one replaces the other, close its cache and create another`;
      throw new CachedError("CACHED_SCHEMA_INVALID", message, { coordinate: others[0] });
    }
    parts.onceLog.info(
      `graphql-cached: applyCached: ${mistake}; the later schema replaces the earlier one. In production it throws: if both are in use, give each a cache with a \`prefix\` of its own`,
    );
  }
  for (const [entries, source] of own) sources.set(entries, source);
}

const MAX_LISTED = 5;

/** The function that loads a field, without the cache. One for all properties of parents. */
function sourceOf(schema: GraphQLSchema, coordinate: string): object {
  const found = fieldAt(schema, coordinate);
  const isReference = found?.field.name === REFERENCE;
  const resolve = isReference ? referenceResolverOf(found.type) : found?.field.resolve;
  if (resolve === undefined || (!isReference && !hasOwnResolver({ resolve: resolve as never })))
    return defaultFieldResolver;
  return wrappedBy(resolve)?.inner ?? resolve;
}
