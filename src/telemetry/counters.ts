import type { BypassReason, CacheEvent, FrequentEvent, ReadOutcome, ServedEvent } from "./events.js";

/** The counts of one coordinate. `reads` is the sum of the six read outcomes. */
export interface Counts extends Record<ReadOutcome, number> {
  reads: number;
  loads: number;
  failedLoads: number;
  refusedStores: number;
  readonly bypasses: Map<BypassReason, number>;
}

/** Counts the events of this process by coordinate, since it started. */
export class Counters {
  readonly #byCoordinate = new Map<string, Counts>();
  /** The coordinate of the last call of `of`, with its counts: reads of one field or loader come together. */
  #lastCoordinate: string | undefined;
  #lastCounts = emptyCounts();
  #storeFailures = 0;

  get storeFailures(): number {
    return this.#storeFailures;
  }

  /** Counts a read that was served. Called once for every hit. */
  countServed(coordinate: string, outcome: ServedEvent["outcome"]): void {
    const counts = this.of(coordinate);
    counts.reads++;
    // A name that is written out is found faster.
    if (outcome === "hit") counts.hit++;
    else counts[outcome]++;
  }

  /** Counts any other event. */
  count(event: Exclude<CacheEvent, FrequentEvent>): void {
    if (event.name === "store.failed") this.#storeFailures++;
    if (!("coordinate" in event)) return;
    const counts = this.of(event.coordinate);
    switch (event.name) {
      case "resolver.bypassed":
        counts.reads++;
        counts.bypassed++;
        counts.bypasses.set(event.reason, (counts.bypasses.get(event.reason) ?? 0) + 1);
        break;
      case "load.started":
        counts.loads++;
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

  of(coordinate: string): Counts {
    if (coordinate === this.#lastCoordinate) return this.#lastCounts;
    let counts = this.#byCoordinate.get(coordinate);
    if (counts === undefined) {
      counts = emptyCounts();
      this.#byCoordinate.set(coordinate, counts);
    }
    this.#lastCoordinate = coordinate;
    this.#lastCounts = counts;
    return counts;
  }

  /** The counts of each coordinate that has any. */
  all(): Iterable<readonly [coordinate: string, counts: Counts]> {
    return this.#byCoordinate;
  }

  /** The sum over all coordinates. */
  total(): Counts {
    const total = emptyCounts();
    for (const counts of this.#byCoordinate.values()) for (const name of COUNTERS) total[name] += counts[name];
    return total;
  }
}

const COUNTERS = [
  "reads",
  "hit",
  "stale",
  "staleIfError",
  "loaded",
  "coalesced",
  "bypassed",
  "loads",
  "failedLoads",
  "refusedStores",
] as const;

function emptyCounts(): Counts {
  const counts = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Record<(typeof COUNTERS)[number], number>;
  return { ...counts, bypasses: new Map() };
}
