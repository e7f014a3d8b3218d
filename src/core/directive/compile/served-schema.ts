import { type GraphQLSchema, getNamedType, isCompositeType, isObjectType, isUnionType } from "graphql";
import { CachedError } from "../../base/errors.js";
import type { CacheParts } from "../../parts.js";
import { type Annotated, directivesAt } from "./directives.js";
import type { AnyField } from "./field-rule.js";
import { hasOwnResolver, isStitched, markedRules, readThroughAnother, wrappedBy } from "./own-resolver.js";
import { fieldAt } from "./reference.js";

/**
 * Checks the schema that a server has: that its fields use the cache, as far as that can be told.
 * Logs once which do not, and what is cached where. Adapters call it when a server starts, and when
 * its schema changes.
 *
 * Throws `CACHED_SCHEMA_INVALID` if `schema` has policies and no schema was applied with this
 * cache, unless it has only loaders and another cache has the fields.
 */
export function checkServed(schema: GraphQLSchema, parts: CacheParts, caller: string): void {
  if (parts.rules.isEmpty) assertNotCached(schema, parts, caller);
  else reportLost(schema, parts, caller);
  reportStart(parts);
}

const MAX_NAMED = 10;

function assertNotCached(schema: GraphQLSchema, parts: CacheParts, caller: string): void {
  const other = readThroughAnother(schema, parts);
  if (other !== undefined && parts.loaders.size > 0) return;
  const found = firstCached(schema);
  if (found === undefined) return;
  const { coordinate } = other ?? found;
  let mistake = `expected a schema returned by applyCached, got one whose \`${found.source}\` on \`${coordinate}\` has no effect; pass applyCached(schema, cache) to the server`;
  if (other !== undefined) {
    const { prefix } = other.cache.keys;
    const given =
      prefix === parts.keys.prefix ? "another cache" : `a cache with the prefix ${JSON.stringify(prefix.slice(0, -1))}`;
    mistake = `expected the cache that the schema was applied with, or one with loaders, got one without fields and loaders, while \`${coordinate}\` reads through ${given}; pass that cache, or create the loaders before the server starts`;
  }
  throw new CachedError("CACHED_SCHEMA_INVALID", `${caller}: ${mistake}`, { coordinate });
}

function firstCached(schema: GraphQLSchema): { coordinate: string; source: string } | undefined {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isCompositeType(type)) continue;
    const fields: AnyField[] = isUnionType(type) ? [] : Object.values(type.getFields());
    const places = fields.map((field) => [`${type.name}.${field.name}`, field] as const);
    for (const [coordinate, target] of [[type.name, type] as const, ...places]) {
      const source = sourceAt(schema, target, "cached");
      if (source !== undefined) return { coordinate, source };
    }
  }
  return undefined;
}

function sourceAt(schema: GraphQLSchema, target: Annotated, name: "cached" | "invalidates"): string | undefined {
  if (directivesAt(schema, target, name).length > 0) return `@${name}`;
  return target.extensions?.[name] === undefined ? undefined : `extensions.${name}`;
}

/** Reports fields whose resolver does not lead to the cache: of another schema, or replaced. */
function reportLost(schema: GraphQLSchema, parts: CacheParts, caller: string): void {
  // A stitched schema calls those with the cache. Another cache has fields of its own.
  if (isStitched(schema) || readThroughAnother(schema, parts) !== undefined) return;
  const marked = markedRules(schema, parts);
  const fields = [...parts.rules.wrapped.keys()].flatMap((coordinate) => {
    const field = fieldAt(schema, coordinate)?.field;
    return field === undefined ? [] : [{ coordinate, field }];
  });
  const usesCache = ({ resolve }: AnyField): boolean => resolve !== undefined && wrappedBy(resolve)?.usesCache === true;
  const isApplied = marked !== undefined || fields.some(({ field }) => usesCache(field));
  const lost = fields.filter(
    ({ coordinate, field }) =>
      !usesCache(field) &&
      (marked === undefined
        ? hasPolicy(schema, coordinate, field, parts)
        : marked.fields.has(coordinate) || marked.invalidations.has(coordinate)) &&
      isReplaced(field, parts.rules.wrapped.get(coordinate)),
  );
  const added = addedTo(schema, parts);
  if (added.length > 0)
    parts.onceLog.warn(
      `graphql-cached: ${caller}: expected a schema without policies that came after applyCached, got ${listOf(added)}, which do not use the cache; add fields before applyCached, so that it comes last`,
    );
  if (lost.length === 0) return;
  const names = listOf(lost.map(({ coordinate }) => coordinate));
  parts.onceLog.warn(
    isApplied
      ? `graphql-cached: ${caller}: expected the resolvers of applyCached, got others for ${names}, which do not use the cache; set resolvers before applyCached, so that it comes last`
      : `graphql-cached: ${caller}: expected the schema that applyCached returned, got another one, in which ${names} do not use the cache; pass the result of applyCached to the server`,
  );
}

/** Returns the fields with a policy of their own that no `applyCached` has read. */
function addedTo(schema: GraphQLSchema, { rules }: CacheParts): string[] {
  const isKnown = (coordinate: string): boolean =>
    rules.wrapped.has(coordinate) || rules.policies.has(coordinate) || rules.fields.has(coordinate);
  return Object.values(schema.getTypeMap()).flatMap((type) => {
    const fields: AnyField[] = isObjectType(type) ? Object.values(type.getFields()) : [];
    return fields
      .filter((field) => !isKnown(`${type.name}.${field.name}`) && isReplaced(field, undefined))
      .filter((field) => isCached(schema, field) || sourceAt(schema, field, "invalidates") !== undefined)
      .filter(({ resolve }) => resolve === undefined || wrappedBy(resolve) === undefined)
      .map(({ name }) => `${type.name}.${name}`);
  });
}

/** A field with `maxAge: 0` is as good as one without a policy. */
function isCached(schema: GraphQLSchema, field: AnyField): boolean {
  const inExtensions = (field.extensions as { cached?: unknown } | undefined)?.cached ?? [];
  const declared = [...directivesAt(schema, field, "cached"), ...[inExtensions].flat()];
  return declared.some((one) => Number((one as { maxAge?: unknown } | null)?.maxAge) > 0);
}

export function listOf(coordinates: readonly string[]): string {
  const named = coordinates.slice(0, MAX_NAMED).map((coordinate) => `\`${coordinate}\``);
  const more = coordinates.length - named.length;
  return named.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Whether a user, no server or transform, has replaced the resolver that the cache has wrapped. */
function isReplaced(field: AnyField, before: { readonly name: string } | undefined): boolean {
  const { resolve } = field;
  // That of `wrapSchema`, for the result of an execution of the wrapped schema.
  if (resolve?.name === "defaultMergedResolver") return false;
  if (resolve === undefined || !hasOwnResolver(field) || resolve === before) return true;
  // graphql-tools binds the resolvers that it is given.
  const plain = (name: string): string => name.replace(/^bound /, "");
  const name = plain(resolve.name);
  if (name === field.name) return true;
  // The name of every function that is written as `resolve: () => …`.
  return name !== "" && name !== "resolve" && name === plain(before?.name ?? "");
}

function hasPolicy(schema: GraphQLSchema, coordinate: string, field: AnyField, { rules }: CacheParts): boolean {
  const returned = getNamedType(field.type);
  const isMarked = (target: Annotated): boolean =>
    sourceAt(schema, target, "cached") !== undefined || sourceAt(schema, target, "invalidates") !== undefined;
  return rules.policies.has(coordinate) || rules.policies.has(returned.name) || [field, returned].some(isMarked);
}

function reportStart({ rules, loaders, store, keys, onceLog }: CacheParts): void {
  const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
  const invalidating = rules.invalidations.size;
  const parts = [counted(rules.fields.size, "cached field")];
  if (loaders.size > 0) parts.push(counted(loaders.size, "loader"));
  if (invalidating > 0)
    parts.push(`${counted(invalidating, "mutation")} ${invalidating === 1 ? "invalidates" : "invalidate"}`);
  parts.push(`store ${store.name}${store.isShared === false ? " (this process only)" : ""}`);
  onceLog.info(`graphql-cached: ${parts.join(", ")}, prefix ${keys.prefix.slice(0, -1)}`);
}

/** Those over whose cached resolver an anonymous function was assigned. Transforms name theirs. */
export function replacedResolvers(schema: GraphQLSchema, coordinates: readonly string[]): string[] {
  return coordinates.filter((coordinate) => {
    const resolve = fieldAt(schema, coordinate)?.field.resolve;
    return resolve !== undefined && resolve.name === "" && wrappedBy(resolve) === undefined;
  });
}
