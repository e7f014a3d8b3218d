import type { Miss } from "../../core/loader/request-states.js";
import type { CacheParts } from "../../core/parts.js";
import type { InvalidationRecord } from "../../core/tier/invalidation/invalidation-history.js";
import type { CacheInvalidation } from "../../generated/schema.js";
import { evaluateEntry, removed } from "./evaluation.js";
import { type CauseQuery, causeOf, datesOf, readInvalidations, shownRecord } from "./provenance.js";

/** Returns the causes of misses by the names of the trace, as far as they are remembered. Rejects if the store does not reply. */
export async function causesOf(
  parts: CacheParts,
  misses: readonly Miss[],
): Promise<ReadonlyMap<string, readonly TracedCause[]>> {
  const causes = new Map<string, readonly TracedCause[]>();
  if (misses.length === 0) return causes;
  const remembered = await readInvalidations(parts);
  const toDate = datesOf(parts.clock, remembered.now);
  const counts = new Map<string, Map<InvalidationRecord, number>>();
  const queries = await Promise.all(misses.map((miss) => causeQueryOf(parts, miss)));
  for (const [nth, miss] of misses.entries()) {
    const query = queries[nth];
    const record = query === undefined ? undefined : causeOf(remembered, query)?.record;
    if (record === undefined || wouldBeGone(miss, record)) continue;
    const { coordinate } = miss.key;
    const ofCoordinate = counts.get(coordinate) ?? new Map<InvalidationRecord, number>();
    counts.set(coordinate, ofCoordinate.set(record, (ofCoordinate.get(record) ?? 0) + 1));
  }
  for (const [coordinate, ofCoordinate] of counts)
    causes.set(
      coordinate,
      [...ofCoordinate].map(([record, reads]) => {
        const { via, kind, at, process, mutation } = shownRecord(record, toDate, parts);
        return { via, ...(mutation == null ? {} : { mutation }), kind, at, process, reads };
      }),
    );
  return causes;
}

/** An invalidation, and for how many reads of a coordinate in this response it was the cause. */
export interface TracedCause extends Pick<CacheInvalidation, "via" | "kind" | "at" | "process"> {
  readonly mutation?: string;
  readonly reads: number;
}

/** Whether an entry that is not there would have ended by now without the invalidation that has removed it. */
function wouldBeGone({ entry, now, policy }: Miss, { endedAt }: InvalidationRecord): boolean {
  if (entry !== undefined || policy.neverExpires) return false;
  return now - endedAt > policy.maxAgeMs + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs);
}

async function causeQueryOf(
  parts: CacheParts,
  { key, policy, tags, entry, now }: Miss,
): Promise<CauseQuery | undefined> {
  if (entry === undefined) return removed(key).cause;
  const { notFresh } = await evaluateEntry(parts, { place: { key, policy, tags }, entry, now });
  return notFresh?.cause;
}
