import { MAX_TIMER_MS } from "../../base/clock.js";
import type { Entry } from "../../store/entry.js";

/**
 * Returns what of the times and positions of an entry cannot be that of a load. Undefined: nothing.
 * An entry of which something cannot be counts as absent: whoever can write to the store can have
 * values loaded again, but not let them outlive their invalidation, their policy or a lease.
 *
 * - Its position, and that of its lease, is not later than the last one that this process knows of
 *   the clock.
 * - It was not granted after `now`, the store's time.
 * - Its lease, or its state, does not last for longer than `longestMs`: see `longestMsOf`.
 *
 * Its freshness needs no test, since `evaluateFreshness` measures by the age. Each comparison is
 * false for NaN.
 */
export function implausibilityOf(
  { state, position, grantedAt, untilAt, leasePosition = 0 }: Entry,
  now: number,
  known: { readonly position: number },
  longestMs: number,
): string | undefined {
  if (!(position <= known.position)) return `its position ${position} is later than the last one, ${known.position}`;
  if (!(grantedAt <= now + MAX_AHEAD_MS)) return `it was loaded ${grantedAt - now} ms after now`;
  if (untilAt === 0) return undefined;
  // A failure may be shared for as long as `errorMaxAgeMs` can say.
  const heldMs = state === "failed" ? MAX_TIMER_MS : longestMs;
  if (untilAt <= now + heldMs && leasePosition <= known.position) return undefined;
  return `it is held for ${untilAt - now} ms, or from a later position`;
}

/** By how much the time of one node, or what a process takes for it, may be ahead of another. */
const MAX_AHEAD_MS = 5_000;

/**
 * Returns how long leases last at most, and what says that a value cannot be stored. Other releases
 * may have longer ones, and thousands of leases that are requested together are granted for longer.
 */
export const longestMsOf = (settings: Record<"leaseMs" | "errorBackoffMs" | "storeTimeoutMs", number>): number =>
  Math.max(MIN_LONGEST_MS, 10 * settings.leaseMs, 10 * settings.errorBackoffMs, 1_000 * settings.storeTimeoutMs);

const MIN_LONGEST_MS = 60_000;
