import { CachedError, describeSetting } from "../../base/errors.js";
import type { SchemaRules } from "../../schema-rules.js";
import type { Compare } from "../../tier/request/request.js";
import { notForSubtrees } from "../existence/field-existence.js";

/**
 * Checks the option `compare` and returns its functions by coordinate.
 * Throws `CACHED_OPTION_INVALID` with all mistakes.
 */
export function fieldCompares(given: unknown, { fields }: SchemaRules): ReadonlyMap<string, Compare> {
  if (given === undefined) return new Map();
  const mistakes: string[] = [];
  const isMap = typeof given === "object" && given !== null && !Array.isArray(given);
  if (!isMap)
    mistakes.push(
      `\`compare\`: expected an object of functions by coordinate, such as { "Query.movie": (stored, loaded) => stored.id === loaded.id }, got ${describeSetting(given)}`,
    );
  const entries = isMap ? Object.entries(given) : [];
  for (const [coordinate, compare] of entries) {
    const place = `compare["${coordinate}"]`;
    if (!fields.has(coordinate))
      mistakes.push(
        `\`${place}\`: expected the coordinate of a cached field of the schema; known fields: ${[...fields.keys()].join(", ") || "none"}`,
      );
    else if (fields.get(coordinate)?.subtree !== undefined) mistakes.push(notForSubtrees("compare", coordinate));
    else if (typeof compare !== "function")
      mistakes.push(`\`${place}\`: expected a function, got ${describeSetting(compare)}`);
  }
  if (mistakes.length > 0) throw new CachedError("CACHED_OPTION_INVALID", `applyCached: ${mistakes.join("; ")}`);
  return new Map(entries as [string, Compare][]);
}
