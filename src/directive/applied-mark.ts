import type { GraphQLSchema } from "graphql";
import type { CacheParts } from "../parts.js";
import type { DirectiveNames } from "./directive-names.js";

/** Where a schema says by which caches it was applied. A string, since transforms do not copy the extensions of symbols. */
const APPLIED = "graphqlCached";

/**
 * Marks a schema that `applyCached` returns, and the copies that transforms make of it, with the fields that the cache has
 * wrapped in it. A mark is one text, which merging leaves whole.
 */
export function markApplied(
  schema: GraphQLSchema,
  { processId, rules }: CacheParts,
  names: DirectiveNames,
  coordinates: readonly string[],
): void {
  const mark = [processId, ...coordinates].join(" ");
  schema.extensions = { ...schema.extensions, [APPLIED]: [...marksOf(schema), mark] };
  for (const name of Object.values(names)) rules.directives.add(name);
}

const marksOf = ({ extensions }: GraphQLSchema): readonly string[] => (extensions[APPLIED] as string[]) ?? [];

/** The fields that a cache has wrapped in a schema, or in the one that it is a copy of. Undefined if there is no mark of the cache. */
export function markedFields(schema: GraphQLSchema, { processId }: CacheParts): ReadonlySet<string> | undefined {
  const marks = marksOf(schema).map((mark) => mark.split(" "));
  const own = marks.filter(([cache]) => cache === processId);
  return own.length === 0 ? undefined : new Set(own.flatMap(([, ...coordinates]) => coordinates));
}
