import { defaultFieldResolver, type GraphQLSchema, isObjectType } from "graphql";
import { CachedError } from "../../base/errors.js";
import { RESPONSES } from "../../keys/key.js";
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
  const entries = [...fields].map(([coordinate, { variant }]) => [coordinate, variant.id] as const);
  const others = otherSources(schema, entries, parts);
  if (others.length === 0) return;
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

const MAX_LISTED = 5;

/**
 * Notes whether responses of a schema may be stored: not if another one of the same `shape`
 * resolves a field in another way, cached or not, since it would get them. Nor once that one is
 * gone: schemas that are made for each request would get those of each other. Outside of
 * production, the later schema replaces the earlier one, as above.
 */
export function checkResponses(schema: GraphQLSchema, shape: string, parts: CacheParts): void {
  const { storing } = parts.rules;
  // A server can have wrapped its resolvers since.
  if (storing.has(schema)) return;
  const entries = Object.values(schema.getTypeMap()).flatMap((type) =>
    isObjectType(type)
      ? Object.keys(type.getFields()).map((name) => [`${type.name}.${name}`, `${RESPONSES} ${shape}`] as const)
      : [],
  );
  const [other] = otherSources(schema, entries, parts);
  if (other === undefined || !parts.isProduction) storing.add(schema);
  if (other === undefined) return;
  const mistake = `graphql-cached: expected one resolver for each field of the schemas whose responses are stored, got a schema of the same shape with another resolver of \`${other}\``;
  const remedy = "give each schema a cache with a `prefix` of its own";
  if (parts.isProduction) parts.onceLog.warn(`${mistake}; its responses are not stored; ${remedy}`);
  else
    parts.onceLog.info(
      `${mistake}; the later schema replaces the earlier one. In production its responses are not stored: if both are in use, ${remedy}`,
    );
}

/**
 * Returns the coordinates that another schema resolves in another way, although both share
 * `entries`. Remembers how this one does, unless it is refused.
 */
function otherSources(
  schema: GraphQLSchema,
  entries: readonly (readonly [coordinate: string, entries: string])[],
  { rules: { sources }, isProduction }: CacheParts,
): string[] {
  const own = entries.map(([coordinate, shared]) => {
    const name = `${coordinate} ${shared}`;
    const source = sourceOf(schema, coordinate);
    return { coordinate, name, source, isOther: (sources.get(name) ?? source) !== source };
  });
  const others = own.filter(({ isOther }) => isOther).map(({ coordinate }) => coordinate);
  if (others.length === 0 || !isProduction) for (const { name, source } of own) sources.set(name, source);
  return others;
}

/** The function that loads a field, without the cache. One for all properties of parents. */
function sourceOf(schema: GraphQLSchema, coordinate: string): object {
  const found = fieldAt(schema, coordinate);
  const isReference = found?.field.name === REFERENCE;
  const resolve = isReference ? referenceResolverOf(found.type) : found?.field.resolve;
  if (resolve === undefined || (!isReference && !hasOwnResolver({ resolve: resolve as never })))
    return defaultFieldResolver;
  return wrappedBy(resolve)?.inner ?? resolve;
}
