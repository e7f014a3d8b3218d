/**
 * Shortens a freshness lifetime by a random share of at most `ratio`, so that entries stored
 * together do not expire together. It never lengthens: a value is not served as fresh for longer
 * than its `maxAge`.
 * Source: M. Brooker, "Timeouts, retries, and backoff with jitter", AWS Builders' Library.
 */
export function jittered(maxAgeMs: number, ratio: number, random: number): number {
  return Math.round(maxAgeMs * (1 - ratio * random));
}
