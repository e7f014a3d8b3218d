import { MAX_TIMER_MS, type Random } from "../../base/clock.js";
import type { Policy } from "../../policy/policy.js";
import { type Entry, isForWaiters } from "../../store/entry.js";
import type { OwnFreshness } from "../../store/entry-layout.js";

/**
 * What a reader may do with an entry.
 *
 * - `fresh`: serve it.
 * - `stale-while-revalidate`: serve it and start a refresh.
 * - `stale-if-error`: load; serve it if the load fails.
 * - `stale-backoff`: serve it. The last refresh failed, and the next one waits until
 *   `freshUntilAt`.
 * - `absent`: load.
 * - `implausible`: remove the entry, and load.
 * - the rest: see `EntryState`.
 */
export type Freshness =
  | "fresh"
  | "stale-while-revalidate"
  | "stale-if-error"
  | "stale-backoff"
  | "absent"
  | "implausible"
  | "pending"
  | "failed"
  | "uncacheable"
  | "write-in-progress";

export type Servable = Extract<Freshness, "fresh" | "stale-while-revalidate" | "stale-backoff">;

const SERVABLE: ReadonlySet<Freshness> = new Set<Servable>(["fresh", "stale-while-revalidate", "stale-backoff"]);
export const isServable = (freshness: Freshness): freshness is Servable => SERVABLE.has(freshness);

/**
 * Returns what a reader may do with `entry` at `now`, the store's time, by its policy.
 *
 * A boundary belongs to the later state: exactly at `freshUntilAt`, the entry is stale. A value
 * older than `maxAge` plus the longest stale window is absent, no matter what the entry says.
 *
 * `ownOf` returns the lifetime of a value that has one of its own. It is called only if the value
 * is not fresh by the policy: `freshUntilAt` contains a shorter `maxAge`.
 *
 * Source: RFC 9111 §4.2, RFC 5861 §3 and §4.
 */
export function evaluateFreshness(
  entry: Entry,
  policy: Policy,
  now: number,
  ownOf?: (entry: Entry) => OwnFreshness | undefined,
): Freshness {
  if (entry.state === "pending") return "pending";
  if (entry.state !== "value") return now < entry.untilAt ? entry.state : "absent";
  const freshness = valueFreshness(entry, policy, now);
  if (freshness === "fresh") return freshness;
  if (isForWaiters(entry)) return "absent";
  if (freshness === "absent" && policy.maxAgeLimitMs === undefined) return freshness;
  const own = ownOf?.(entry);
  return own === undefined ? freshness : valueFreshness(entry, ownPolicy(policy, own), now);
}

function valueFreshness(entry: Entry, policy: Policy, now: number): Freshness {
  const { hasRefreshFailed } = entry;
  const isBeforeEnd = now < entry.freshUntilAt;
  const pastMaxAgeMs = now - entry.grantedAt - policy.maxAgeMs;
  if (policy.neverExpires) {
    if (isBeforeEnd && hasRefreshFailed && entry.freshUntilAt - now <= MAX_TIMER_MS) return "stale-backoff";
    return isBeforeEnd && !hasRefreshFailed && pastMaxAgeMs < 0 ? "fresh" : "stale-while-revalidate";
  }
  // A maxAge that has become shorter since the value was stored applies at once.
  if (isBeforeEnd && !hasRefreshFailed && pastMaxAgeMs < 0) return "fresh";
  const { staleWhileRevalidateMs, staleIfErrorMs } = policy;
  if (isBeforeEnd && hasRefreshFailed && pastMaxAgeMs < Math.max(staleWhileRevalidateMs, staleIfErrorMs))
    return "stale-backoff";
  // After a failed refresh or a soft invalidation, `freshUntilAt` does not say when the value
  // became stale.
  const isMeasuredByAge = hasRefreshFailed || entry.freshUntilAt === 0;
  const staleMs = isMeasuredByAge ? pastMaxAgeMs : Math.max(pastMaxAgeMs, now - entry.freshUntilAt);
  if (staleMs < staleWhileRevalidateMs) return "stale-while-revalidate";
  return staleMs < staleIfErrorMs ? "stale-if-error" : "absent";
}

/** The entry may say longer, from a release with a longer `maxAge`. `own`: its own lifetime. */
export function freshEndOf(
  { freshUntilAt, grantedAt }: Pick<Entry, "freshUntilAt" | "grantedAt">,
  policy: Policy,
  own: OwnFreshness | undefined,
): number {
  // As in `ownPolicy`, without a copy on each hit.
  const { maxAgeMs, maxAgeLimitMs = maxAgeMs } = policy;
  return Math.min(freshUntilAt, grantedAt + Math.min(own?.maxAgeMs ?? maxAgeMs, maxAgeLimitMs));
}

/** Returns the policy of one value: that of its field or loader with its own lifetime. */
export function ownPolicy(policy: Policy, { maxAgeMs, staleWhileRevalidateMs }: OwnFreshness): Policy {
  const { maxAgeLimitMs } = policy;
  const windowLimitMs = Math.max(policy.staleWhileRevalidateMs, maxAgeLimitMs ?? 0);
  return {
    ...policy,
    maxAgeMs: Math.min(maxAgeMs ?? policy.maxAgeMs, maxAgeLimitMs ?? policy.maxAgeMs),
    staleWhileRevalidateMs:
      policy.neverExpires && staleWhileRevalidateMs !== undefined
        ? staleWhileRevalidateMs
        : Math.min(staleWhileRevalidateMs ?? policy.staleWhileRevalidateMs, windowLimitMs),
    // A window of its own ends.
    neverExpires: policy.neverExpires && staleWhileRevalidateMs === undefined,
  };
}

/**
 * Returns whether to refresh a fresh entry before it becomes stale. The decision is random; it
 * becomes more likely as expiry approaches, and the longer the load takes.
 *
 * Source: Vattani, Chierichetti, Lowenstein, "Optimal Probabilistic Cache Stampede Prevention",
 * VLDB 2015, algorithm 2.
 */
export function isDueEarly(
  entry: Pick<Entry, "freshUntilAt" | "loadMs">,
  policy: Pick<Policy, "earlyRefreshBeta">,
  now: number,
  random: Random,
): boolean {
  const leftMs = entry.freshUntilAt - now;
  const scaleMs = entry.loadMs * policy.earlyRefreshBeta;
  return leftMs <= MAX_NEGATIVE_LOG * scaleMs && -scaleMs * Math.log(1 - random()) >= leftMs && scaleMs > 0;
}

/** Returns before when an entry is not due for an early refresh. */
export const earliestRefreshAt = (
  { freshUntilAt, loadMs }: Pick<Entry, "freshUntilAt" | "loadMs">,
  { earlyRefreshBeta }: Pick<Policy, "earlyRefreshBeta">,
): number => freshUntilAt - MAX_NEGATIVE_LOG * loadMs * earlyRefreshBeta;

/** At least `-Math.log(1 - random())`, of 53 bits. Skips the logarithm for most entries. */
const MAX_NEGATIVE_LOG = 37;

/**
 * Returns how long the store keeps a value. Undefined: it never expires. Lengthened by a random
 * share, so that a server does not have to drop values that were stored together all at once. The
 * age of a value, not its presence, decides whether it is served. Whole milliseconds, as stores
 * expect them.
 */
export const valueTtlMs = (policy: Policy, maxAgeMs: number, random: number): number | undefined =>
  policy.neverExpires
    ? undefined
    : Math.ceil(
        maxAgeMs * (1 + policy.jitterRatio * random) + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs),
      );
