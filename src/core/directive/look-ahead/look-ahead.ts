import type { GraphQLResolveInfo } from "graphql";
import { CachedError } from "../../base/errors.js";
import type { ValueWriter } from "../../keys/canonical.js";
import type { ObservedLoad, QueryExtent, QueryUse } from "../../schema-rules.js";
import type { Channel } from "../../telemetry/channel.js";
import type { Excess } from "../../tier/request/loaded.js";
import { observeQuery, QueryReads } from "./query-reads.js";
import { type QueryInfo, Selections } from "./selection.js";

/** What the loads of one field were seen to read of the query, in this process. From then on it is part of the field's keys. */
export class LookAhead implements QueryUse {
  readonly #field: LookAheadField;
  readonly #channel: Channel;
  readonly #selections: Selections;
  extent: QueryExtent;

  constructor(field: LookAheadField, channel: Channel, writeVariable: ValueWriter) {
    this.#selections = new Selections(writeVariable, !field.isReference);
    this.#field = field;
    this.#channel = channel;
    // Resolvers of a stitched schema delegate, and to delegate is to look ahead.
    this.extent = field.isStitched && field.hasSelection ? "selection" : "none";
  }

  selectionText(info: QueryInfo): string {
    return this.#selections.textOf(info);
  }

  operationText(info: QueryInfo): string {
    return this.#selections.operationTextOf(info);
  }

  observe(info: GraphQLResolveInfo, keyed: QueryExtent): ObservedLoad {
    const { declaresSelection, hasSelection, isReference } = this.#field;
    const reads = new QueryReads(() => this.#selections.outlineOf(info));
    const contained = declaresSelection && keyed === "none" ? "selection" : keyed;
    return {
      info: observeQuery(info, reads, { hasSelection, hasKeyedArguments: !isReference }),
      excess: () => this.#excessOf(reads, contained),
    };
  }

  /** Widens the keys of later requests if the load has outgrown its key, and reports it when it does so. */
  #excessOf({ extent, unkeyable }: QueryReads, keyed: QueryExtent): Excess | undefined {
    const { coordinate, hasSelection, declaresSelection } = this.#field;
    if (unkeyable !== undefined) return unkeyableRead(coordinate, unkeyable);
    if (!isWider(extent, keyed)) return undefined;
    if (!hasSelection && !declaresSelection) return unkeyableRead(coordinate, "the query through `info`");
    if (isWider(extent, this.extent)) {
      this.extent = extent;
      const error = selectionRead(coordinate, extent);
      this.#channel.publish({ name: "selection.read", coordinate, digest: "", error });
    }
    return { kind: "outgrown-key" };
  }
}

/** Each extent contains the ones before it. */
const EXTENTS: readonly QueryExtent[] = ["none", "selection", "operation"];
const isWider = (one: QueryExtent, other: QueryExtent): boolean => EXTENTS.indexOf(one) > EXTENTS.indexOf(other);

export interface LookAheadField {
  readonly coordinate: string;
  readonly hasSelection: boolean;
  readonly declaresSelection: boolean;
  readonly isStitched: boolean;
  /** Whether it stands for references: their query has the representations of all of them as an argument. */
  readonly isReference: boolean;
}

function selectionRead(coordinate: string, extent: QueryExtent): CachedError {
  const message =
    extent === "selection"
      ? "reads the selection of the query, which is not part of its key, so its value was not cached; from now on this process caches the field by selection. To do so from the start, add `$selection` to `key`, or let the resolver load without looking at the selection"
      : "reads the query beyond the selection of its field (other fields, variables or fragments), which is not part of its key, so its value was not cached; from now on this process caches the field by operation. Read no more than `info.fieldNodes`, and pass the rest as arguments";
  return new CachedError("CACHED_SELECTION_READ", `\`${coordinate}\`: its resolver ${message}`, { coordinate });
}

function unkeyableRead(coordinate: string, path: string): Excess {
  const what = path.startsWith("info") ? `\`${path}\`` : path;
  const error = new CachedError(
    "CACHED_QUERY_READ",
    `\`${coordinate}\`: the value is not cached: expected a load that depends on its key, got one that reads ${what}, which its key does not contain; pass what it needs as an argument, or move the read to a part of the server that is not cached`,
    { coordinate },
  );
  return { kind: "unkeyable", error };
}
