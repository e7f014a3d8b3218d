import { CachedError } from "../../base/errors.js";
import type { QueryUse } from "../../schema-rules.js";
import type { Excess } from "../../tier/request/loaded.js";
import { beyondSelection, observeQuery, type QueryPart } from "./query-reads.js";
import type { Outline, Outlines, QueryInfo } from "./selection.js";

/**
 * Returns what one field has of the query: its selection as a part of keys, and what its loads
 * read.
 */
export function lookAhead(
  { coordinate, hasSelection, keyTexts, isReference }: LookAheadField,
  outlines: Outlines,
): QueryUse {
  const excessOf = (read: ReadonlySet<QueryPart>): Excess | undefined => {
    const beyond = beyondSelection(read);
    if (beyond !== undefined)
      return excess(
        coordinate,
        "CACHED_QUERY_READ",
        `${beyond}, which no key contains; pass what it needs as an argument, or move the read to a part of the server that is not cached`,
      );
    if (read.size === 0 || keyTexts.includes("$selection")) return undefined;
    const key = [...keyTexts, "$selection"].map((text) => JSON.stringify(text)).join(", ");
    return excess(
      coordinate,
      "CACHED_SELECTION_READ",
      `the selection of the query, which its key does not contain; set key: [${key}], or let the resolver load without looking at the selection`,
    );
  };
  /** Undefined: it has none, and so no key. */
  const outlineOf = (info: QueryInfo): Outline | undefined => {
    try {
      return outlines.of(info, !isReference);
    } catch {
      return undefined;
    }
  };
  return {
    selectionText(info) {
      try {
        return outlines.textOf(info, !isReference);
      } catch (cause) {
        if (!(cause instanceof CachedError)) throw cause;
        throw new CachedError(cause.code, `\`${coordinate}\` is not cached: ${cause.message}`, { coordinate });
      }
    },
    observe(info) {
      const read = new Set<QueryPart>();
      const observed = observeQuery(
        info,
        (part) => read.add(part),
        (kind, name) => outlineOf(info)?.contains(kind, name) === true,
        { hasSelection, hasKeyedArguments: !isReference },
      );
      return { info: observed, excess: () => excessOf(read) };
    },
  };
}

interface LookAheadField {
  readonly coordinate: string;
  readonly hasSelection: boolean;
  readonly keyTexts: readonly string[];
  /**
   * Whether it stands for references: their query has the representations of all of them as an
   * argument.
   */
  readonly isReference: boolean;
}

const excess = (coordinate: string, code: "CACHED_SELECTION_READ" | "CACHED_QUERY_READ", what: string): Excess => ({
  kind: "unkeyable",
  error: new CachedError(
    code,
    `\`${coordinate}\`: the value is not cached: expected a load that depends on its key, got one that reads ${what}`,
    { coordinate },
  ),
});
