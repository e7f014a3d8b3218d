/** Number of operations whose durations are kept. A power of two. */
const KEPT = 256;

/** How long recent operations took, in milliseconds. `operations`: how many of them there are. */
export interface Latency {
  readonly operations: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** The durations of the last 256 operations. Percentiles are computed on demand. */
export class Latencies {
  /** Grows up to `KEPT`: a Cluster whose nodes are not known yet has one for each slot that is asked. */
  readonly #durations: number[] = [];
  #count = 0;

  /** The number of all operations recorded. */
  get count(): number {
    return this.#count;
  }

  add(ms: number): void {
    this.#durations[this.#count++ & (KEPT - 1)] = ms;
  }

  /** Undefined if there was no operation. */
  summary(): Latency | undefined {
    const sorted = this.#durations.toSorted((a, b) => a - b);
    if (sorted.length === 0) return undefined;
    // The nearest rank: the smallest duration that is at least as long as this share of all.
    const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] as number;
    return { operations: sorted.length, p50Ms: at(0.5), p95Ms: at(0.95), p99Ms: at(0.99), maxMs: at(1) };
  }
}
