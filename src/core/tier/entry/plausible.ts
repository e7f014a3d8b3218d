import { MAX_TIMER_MS } from "../../base/clock.js";
import type { Entry } from "../../store/entry.js";

/**
 * Returns whether the times and positions of an entry can be those of a load. An entry of which
 * they cannot be counts as absent: whoever can write to the store can have values loaded again, but
 * not let them outlive their invalidation, their policy or a lease.
 *
 * - Its position, and that of its lease, is not later than the last one that this process knows of
 *   the clock.
 * - It was not granted after `now`, the store's time.
 * - Its lease, or its state, does not last for longer than `longestMs`: see `longestMsOf`.
 *
 * Its freshness needs no test, since `evaluateFreshness` measures by the age. Hits call this, so it
 * compares numbers and nothing else. Each comparison is false for NaN.
 */
export const isPlausible = (entry: Entry, now: number, known: KnownClock, longestMs: number): boolean =>
  entry.position <= known.position &&
  entry.grantedAt <= now + MAX_AHEAD_MS &&
  (entry.untilAt === 0 ||
    (entry.untilAt <= now + (entry.state === "failed" ? MAX_TIMER_MS : longestMs) &&
      (entry.leasePosition ?? 0) <= known.position));

interface KnownClock {
  /** The last position of the invalidation clock that this process knows. */
  readonly position: number;
}

/** By how much the time of one node, or what a process takes for it, may be ahead of another. */
const MAX_AHEAD_MS = 5_000;

/**
 * Returns how long leases last at most, and what says that a value cannot be stored. Other releases
 * may have longer ones, and thousands of leases that are requested together are granted for longer.
 * A failure may be shared for as long as `errorMaxAgeMs` can say.
 */
export const longestMsOf = ({ leaseMs, errorBackoffMs, storeTimeoutMs }: HoldSettings): number =>
  Math.max(MIN_LONGEST_MS, 10 * leaseMs, 10 * errorBackoffMs, 1_000 * storeTimeoutMs);

interface HoldSettings {
  readonly leaseMs: number;
  readonly errorBackoffMs: number;
  readonly storeTimeoutMs: number;
}

const MIN_LONGEST_MS = 60_000;

/** Says what cannot be of an entry that is not plausible. */
export function implausibilityOf({ position, grantedAt, untilAt }: Entry, now: number, known: KnownClock): string {
  if (!(position <= known.position)) return `its position ${position} is later than the last one, ${known.position}`;
  if (!(grantedAt <= now + MAX_AHEAD_MS)) return `it was loaded ${grantedAt - now} ms after now`;
  return `it is held for ${untilAt - now} ms, or from a later position`;
}
