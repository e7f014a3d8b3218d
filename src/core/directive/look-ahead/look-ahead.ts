import type { GraphQLResolveInfo } from "graphql";
import { CachedError } from "../../base/errors.js";
import type { ObservedLoad, QueryUse } from "../../schema-rules.js";
import type { Excess } from "../../tier/request/loaded.js";
import { observeQuery, QueryReads } from "./query-reads.js";
import { type Outline, type Outlines, type QueryInfo, Selections } from "./selection.js";

/** What one field has of the query: its selection as a part of keys, and what its loads read. */
export class LookAhead implements QueryUse {
  readonly #field: LookAheadField;
  readonly #selections: Selections;

  constructor(field: LookAheadField, outlines: Outlines) {
    this.#selections = new Selections(outlines, !field.isReference);
    this.#field = field;
  }

  selectionText(info: QueryInfo): string {
    try {
      return this.#selections.textOf(info);
    } catch (cause) {
      if (!(cause instanceof CachedError)) throw cause;
      const { coordinate } = this.#field;
      throw new CachedError(cause.code, `\`${coordinate}\` is not cached: ${cause.message}`, { coordinate });
    }
  }

  observe(info: GraphQLResolveInfo): ObservedLoad {
    const { hasSelection, isReference } = this.#field;
    const reads = new QueryReads(() => this.#outlineOf(info));
    return {
      info: observeQuery(info, reads, { hasSelection, hasKeyedArguments: !isReference }),
      excess: () => this.#excessOf(reads),
    };
  }

  /** Undefined: it has none, and so no key. */
  #outlineOf(info: QueryInfo): Outline | undefined {
    try {
      return this.#selections.outlineOf(info);
    } catch {
      return undefined;
    }
  }

  #excessOf({ beyondSelection, hasSelection }: QueryReads): Excess | undefined {
    const { coordinate, keyTexts } = this.#field;
    if (beyondSelection !== undefined)
      return excess(
        coordinate,
        "CACHED_QUERY_READ",
        `${beyondSelection}, which no key contains; pass what it needs as an argument, or move the read to a part of the server that is not cached`,
      );
    if (!hasSelection || keyTexts.includes("$selection")) return undefined;
    const key = [...keyTexts, "$selection"].map((text) => JSON.stringify(text)).join(", ");
    return excess(
      coordinate,
      "CACHED_SELECTION_READ",
      `the selection of the query, which its key does not contain; set key: [${key}], or let the resolver load without looking at the selection`,
    );
  }
}

interface LookAheadField {
  readonly coordinate: string;
  readonly hasSelection: boolean;
  /** The paths of its key. */
  readonly keyTexts: readonly string[];
  /** Whether it stands for references: their query has the representations of all of them as an argument. */
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
