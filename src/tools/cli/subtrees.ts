import { compact, percent } from "./terminal.js";

/** Counts of a field, or of its subtrees, that both commands show. */
interface Stats {
  readonly reads: number;
  readonly hitRatio: number | null;
}

/** What is known of the subtrees of a field. */
export interface FieldSubtrees {
  readonly stats: Stats;
  readonly selections: number;
  readonly holes: readonly string[];
  readonly skipped: readonly { readonly reason: string; readonly subject: string; readonly count: number }[];
}

/** What is asked of the subtrees of a field, besides their counts. */
export const SUBTREES = "selections holes skipped { reason subject count }";

/** Returns what the subtrees of a field did. Undefined: nothing. */
export function subtreesText({ stats, selections, holes, skipped }: FieldSubtrees): string | undefined {
  if (stats.reads === 0 && skipped.length === 0) return undefined;
  const { reads, hitRatio } = stats;
  return [
    `${compact(reads)} reads${hitRatio === null ? "" : `, ${percent(hitRatio)} of them hits`}`,
    `${selections} ${selections === 1 ? "selection" : "selections"}`,
    ...(holes.length === 0 ? [] : [`holes: ${holes.join(", ")}`]),
    ...(skipped.length === 0
      ? []
      : [
          `skipped: ${skipped.map(({ reason, subject, count }) => `${reason} ${subject} ${compact(count)}`).join(", ")}`,
        ]),
  ].join("; ");
}
