import type { Measure, Row } from "../report.js";
import { spreadOf, sum } from "../statistics.js";

/** What visits of the page have shown. */
export interface Visited {
  readonly requests: number;
  readonly mutations: number;
  /** The values of items that were returned, and how many of them were stale when their request began. */
  readonly values: number;
  readonly staleValues: number;
  /** Requests that failed. An invalidation that failed is not confirmed. */
  readonly errors: number;
}

const STALE = "stale values";
const FAILED = "failed requests";

/** Stale values after a confirmed mutation, and failed requests, as shares. `neverStale`: contenders that must have none. */
export function mistakeMeasures(neverStale: readonly string[], neverFailing = neverStale): readonly Measure[] {
  const none = (contenders: readonly string[]) => contenders.map((contender) => ({ contender, bound: 0 }));
  return [
    { name: STALE, unit: "%", better: "less", targets: none(neverStale) },
    { name: FAILED, unit: "%", better: "less", targets: none(neverFailing) },
  ];
}

/** After so many mutations, values that nothing has invalidated are asked for. */
const MUTATIONS_THAT_SHOW = 20;

/**
 * Adds the shares of all visits together: the median of the rounds would hide a stale value of one of them. Throws if `control`, a
 * contender that invalidates nothing, had no stale value, because the check would find none of the others either.
 */
export function withMistakes(
  rows: readonly Row[],
  visits: ReadonlyMap<string, readonly Visited[]>,
  control: string,
): Row[] {
  return rows.map(({ contender, values }) => {
    const total = (what: keyof Visited): number => sum((visits.get(contender) ?? []).map((visited) => visited[what]));
    const share = (part: keyof Visited, all: keyof Visited) =>
      spreadOf([(total(part) / Math.max(1, total(all))) * 100]);
    if (contender === control && total("staleValues") === 0 && total("mutations") >= MUTATIONS_THAT_SHOW)
      throw new Error(
        `expected stale values of "${control}", which invalidates nothing, got none of ${total("values")}`,
      );
    return {
      contender,
      values: { ...values, [STALE]: share("staleValues", "values"), [FAILED]: share("errors", "requests") },
    };
  });
}
