import type { GraphQLSchema } from "graphql";
import type { CacheParts } from "../../parts.js";
import type { DirectiveNames } from "./directive-names.js";

/** Where a schema says by which caches it was applied. A string, since transforms do not copy the extensions of symbols. */
const APPLIED = "graphqlCached";

/**
 * Marks a schema that `applyCached` returns, and the copies that transforms make of it, with the fields that the cache has
 * wrapped in it. A mark is one text, which merging leaves whole.
 */
export function markApplied(
  schema: GraphQLSchema,
  parts: CacheParts,
  names: DirectiveNames,
  coordinates: readonly string[],
): void {
  const mark = [nameOf(parts), ...coordinates].join(" ");
  schema.extensions = { ...schema.extensions, [APPLIED]: [...marksOf(schema), mark] };
  for (const name of Object.values(names)) parts.rules.directives.add(name);
}

const marksOf = ({ extensions }: GraphQLSchema): readonly string[] => (extensions[APPLIED] as string[]) ?? [];

/** Its id would not do: Cloudflare Workers allow no randomness while a module is evaluated. */
const numbers = new WeakMap<CacheParts, number>();
let caches = 0;

/** What a cache is called in marks. */
function nameOf(parts: CacheParts): string {
  const number = numbers.get(parts) ?? ++caches;
  numbers.set(parts, number);
  return `${parts.keys.prefix}${number}`;
}

/** The fields that a cache has wrapped in a schema, or in the one that it is a copy of. Undefined if there is no mark of the cache. */
export function markedFields(schema: GraphQLSchema, parts: CacheParts): ReadonlySet<string> | undefined {
  const marks = marksOf(schema).map((mark) => mark.split(" "));
  const own = marks.filter(([cache]) => cache === nameOf(parts));
  return own.length === 0 ? undefined : new Set(own.flatMap(([, ...coordinates]) => coordinates));
}
