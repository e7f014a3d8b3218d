import { defaultFieldResolver, type GraphQLSchema } from "graphql";
import { CachedError } from "../errors.js";
import { type HasParts, PARTS } from "../parts.js";
import { cachedResolver, invalidatingResolver, requestFactoryOf } from "./cached-resolver.js";
import { type DirectiveNames, resolveNames } from "./directive-names.js";
import { readPolicies, type SchemaRules } from "./read-policies.js";
import { withResolvers } from "./with-resolvers.js";

/** Which schemas a cache serves, so that a key can be made from a coordinate outside of a request. */
const rulesOf = new WeakMap<object, SchemaRules>();
/** The rest of a resolver's `info` where there is no query. */
const NO_QUERY = { fieldNodes: [], fragments: {}, rootValue: undefined, variableValues: {} };
/** The resolvers made here: applied twice, a schema is wrapped once. */
const wrapped = new WeakSet<object>();

/**
 * Answers a new schema whose cached fields ask `cache` first; the one given is left as it is.
 * Apply it first, and schema transforms that check permissions after it: what is outside runs on every request, what is inside only on a load.
 * `names` says what the directives are called, where `cachedTypeDefsAs` called them otherwise.
 *
 * Errors: `CACHED_SCHEMA_INVALID`, `CACHED_POLICY_INVALID` or `CACHED_SCOPE_MISSING`, all mistakes of the schema at once; `CACHED_OPTION_INVALID`.
 */
export function applyCached(schema: GraphQLSchema, cache: HasParts, names?: DirectiveNames): GraphQLSchema {
  const parts = (cache as Partial<HasParts> | undefined)?.[PARTS];
  if (parts === undefined)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      "applyCached: a cache from createCache() was expected as the second argument",
    );
  if ("fragmentReplacements" in schema)
    throw new CachedError(
      "CACHED_SCHEMA_INVALID",
      "applyCached: the schema has been through graphql-middleware (graphql-shield), whose permissions would be checked on a load only and not on a hit; apply the cache first: applyMiddleware(applyCached(schema, cache), permissions)",
    );
  const rules = readPolicies(schema, parts, resolveNames(names, "applyCached"));
  rulesOf.set(parts, merged(rulesOf.get(parts), rules));
  return withResolvers(schema, (field, type) => {
    const coordinate = `${type.name}.${field.name}`;
    const rule = rules.fields.get(coordinate);
    const tags = rules.invalidations.get(coordinate);
    if (rule === undefined && tags === undefined) return undefined;
    const resolve = field.resolve ?? defaultFieldResolver;
    if (wrapped.has(resolve)) return undefined;
    const outer =
      rule !== undefined ? cachedResolver(rule, resolve, parts) : invalidatingResolver(tags ?? [], resolve, parts);
    wrapped.add(outer);
    const info = { fieldName: field.name, parentType: type, returnType: field.type, schema, ...NO_QUERY };
    const requestFactory = rule === undefined ? undefined : requestFactoryOf(rule, resolve, info, parts.keys);
    if (requestFactory !== undefined) parts.requestFactories.set(coordinate, requestFactory);
    return outer;
  });
}

/** What the schemas that were applied with these parts say. */
export const appliedRules = (parts: object): SchemaRules =>
  rulesOf.get(parts) ?? { fields: new Map(), invalidations: new Map() };

const merged = (known: SchemaRules | undefined, more: SchemaRules): SchemaRules => ({
  fields: new Map([...(known?.fields ?? []), ...more.fields]),
  invalidations: new Map([...(known?.invalidations ?? []), ...more.invalidations]),
});
