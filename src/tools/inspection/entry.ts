import { keyOfCoordinate } from "../../core/directive/compile/coordinate-key.js";
import { tagsOf, tagTextsOf } from "../../core/directive/compile/field-rule.js";
import {
  checkInvalidationTarget,
  keyOfLoader,
  targetOfCoordinate,
} from "../../core/directive/invalidation/invalidation-target.js";
import type { Key } from "../../core/keys/key.js";
import type { LoaderRule } from "../../core/loader/loader-rule.js";
import type { Entry } from "../../core/store/entry.js";
import { begunAt, holderOf } from "../../core/store/transitions.js";
import type { RememberedInvalidations } from "../../core/tier/invalidation/invalidation-history.js";
import { prepareFor } from "../../core/tier/request/verdict.js";
import type {
  CacheEntry,
  CacheEntryLease,
  CacheEntryReason,
  CacheEntryState,
  CacheEntryUse,
  CacheInspectionEntryArgs,
} from "../../generated/schema.js";
import { evaluateEntry, type NotFresh, type Place, removed, type ValueState, writeOf } from "./evaluation.js";
import type { InspectedParts } from "./inspected-parts.js";
import { isProcessState } from "./process-state.js";
import {
  causeOf,
  datesOf,
  describeCause,
  readInvalidations,
  shownProcess,
  shownRecord,
  storeUnavailable,
} from "./provenance.js";

/**
 * Describes the entry of a field or loader as the store has it. Null if there is none, it is not being written, and no
 * invalidation is remembered that has removed it. Reads only, and counts as no read.
 *
 * Rejects with `CACHED_OPTION_INVALID`, `CACHED_COORDINATE_UNKNOWN` or `CACHED_KEY_UNUSABLE` if `args` name no
 * entry, and with `CACHED_STORE_UNAVAILABLE`.
 */
export async function describeEntry(parts: InspectedParts, args: CacheInspectionEntryArgs): Promise<CacheEntry | null> {
  const place = placeOf(parts, args);
  const { key } = place;
  const read = await parts.store.read([key.name]);
  const [reading] = read.readings;
  if (reading?.kind !== "read" || !(await prepareFor(read, parts))) throw storeUnavailable();
  const { entry, now } = reading;
  if (entry === undefined) return describeAbsent(parts, place, now);
  const { isOutdated, value, notFresh } = await evaluateEntry(parts, { place, entry, now });
  const isValue = entry.state === "value";
  const isUnreadable = isValue && value === undefined;
  const isStale = value !== undefined && (value.freshness !== "fresh" || value.isSoft);
  const isLeased = entry.gen !== "" && entry.untilAt > now;
  const remembered =
    notFresh === undefined && !isLeased ? undefined : await readInvalidations(parts).catch(() => undefined);
  const isServable = notFresh === undefined || SERVABLE.has(notFresh.reason);
  const use = isServable && value !== undefined ? useOf(value) : "NONE";
  // A soft invalidation by key has put 0 in the place of the instant.
  const freshForMs = entry.freshUntilAt === 0 ? 0 : entry.freshUntilAt - now;
  return {
    ...explanationOf(parts, notFresh, remembered),
    ...describePlace(place, value?.resultTags.length ?? 0),
    state: entry.state.toUpperCase().replaceAll("-", "_") as CacheEntryState,
    use,
    negative: entry.isNegative,
    ageMs: isValue ? now - entry.grantedAt : 0,
    freshForMs: value === undefined ? 0 : isStale ? Math.min(freshForMs, 0) : freshForMs,
    servableForMs: use === "NONE" || value?.endsAt === undefined ? null : value.endsAt - now,
    loadMs: entry.loadMs,
    valueBytes: isValue ? entry.body.byteLength : 0,
    leaseForMs: isLeased ? entry.untilAt - now : null,
    lease: isLeased ? await leaseOf(parts, key, entry, now, remembered) : null,
    outdated: isOutdated || isUnreadable || value?.tagsState === "changed",
    stale: isStale,
  };
}

interface NamedPlace extends Place {
  readonly tagTexts: readonly string[];
}

/** Describes an entry that is being written, or that an invalidation has removed. Null if none is remembered. */
async function describeAbsent(parts: InspectedParts, place: NamedPlace, now: number): Promise<CacheEntry | null> {
  const remembered = await readInvalidations(parts).catch(() => undefined);
  const written = writeOf(parts, place, place.tags.subjects, now);
  const notFresh = written ?? removed(place.key);
  if (written === undefined && (remembered === undefined || causeOf(remembered, notFresh.cause) === undefined))
    return null;
  return {
    ...explanationOf(parts, notFresh, remembered),
    ...describePlace(place, 0),
    state: "ABSENT",
    use: "NONE",
    negative: false,
    ageMs: 0,
    freshForMs: 0,
    servableForMs: null,
    loadMs: 0,
    valueBytes: 0,
    leaseForMs: null,
    lease: null,
    outdated: false,
    stale: false,
  };
}

const describePlace = (
  { key, tagTexts }: NamedPlace,
  resultCount: number,
): Pick<CacheEntry, "tags" | "variant" | "digest"> => ({
  tags: tagTexts.length + resultCount === 0 ? null : { static: tagTexts, resultCount },
  variant: key.variantId,
  digest: key.digest,
});

/** The reasons for which a value is stale and can still be served. */
const SERVABLE: ReadonlySet<CacheEntryReason> = new Set(["SOFTLY_INVALIDATED", "EXPIRED", "REFRESH_FAILED"]);

const SENTENCES: Readonly<Record<CacheEntryReason, string>> = {
  REMOVED:
    "The store has no entry, and the last invalidation that removed one is remembered; a value that was loaded since would have expired or been evicted.",
  CLEARED: "Everything under the prefix was invalidated after its load began.",
  FIELD_INVALIDATED:
    "Its field or loader was invalidated as a whole after its load began, or one of its entries by a release with other keys.",
  INVALIDATIONS_LOST:
    "The store has lost its record of invalidations since its load began, or that does not go back as far any more.",
  TAG_INVALIDATED: "One of its tags was invalidated after its load began.",
  RESULT_TAG_INVALIDATED: "One of the tags derived from its value was invalidated after its load began.",
  SOFTLY_INVALIDATED: "It was invalidated softly after its load began, and is served until it has been loaded again.",
  WRITE_IN_PROGRESS: "A write to it, or to one of its tags, is in progress, so nothing is stored.",
  UNCONFIRMED:
    "This process has invalidated it and does not read it from the store until the store has confirmed that.",
  EXPIRED: "Its maxAge is over, or the time for which its state lasts.",
  REFRESH_FAILED: "Its maxAge is over and its last refresh has failed; the next one waits for a moment.",
  LOADING: "It is being loaded, or what was loaded is being stored; there is no older value.",
  FAILED: "Its last load has failed; callers get its error until the next one starts.",
  UNCACHEABLE:
    "Its last value could not be stored, or its load has skipped that; callers load for themselves for a moment.",
  UNREADABLE: "The stored bytes cannot be read as a value of this key.",
};

function explanationOf(
  parts: InspectedParts,
  notFresh: NotFresh | undefined,
  remembered: RememberedInvalidations | undefined,
): Pick<CacheEntry, "reason" | "explanation" | "invalidation"> {
  if (notFresh === undefined)
    return { reason: null, explanation: "It is fresh and will be served.", invalidation: null };
  const { reason, cause } = notFresh;
  const sentence = SENTENCES[reason];
  if (cause === undefined) return { reason, explanation: sentence, invalidation: null };
  if (remembered === undefined)
    return { reason, explanation: `${sentence} The log of invalidations could not be read.`, invalidation: null };
  const toDate = datesOf(parts.clock, remembered.now);
  const found = causeOf(remembered, cause);
  if (found === undefined) {
    const explanation = `${sentence} The cause is not among the invalidations that are remembered${remembered.isOwnOnly ? " of this process" : ""}, which reach back to ${toDate(remembered.since)}.`;
    return { reason, explanation, invalidation: null };
  }
  const invalidation = shownRecord(found.record, toDate, parts);
  return { reason, explanation: `${sentence} ${describeCause(found, toDate)}`, invalidation };
}

const USES: Readonly<Partial<Record<ValueState["freshness"], CacheEntryUse>>> = {
  fresh: "FRESH",
  "stale-while-revalidate": "STALE",
  "stale-backoff": "STALE",
  "stale-if-error": "STALE_IF_ERROR",
};

const useOf = ({ freshness, isSoft }: ValueState): CacheEntryUse =>
  freshness === "fresh" && isSoft ? "STALE" : (USES[freshness] ?? "NONE");

/** The holder is known by its report, or by what it has invalidated lately. */
async function leaseOf(
  { processId, clock, fleet }: InspectedParts,
  { coordinate, digest }: Key,
  { token = "", gen, untilAt, hasWaiters = false }: Entry,
  now: number,
  remembered: RememberedInvalidations | undefined,
): Promise<CacheEntryLease> {
  const id = Buffer.from(holderOf(token), "latin1").toString("hex");
  const reported = (await fleet.processes()).find((process) => process.id === id);
  const known = reported ?? remembered?.processes.get(id);
  const leases = isProcessState(reported?.state) ? reported.state.leases.oldest : [];
  const own = leases.find((lease) => lease.coordinate === coordinate && lease.digest === digest);
  const since = begunAt(gen);
  const isTime = since < now + MAX_CLOCK_ERROR_MS && since > now - MAX_LEASE_MS;
  return {
    process: token === "" ? null : shownProcess(known ?? { id }, processId),
    since: isTime ? datesOf(clock, now)(Math.min(since, now)) : null,
    endsInMs: untilAt - now,
    hasWaiters,
    waiters: own?.waiters ?? null,
  };
}

/** A lease that would be held for longer, or begin later, is one whose `gen` does not begin with a time. */
const MAX_LEASE_MS = 24 * 3_600_000;
/** By how much two processes may take the time of a store for different ones: a second on memcached. */
const MAX_CLOCK_ERROR_MS = 5_000;

function placeOf(parts: InspectedParts, args: CacheInspectionEntryArgs): NamedPlace {
  const caller = "cacheInspection.entry";
  // A client passes null for a variable that it does not set.
  const given = Object.entries(args).filter(([, value]) => value !== undefined && value !== null);
  const target = targetOfCoordinate(parts, { ...Object.fromEntries(given), coordinate: args.coordinate });
  checkInvalidationTarget(target, caller);
  if (!("loader" in target)) {
    const { key, rule, roots, identity } = keyOfCoordinate(parts, target);
    const tags = tagsOf(rule, roots, identity, parts.keys);
    return { key, policy: rule.policy, tags, tagTexts: tagTextsOf(rule, roots, parts.keys) };
  }
  const loader = parts.loaders.get(target.loader) as LoaderRule;
  const { id } = target;
  const key = keyOfLoader(loader, target);
  return { key, policy: loader.policy, tags: loader.tagsOf(id), tagTexts: loader.tagTextsOf(id) };
}
