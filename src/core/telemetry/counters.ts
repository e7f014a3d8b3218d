import { getOrMake } from "../base/multimap.js";
import type { BypassReason, CacheEvent, FrequentEvent, ReadOutcome, ServedEvent } from "./events.js";

/** Counts the events of this process by coordinate, since it started. */
export class Counters {
  readonly #byCoordinate = new Map<string, Counts>();

  /** Counts a read that was served. Called once for every hit. */
  countServed(coordinate: string, outcome: ServedEvent["outcome"]): void {
    const counts = this.#byCoordinate.get(coordinate) ?? this.of(coordinate);
    counts.reads++;
    counts[outcome]++;
  }

  count(event: Exclude<CacheEvent, FrequentEvent>): void {
    if (!("coordinate" in event) || event.name === "tag.mistaken") return;
    const counts = this.of(event.coordinate);
    switch (event.name) {
      case "resolver.bypassed":
        counts.reads++;
        counts.bypassed++;
        counts.bypasses.set(event.reason, (counts.bypasses.get(event.reason) ?? 0) + 1);
        break;
      case "load.started":
        counts.loads++;
        if (event.isRefresh) counts.refreshes++;
        break;
      case "load.finished":
        counts.loadMs.add(event.loadMs);
        break;
      case "load.failed":
        counts.failedLoads++;
        break;
      case "write.finished":
        if (!event.isStored) counts.refusedStores++;
        break;
      default:
    }
  }

  all(): Iterable<[coordinate: string, counts: Counts]> {
    return this.#byCoordinate;
  }

  of(coordinate: string): Counts {
    return getOrMake(this.#byCoordinate, coordinate, emptyCounts);
  }
}

/** The counts of one coordinate. `reads` is the sum of the six read outcomes. */
export interface Counts extends Record<ReadOutcome, number> {
  reads: number;
  loads: number;
  /** Those of the loads that refresh a stored value in the background. */
  refreshes: number;
  failedLoads: number;
  refusedStores: number;
  readonly bypasses: Map<BypassReason, number>;
  /** How long the loads took that have ended with a value. */
  readonly loadMs: Durations;
}

export const COUNTERS = [
  "reads",
  "hit",
  "stale",
  "staleIfError",
  "loaded",
  "coalesced",
  "bypassed",
  "loads",
  "refreshes",
  "failedLoads",
  "refusedStores",
] as const;

function emptyCounts(): Counts {
  const counts = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Record<(typeof COUNTERS)[number], number>;
  return { ...counts, bypasses: new Map(), loadMs: new Durations() };
}

const SMALLEST_MS = 0.125;
/** Buckets by which the bounds double. */
const PER_OCTAVE = 4;

/**
 * Durations in buckets whose bounds grow by the fourth root of 2, so that those of several
 * processes can be added, and percentiles are known to within 9.1 % (2 to the power of 1/8).
 */
export class Durations {
  sumMs = 0;
  readonly buckets = new Map<number, number>();

  add(ms: number): void {
    this.sumMs += ms;
    // Bucket 0 has everything up to an eighth of a millisecond.
    const bucket = ms <= SMALLEST_MS ? 0 : Math.ceil(PER_OCTAVE * Math.log2(ms / SMALLEST_MS));
    this.buckets.set(bucket, (this.buckets.get(bucket) ?? 0) + 1);
  }
}

/** Returns the duration that stands for a bucket: the geometric mean of its bounds. */
const middleOf = (bucket: number): number =>
  bucket === 0 ? SMALLEST_MS : SMALLEST_MS * 2 ** ((bucket - 0.5) / PER_OCTAVE);

/** Milliseconds that a share does not exceed, within 9.1 % or an eighth. Undefined: no counts. */
export function percentileOf(buckets: ReadonlyMap<number, number>, share: number): number | undefined {
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  const count = sorted.reduce((sum, [, times]) => sum + times, 0);
  let rank = Math.max(1, Math.ceil(share * count));
  for (const [bucket, times] of sorted) {
    rank -= times;
    if (rank <= 0) return middleOf(bucket);
  }
  return undefined;
}
