import { dateOf } from "../../core/base/clock.js";
import { CachedError } from "../../core/base/errors.js";
import { tagTextsOf } from "../../core/directive/compile/field-rule.js";
import {
  checkInvalidationTarget,
  keyOfCoordinate,
  targetOfCoordinate,
} from "../../core/directive/invalidation/invalidation-target.js";
import { type Key, nameOfSubject, type Subject } from "../../core/keys/key.js";
import type { LoaderRule } from "../../core/loader/loader-options.js";
import { keyOfLoader } from "../../core/loader/loader-target.js";
import type { CacheParts } from "../../core/parts.js";
import type { Entry } from "../../core/store/entry.js";
import { begunAt, holderOf } from "../../core/store/transitions.js";
import { partsIn } from "../../core/tier/entry/entry-decoder.js";
import { evaluateFreshness, type Freshness, freshEndOf, ownPolicy } from "../../core/tier/entry/freshness.js";
import { implausibilityOf } from "../../core/tier/entry/plausible.js";
import { prepareFor } from "../../core/tier/request/verdict.js";
import type { InvalidatingKind } from "../../core/tier/shared/known-positions.js";
import type {
  CacheEntry,
  CacheEntryLease,
  CacheEntryReason,
  CacheEntryReasonCode,
  CacheEntryState,
  CacheEntryTag,
  CacheEntryUse,
  CacheEvent,
  CacheInspectionEntryArgs,
} from "../../generated/schema.js";

/**
 * Describes the entry of a field or loader as the store has it, evaluated as a reader would. Reads
 * only, and counts as no read. `events`: those of all processes, to find who has invalidated it.
 *
 * Rejects with `CACHED_OPTION_INVALID`, `CACHED_COORDINATE_UNKNOWN` or `CACHED_KEY_UNUSABLE` if
 * `args` name no entry, and with `CACHED_STORE_UNAVAILABLE`.
 */
export async function describeEntry(
  parts: CacheParts,
  args: CacheInspectionEntryArgs,
  events: () => Promise<readonly CacheEvent[]>,
): Promise<CacheEntry> {
  const place = placeOf(parts, args);
  const { key } = place;
  const read = await parts.store.read([key.name]);
  const [reading] = read.readings;
  if (reading?.kind !== "read" || !(await prepareFor(read, parts))) {
    const mistake = "cacheInspection.entry: the store did not reply; check the store";
    throw new CachedError("CACHED_STORE_UNAVAILABLE", mistake);
  }
  const { entry, now } = reading;
  const stored = entry?.state === "value" ? entry : undefined;
  const value = stored && valueIn(parts, place, stored, now);
  const ways = waysOf(parts, place, value?.subjects ?? []);
  const found = reasonsOf(parts, { key, entry, now, value, ways });
  const use = value !== undefined && found.every(({ reason }) => SERVABLE.has(reason)) ? useOf(value) : "NONE";
  const leftMs = stored && (stored.freshUntilAt === 0 ? 0 : stored.freshUntilAt - now);
  const known = found.some(({ way }) => way !== undefined) ? await events() : [];
  // The store's clock need not be one of the day.
  const toDate = (at: number): string => dateOf(parts.clock, parts.clock.now() - (now - at));
  return {
    state: (entry?.state ?? "absent").toUpperCase() as CacheEntryState,
    use,
    reasons: found.map(({ reason, sinceAt, way, kind }): CacheEntryReason => {
      const since = sinceAt === undefined ? null : toDate(sinceAt);
      const event = way && since !== null ? eventAt(known, way.subjects, kind === "soft", since) : undefined;
      const tag = way?.reason === "TAG_INVALIDATED" ? (way.text ?? way.digest) : null;
      return { reason, since, tag, invalidation: event ?? null };
    }),
    negative: entry?.isNegative === true,
    ageMs: stored === undefined ? null : now - stored.grantedAt,
    freshForMs: leftMs === undefined ? null : use === "FRESH" ? (value as Value).staleAt - now : Math.min(leftMs, 0),
    servableForMs: use === "NONE" || value?.endsAt === undefined ? null : value.endsAt - now,
    loadMs: stored?.loadMs ?? null,
    storedBytes: stored?.body.byteLength ?? null,
    tags: tagsIn(ways).map(({ text = null, digest, hard, soft }): CacheEntryTag => {
      const last = Math.max(hard, soft);
      const invalidatedAt = last === 0 ? null : toDate(Math.floor(last / 1000));
      return { text, digest, invalidatedAt, isSoft: soft > hard };
    }),
    lease: entry === undefined || entry.gen === "" || entry.untilAt <= now ? null : leaseOf(entry, now, toDate),
    variant: key.variantId,
    digest: key.digest,
  };
}

function placeOf(parts: CacheParts, args: CacheInspectionEntryArgs) {
  // A client passes null for a variable that it does not set.
  const given = Object.entries(args).filter(([, value]) => value !== undefined && value !== null);
  const target = targetOfCoordinate(parts, { ...Object.fromEntries(given), coordinate: args.coordinate });
  checkInvalidationTarget(target, "cacheInspection.entry");
  if (!("loader" in target)) {
    const { key, rule, roots } = keyOfCoordinate(parts, target);
    return { key, policy: rule.policy, tagTexts: tagTextsOf(rule, roots, parts.keys) };
  }
  const loader = parts.loaders.get(target.loader) as LoaderRule;
  return { key: keyOfLoader(loader, target), policy: loader.policy, tagTexts: loader.tagTextsOf(target.id) };
}

type Place = ReturnType<typeof placeOf>;

/** Undefined if it cannot be read. */
function valueIn({ invalidations, packing, longestMs }: CacheParts, { key, policy }: Place, entry: Entry, now: number) {
  const isPlausible = implausibilityOf(entry, now, invalidations, longestMs) === undefined;
  const parts = isPlausible ? partsIn(entry, key, packing) : undefined;
  if (parts === undefined) return undefined;
  const { subjects } = parts;
  const freshness = evaluateFreshness(entry, policy, now, () => parts.freshness);
  const isSoft =
    invalidations.stateOf(subjects, entry.position) === "stale" ||
    invalidations.isSoftlyInvalidated(entry.position, key) ||
    (entry.freshUntilAt === 0 && !entry.hasRefreshFailed);
  const own = parts.freshness === undefined ? policy : ownPolicy(policy, parts.freshness);
  const byAge = entry.grantedAt + own.maxAgeMs;
  const staleAt =
    entry.hasRefreshFailed || entry.freshUntilAt === 0 ? byAge : freshEndOf(entry, policy, parts.freshness);
  /** When it is not served any more. Undefined: never. */
  const endsAt = own.neverExpires ? undefined : staleAt + Math.max(own.staleWhileRevalidateMs, own.staleIfErrorMs);
  return { subjects, freshness, isSoft, staleAt, endsAt };
}

type Value = NonNullable<ReturnType<typeof valueIn>>;

/** One way to invalidate an entry, and the positions at which it last was; 0: not in the log. */
interface Way extends Readonly<Record<InvalidatingKind, number>> {
  readonly reason: CacheEntryReasonCode;
  readonly subjects: readonly Subject[];
  readonly digest: string;
  /** That of a tag, unless it is derived from the value. */
  readonly text?: string | undefined;
}

/** `ofValue`: the tags that are stored with the value. */
function waysOf({ keys, invalidations }: CacheParts, { key, tagTexts }: Place, ofValue: readonly Subject[]) {
  const wayOf = (reason: CacheEntryReasonCode, subjects: readonly Subject[], text?: string): Way => ({
    reason,
    subjects,
    digest: nameOfSubject(subjects[0] as Subject),
    text,
    hard: invalidations.lastOf("hard", subjects),
    soft: invalidations.lastOf("soft", subjects),
  });
  const { everything, coordinate, entry } = keys.subjects;
  const known = tagTexts.map((text) => wayOf("TAG_INVALIDATED", keys.tags([text]), text));
  const own = new Set(known.flatMap(({ subjects }) => subjects));
  return [
    wayOf("CLEARED", [everything]),
    wayOf("FIELD_INVALIDATED", [coordinate(key.coordinate), ...invalidations.otherFormsOf(key)]),
    wayOf("KEY_INVALIDATED", [entry(key)]),
    ...known,
    ...ofValue.filter((subject) => !own.has(subject)).map((subject) => wayOf("TAG_INVALIDATED", [subject])),
  ];
}

const tagsIn = (ways: readonly Way[]): readonly Way[] => ways.filter(({ reason }) => reason === "TAG_INVALIDATED");

interface Found {
  readonly reason: CacheEntryReasonCode;
  /** On the store's clock. */
  readonly sinceAt?: number | undefined;
  readonly way?: Way;
  readonly kind?: InvalidatingKind;
}

interface Shown {
  readonly key: Key;
  readonly entry: Entry | undefined;
  readonly now: number;
  readonly value: Value | undefined;
  readonly ways: readonly Way[];
}

/** Returns why an entry is not served as a fresh one, the reason that decides first. */
function reasonsOf({ invalidation, invalidations, clock }: CacheParts, shown: Shown): readonly Found[] {
  const { key, entry, now, value, ways } = shown;
  const subjects = tagsIn(ways).flatMap((tag) => tag.subjects);
  const found: Found[] = [];
  if (invalidation.unconfirmed.has(key, { subjects })) {
    const sinceAt = invalidation.unconfirmedSinceAt;
    found.push({ reason: "UNCONFIRMED", sinceAt: sinceAt && now - (clock.now() - sinceAt) });
  }
  if (invalidations.isWritten({ key, tags: { subjects } }, now)) found.push({ reason: "WRITE_IN_PROGRESS" });
  const after = entry?.position ?? 0;
  const invalidatedBy = (kind: InvalidatingKind, reason?: CacheEntryReasonCode): Found[] =>
    ways
      .filter((way) => way[kind] > after)
      .sort((a, b) => a[kind] - b[kind])
      .map((way) => ({ reason: reason ?? way.reason, sinceAt: Math.floor(way[kind] / 1000), way, kind }));
  if (entry === undefined)
    return [...found, ...invalidatedBy("hard").filter(({ reason }) => reason === "KEY_INVALIDATED")];
  const isCurrent =
    invalidations.counts(entry, key) &&
    entry.position >= invalidations.latestOf(subjects) &&
    invalidations.stateOf(value?.subjects ?? [], entry.position) !== "changed";
  const hard = isCurrent ? [] : invalidatedBy("hard");
  found.push(...hard);
  if (!isCurrent && hard.length === 0) found.push({ reason: "INVALIDATIONS_LOST" });
  if (entry.state === "pending") return [...found, { reason: "LOADING", sinceAt: begunAt(entry.gen) }];
  if (entry.state !== "value") {
    if (now >= entry.untilAt) return [...found, { reason: "EXPIRED", sinceAt: entry.untilAt }];
    return [...found, { reason: entry.state === "failed" ? "FAILED" : "UNCACHEABLE" }];
  }
  if (value === undefined) return [...found, { reason: "UNREADABLE" }];
  if (value.isSoft) {
    const softly = invalidatedBy("soft", "SOFTLY_INVALIDATED");
    // Of a value that was invalidated by its tag, a load has ended the freshness as well.
    found.push(...(softly.length === 0 && isCurrent ? [{ reason: "SOFTLY_INVALIDATED" } as const] : softly));
  }
  const isFresh = value.freshness === "fresh" || (value.isSoft && entry.freshUntilAt === 0);
  if (value.freshness === "stale-backoff") found.push({ reason: "REFRESH_FAILED" });
  else if (!isFresh) found.push({ reason: "EXPIRED", sinceAt: Math.min(value.staleAt, now) });
  return found;
}

/** The reasons for which a value is stale and can still be served. */
const SERVABLE: ReadonlySet<CacheEntryReasonCode> = new Set(["SOFTLY_INVALIDATED", "EXPIRED", "REFRESH_FAILED"]);

const USES: Readonly<Partial<Record<Freshness, CacheEntryUse>>> = {
  fresh: "FRESH",
  "stale-while-revalidate": "STALE",
  "stale-backoff": "STALE",
  "stale-if-error": "STALE_IF_ERROR",
};

const useOf = ({ freshness, isSoft }: Value): CacheEntryUse =>
  freshness === "fresh" && isSoft ? "STALE" : (USES[freshness] ?? "NONE");

/** Returns the invalidation that has named one of the subjects at about that time. */
function eventAt(
  events: readonly CacheEvent[],
  subjects: readonly Subject[],
  isSoft: boolean,
  date: string,
): CacheEvent | undefined {
  const names = new Set(subjects.map(nameOfSubject));
  const distanceOf = ({ at }: CacheEvent): number => Math.abs(Date.parse(at) - Date.parse(date));
  return events
    .filter(
      (event) =>
        distanceOf(event) <= CLOCK_ERROR_MS &&
        (event.invalidation?.kind === "SOFT") === isSoft &&
        event.invalidation?.tags.some((name) => names.has(name)) === true,
    )
    .sort((a, b) => distanceOf(a) - distanceOf(b))[0];
}

/** Between a process and the store, with the time that an invalidation takes. */
const CLOCK_ERROR_MS = 10_000;

function leaseOf({ token = "", gen, untilAt, hasWaiters = false }: Entry, now: number, toDate: (at: number) => string) {
  const since = begunAt(gen);
  const isTime = since < now + MAX_CLOCK_ERROR_MS && since > now - MAX_LEASE_MS;
  return {
    process: token === "" ? null : Buffer.from(holderOf(token), "latin1").toString("hex"),
    since: isTime ? toDate(Math.min(since, now)) : null,
    endsInMs: untilAt - now,
    hasWaiters,
  } satisfies CacheEntryLease;
}

/** The `gen` of a lease that would be held for longer does not begin with a time. */
const MAX_LEASE_MS = 24 * 3_600_000;
/** Two processes may take the time of a store for different ones: by a second on memcached. */
const MAX_CLOCK_ERROR_MS = 5_000;
