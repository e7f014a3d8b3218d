import type { Random } from "../clock.js";
import type { Packing } from "../codec/packing.js";
import type { Policy } from "../policy/policy.js";
import type { OwnFreshness } from "../store/body.js";
import { type Entry, isForWaiters } from "../store/entry.js";
import type { StoreRead } from "../store/store.js";
import type { ControlRecord, EntryIdentity } from "./control-record.js";
import { readOwnFreshness } from "./entry-decoder.js";
import type { InvalidationClock } from "./invalidation-clock.js";
import type { LoadedValue } from "./loaded.js";
import type { ReadRequest, ReadResult } from "./request.js";

/**
 * What a reader may do with an entry.
 *
 * - `fresh`: serve it.
 * - `stale-while-revalidate`: serve it and start a refresh.
 * - `stale-if-error`: load; serve it if the load fails.
 * - `stale-backoff`: serve it. The last refresh failed, and the next one waits until
 *   `freshUntilAt`.
 * - `absent`: load.
 * - the rest: see `EntryState`.
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
 * Returns what the request may do with the result of its read. Undefined if the store did not
 * reply.
 */
export function freshnessOf(
  request: ReadRequest,
  { reading }: Pick<ReadResult, "reading">,
  { control, invalidations, packing }: FreshnessParts,
): Freshness | undefined {
  if (reading.kind === "failed") return undefined;
  const { entry, now } = reading;
  if (entry !== undefined) {
    const signature = control.signatureOf(request.key);
    // Without a listed variant nothing can be served.
    const counts = signature !== undefined && invalidations.counts(entry, request.key);
    const freshness = counts ? freshnessUnder(request, entry, now, signature, packing) : "absent";
    if (isServable(freshness)) return freshness;
    return unservedFreshness(request, entry, freshness, now, invalidations);
  }
  return unservedFreshness(request, entry, "absent", now, invalidations);
}

/** Of an error: what was read cannot be evaluated. */
export const UNPREPARED = "the control record or the invalidation clock could not be read";

/**
 * Reads the control record and the invalidation clock before entries are evaluated that were read with other versions of them.
 * Resolves to false if that could not be done in time. `sentAt`: when the read was sent, on the clock of this process. Never rejects.
 */
export async function prepareFor(
  { controlVersion, clock }: Pick<StoreRead, "controlVersion" | "clock">,
  keys: readonly EntryIdentity[],
  sentAt: number,
  { control, invalidations }: Pick<FreshnessParts, "control" | "invalidations">,
): Promise<boolean> {
  const [isListed, isCaughtUp] = await Promise.all([
    control.isReady(controlVersion) || control.prepare(controlVersion, keys, sentAt),
    invalidations.isAt(clock) || invalidations.catchUp(clock),
  ]);
  return isListed && isCaughtUp;
}

/**
 * Returns whether nothing that a request has to heed was invalidated after `position`: that of an entry, or of the lease on it. It heeds
 * the tags that it knows without the value.
 */
export const isCurrentAt = (
  { key, tags }: Pick<ReadRequest, "key" | "tags">,
  { signature, epoch }: Entry,
  position: number,
  { control, invalidations }: Pick<FreshnessParts, "control" | "invalidations">,
): boolean =>
  signature === control.signatureOf(key) &&
  invalidations.counts({ epoch, position }, key) &&
  position >= invalidations.latestOf(tags.subjects);

/** The parts that decide about freshness. */
export interface FreshnessParts {
  readonly control: ControlRecord;
  readonly invalidations: InvalidationClock;
  readonly packing: Packing;
}

function freshnessUnder(
  request: ReadRequest,
  entry: Entry,
  now: number,
  signature: string,
  packing: Packing,
): Freshness {
  const byPolicy = evaluateFreshness(entry, request.policy, now, signature);
  return byPolicy === "fresh" ? byPolicy : ownFreshnessOf(request, entry, now, signature, packing);
}

/**
 * Returns what the request may do with an entry that is not served to it, by its own tags: nothing is loaded under a lease while it or one of
 * them is written, and a load, a failure or a stale value from before one was invalidated is none.
 */
export function unservedFreshness(
  request: Pick<ReadRequest, "key" | "tags">,
  entry: Entry | undefined,
  freshness: Freshness,
  now: number,
  invalidations: InvalidationClock,
): Freshness {
  if (invalidations.isWritten(request, now)) return "write-in-progress";
  const { subjects } = request.tags;
  if (entry === undefined || subjects.length === 0) return freshness;
  return entry.position < invalidations.latestOf(subjects) ? "absent" : freshness;
}

function ownFreshnessOf(
  { key, policy }: ReadRequest,
  entry: Entry | undefined,
  now: number,
  signature: string,
  packing: Packing,
): Freshness {
  return evaluateFreshness(entry, policy, now, signature, (value) => readOwnFreshness(value, key, packing));
}

const NOTHING_SET = (): undefined => undefined;

/** Returns whether an entry may be served without waiting for a load. */
export const isServable = (freshness: Freshness | undefined): boolean =>
  freshness === "fresh" || freshness === "stale-while-revalidate" || freshness === "stale-backoff";

/**
 * Returns what a reader under `signature` may do with `entry` at `now`, the store's time.
 *
 * A boundary belongs to the later state: exactly at `freshUntilAt`, the entry is stale. An entry
 * with another signature is absent. A value older than `maxAge` plus
 * the longest stale window is absent, no matter what the entry says.
 *
 * `ownOf` returns what the load of a value has set. It is called only if the value is not fresh by the
 * policy: `freshUntilAt` contains a shorter `maxAge`.
 *
 * Source: RFC 9111 §4.2, RFC 5861 §3 and §4.
 */
export function evaluateFreshness(
  entry: Entry | undefined,
  policy: Policy,
  now: number,
  signature: string,
  ownOf: (entry: Entry) => OwnFreshness | undefined = NOTHING_SET,
): Freshness {
  if (entry === undefined) return "absent";
  if (entry.signature !== signature) return "absent";
  if (entry.state === "pending") return "pending";
  if (entry.state !== "value") return now < entry.untilAt ? entry.state : "absent";
  if (isForWaiters(entry)) return "absent";
  const freshness = valueFreshness(entry, policy, now);
  if (freshness === "fresh" || (freshness === "absent" && policy.maxAgeLimitMs === undefined)) return freshness;
  const own = ownOf(entry);
  return own === undefined ? freshness : valueFreshness(entry, ownPolicy(policy, own), now);
}

function valueFreshness(entry: Entry, policy: Policy, now: number): Freshness {
  const { hasRefreshFailed } = entry;
  const isBeforeEnd = now < entry.freshUntilAt;
  if (policy.neverExpires)
    return isBeforeEnd ? (hasRefreshFailed ? "stale-backoff" : "fresh") : "stale-while-revalidate";
  const pastMaxAgeMs = now - entry.grantedAt - policy.maxAgeMs;
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

/** Returns the policy of one value: that of its field or loader with what its load has set. */
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

/** Returns how long a loaded value is fresh, before jitter. 0: it is not stored. */
export function freshMsOf(policy: Policy, { value, settings, hint }: LoadedValue): number {
  if (settings?.isSkipped === true) return 0;
  const ofKindMs = isNegative(value) ? policy.negativeMaxAgeMs : policy.maxAgeMs;
  const hintedMs = policy.followsHints === true ? (hint?.maxAge ?? Number.POSITIVE_INFINITY) * 1000 : ofKindMs;
  const byPolicyMs = Math.min(ofKindMs, hintedMs);
  const ownMs = settings?.freshness?.maxAgeMs;
  return ownMs === undefined ? byPolicyMs : Math.min(ownMs, policy.maxAgeLimitMs ?? byPolicyMs);
}

/** Returns whether a value counts as empty: null, undefined or an empty list. */
export const isNegative = (value: unknown): boolean =>
  value === null || value === undefined || (Array.isArray(value) && value.length === 0);

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

/**
 * The upper bound of `-Math.log(1 - random())`: a random number has 53 bits. Skips the logarithm
 * for most entries.
 */
const MAX_NEGATIVE_LOG = 37;
