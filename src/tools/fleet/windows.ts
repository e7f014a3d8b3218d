/** A span up to now that is shown, and how long each of the buckets is that it consists of. */
export interface Window {
  readonly windowMs: number;
  readonly bucketMs: number;
}

export const WINDOWS = {
  ONE_MINUTE: { windowMs: 60_000, bucketMs: 10_000 },
  TEN_MINUTES: { windowMs: 600_000, bucketMs: 100_000 },
  ONE_HOUR: { windowMs: 3_600_000, bucketMs: 600_000 },
} as const satisfies Readonly<Record<string, Window>>;

export type WindowName = keyof typeof WINDOWS | "SINCE_START";

/**
 * Returns the number of the bucket for what was counted between two instants. What took longer than a bucket,
 * since the process was busy, goes into a late one, so that a bucket never ends later than the one after it.
 */
export const bucketAt = (fromAt: number, toAt: number, { bucketMs }: Window): number =>
  Math.floor(Math.max(fromAt, toAt - bucketMs) / bucketMs);

/** Returns the numbers of all buckets that can reach into the window that ends now. */
export function bucketsIn({ windowMs, bucketMs }: Window, now: number): number[] {
  const first = Math.floor((now - windowMs) / bucketMs) - 1;
  const last = Math.floor(now / bucketMs);
  return Array.from({ length: last - first + 1 }, (_, nth) => first + nth);
}

/** Returns whether something that ended at `toAt` is in the window that ends now. */
export const isIn = ({ windowMs }: Window, toAt: number, now: number): boolean => toAt > now - windowMs;

export const partOf = ({ bucketMs }: Window, bucket: number): string => `${bucketMs}:${bucket}`;

/** Returns how long a bucket is needed after its last change. */
export const keepMsOf = ({ windowMs, bucketMs }: Window): number => windowMs + bucketMs;
