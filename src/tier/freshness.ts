import type { Random } from "../clock.js";
import type { Policy } from "../policy/policy.js";
import type { Entry } from "../store/entry.js";

/**
 * What a reader may do with an entry.
 * `fresh`: serve it. `stale-while-revalidate`: serve it and see that it is refreshed. `stale-if-error`: load; serve it should that fail.
 * `stale-backoff`: stale, and the last refresh failed; serve it, the next refresh waits until `freshUntilAt`. The rest: as the entry says.
 */
export type Freshness =
  | "fresh"
  | "stale-while-revalidate"
  | "stale-if-error"
  | "stale-backoff"
  | "absent"
  | "pending"
  | "failed"
  | "uncacheable"
  | "write-in-progress";

/**
 * Says what a reader whose tags have `signature` may do with `entry` at `now`, the store's time.
 * A boundary instant belongs to the later state: at `freshUntilAt` exactly, the entry is stale. An entry made under other tag tagVersions is absent,
 * unless it is a writeMark. Whatever else the entry says, a value older than maxAge and its longest window is absent.
 * Source: RFC 9111 §4.2, RFC 5861 §3 and §4.
 */
export function evaluateFreshness(entry: Entry | undefined, policy: Policy, now: number, signature: string): Freshness {
  if (entry === undefined) return "absent";
  if (entry.state === "write-in-progress") return now < entry.untilAt ? "write-in-progress" : "absent";
  if (entry.signature !== signature) return "absent";
  if (entry.state === "pending") return "pending";
  if (entry.state !== "value") return now < entry.untilAt ? entry.state : "absent";
  if (policy.neverExpires && now < entry.freshUntilAt) return entry.hasRefreshFailed ? "stale-backoff" : "fresh";
  if (policy.neverExpires) return "stale-while-revalidate";
  const pastMaxAgeMs = now - entry.grantedAt - policy.maxAgeMs;
  const { staleWhileRevalidateMs, staleIfErrorMs } = policy;
  if (
    entry.hasRefreshFailed &&
    now < entry.freshUntilAt &&
    pastMaxAgeMs < Math.max(staleWhileRevalidateMs, staleIfErrorMs)
  )
    return "stale-backoff";
  // A policy that has become shorter since the value was stored counts at once.
  if (!entry.hasRefreshFailed && now < entry.freshUntilAt && pastMaxAgeMs < 0) return "fresh";
  // Outdated on demand, or by a policy that has become shorter, a value may be younger than its maxAge.
  const isByAge = entry.hasRefreshFailed || entry.freshUntilAt === 0;
  const staleMs = isByAge ? pastMaxAgeMs : Math.max(pastMaxAgeMs, now - entry.freshUntilAt);
  if (staleMs < staleWhileRevalidateMs) return "stale-while-revalidate";
  return staleMs < staleIfErrorMs ? "stale-if-error" : "absent";
}

/**
 * Whether a fresh entry is to be refreshed before its time, by chance, the sooner the longer its load takes.
 * Source: Vattani, Chierichetti, Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015, algorithm 2.
 */
export function isDueEarly(entry: Entry, policy: Policy, now: number, random: Random): boolean {
  const leftMs = entry.freshUntilAt - now;
  const scaleMs = entry.loadMs * policy.earlyRefreshBeta;
  return leftMs <= MOST * scaleMs && -scaleMs * Math.log(1 - random()) >= leftMs && scaleMs > 0;
}

/** Chance does not reach further: of a number with 53 bits the logarithm is 37 at most. */
const MOST = 37;
