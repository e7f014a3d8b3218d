/** The upper bound of the first bucket. */
const SMALLEST_MS = 0.125;
/** Buckets by which the bounds double. */
const PER_OCTAVE = 4;

/**
 * Durations in buckets whose bounds grow by the fourth root of 2, so that those of several processes and
 * spans can be added, and percentiles of them are known to within 9.1 % (2 to the power of 1/8).
 */
export class Durations {
  sumMs = 0;
  /** The number of durations in each bucket. */
  readonly buckets = new Map<number, number>();

  add(ms: number): void {
    this.sumMs += ms;
    const bucket = bucketOf(ms);
    this.buckets.set(bucket, (this.buckets.get(bucket) ?? 0) + 1);
  }
}

/** Returns the bucket of a duration. Bucket 0 has everything up to an eighth of a millisecond. */
export const bucketOf = (ms: number): number =>
  ms <= SMALLEST_MS ? 0 : Math.ceil(PER_OCTAVE * Math.log2(ms / SMALLEST_MS));

/** Returns the duration that stands for a bucket: the geometric mean of its bounds. */
export const middleOf = (bucket: number): number =>
  bucket === 0 ? SMALLEST_MS : SMALLEST_MS * 2 ** ((bucket - 0.5) / PER_OCTAVE);

/**
 * Returns the duration that the given share of all durations does not exceed, in milliseconds. Undefined if
 * there are none. At most 9.1 % from the true one, or an eighth of a millisecond for the shortest.
 */
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
