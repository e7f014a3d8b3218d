import { dateOf } from "../../core/base/clock.js";
import { CachedError } from "../../core/base/errors.js";
import { keyOfCoordinate } from "../../core/directive/compile/coordinate-key.js";
import { tagTextsOf } from "../../core/directive/compile/field-rule.js";
import {
  checkInvalidationTarget,
  keyOfLoader,
  targetOfCoordinate,
} from "../../core/directive/invalidation/invalidation-target.js";
import { type Key, nameOfSubject, type Subject } from "../../core/keys/key.js";
import type { LoaderRule } from "../../core/loader/loader-rule.js";
import type { CacheParts } from "../../core/parts.js";
import type { Policy } from "../../core/policy/policy.js";
import type { Entry } from "../../core/store/entry.js";
import { type BodyParts, readBody } from "../../core/store/entry-layout.js";
import { begunAt, holderOf } from "../../core/store/transitions.js";
import { valueAad } from "../../core/tier/entry/entry-decoder.js";
import { evaluateFreshness, type Freshness, ownPolicy } from "../../core/tier/entry/freshness.js";
import { isPlausible } from "../../core/tier/entry/plausible.js";
import { prepareFor } from "../../core/tier/request/verdict.js";
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
 * Describes the entry of a field or loader as the store has it, evaluated as a reader would. Reads only, and counts as no read. `events`:
 * those of all processes, to find who has invalidated it.
 *
 * Rejects with `CACHED_OPTION_INVALID`, `CACHED_COORDINATE_UNKNOWN` or `CACHED_KEY_UNUSABLE` if `args` name no
 * entry, and with `CACHED_STORE_UNAVAILABLE`.
 */
export async function describeEntry(
  parts: CacheParts,
  args: CacheInspectionEntryArgs,
  events: () => Promise<readonly CacheEvent[]>,
): Promise<CacheEntry> {
  const place = placeOf(parts, args);
  const read = await parts.store.read([place.key.name]);
  const [reading] = read.readings;
  if (reading?.kind !== "read" || !(await prepareFor(read, parts)))
    throw new CachedError(
      "CACHED_STORE_UNAVAILABLE",
      "cacheInspection.entry: the store did not reply; check the store",
    );
  const { entry, now } = reading;
  const isValue = entry?.state === "value";
  const value = isValue ? valueIn(parts, place, entry, now) : undefined;
  const tags = tagsOf(parts, place, value?.body.subjects ?? []);
  const toDate = (at: number): string => isoOf(parts, at, now);
  const found = reasonsOf({ parts, place, entry, now, value, tags });
  const known = found.some(({ position }) => position !== undefined) ? await events() : [];
  const use = found.every(({ reason }) => SERVABLE.has(reason)) && value !== undefined ? useOf(value) : "NONE";
  const isStale = use !== "FRESH";
  const freshForMs = isValue ? (entry.freshUntilAt === 0 ? 0 : entry.freshUntilAt - now) : null;
  return {
    state: (entry?.state ?? "absent").toUpperCase() as CacheEntryState,
    use,
    reasons: found.map(({ reason, position, since, tag, isSoft = false, subjects = [] }): CacheEntryReason => {
      const at = position === undefined ? since : Math.floor(position / 1000);
      const date = at === undefined ? null : toDate(at);
      const by = position === undefined || date === null ? undefined : eventAt(known, subjects, isSoft, date);
      return { reason, since: date, tag: tag?.text ?? tag?.digest ?? null, invalidation: by ?? null };
    }),
    negative: entry?.isNegative === true,
    ageMs: isValue ? now - entry.grantedAt : null,
    freshForMs: freshForMs !== null && isStale ? Math.min(freshForMs, 0) : freshForMs,
    servableForMs: use === "NONE" || value?.endsAt === undefined ? null : value.endsAt - now,
    loadMs: isValue ? entry.loadMs : null,
    storedBytes: isValue ? entry.body.byteLength : null,
    tags: tags.map(({ text, digest, hard, soft }): CacheEntryTag => {
      const last = Math.max(hard, soft);
      const invalidatedAt = last === 0 ? null : toDate(Math.floor(last / 1000));
      return { text: text ?? null, digest, invalidatedAt, isSoft: soft > hard };
    }),
    lease: entry === undefined || entry.gen === "" || entry.untilAt <= now ? null : leaseOf(entry, now, toDate),
    variant: place.key.variantId,
    digest: place.key.digest,
  };
}

interface Place {
  readonly key: Key;
  readonly policy: Policy;
  /** What is known before a load. */
  readonly tagTexts: readonly string[];
}

function placeOf(parts: CacheParts, args: CacheInspectionEntryArgs): Place {
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

/** A value that can be read. */
interface Value {
  readonly body: BodyParts;
  readonly freshness: Freshness;
  readonly isSoft: boolean;
  /** When it is not served any more. Undefined: never. */
  readonly endsAt: number | undefined;
}

function valueIn(parts: CacheParts, { key, policy }: Place, entry: Entry, now: number): Value | undefined {
  const { invalidations, packing, longestMs } = parts;
  const body = isPlausible(entry, now, invalidations, longestMs) ? bodyOf(packing, key, entry) : undefined;
  if (body === undefined) return undefined;
  const freshness = evaluateFreshness(entry, policy, now, () => body.freshness);
  const isSoft =
    invalidations.stateOf(body.subjects, entry.position) === "stale" ||
    invalidations.isSoftlyInvalidated(entry.position, key) ||
    entry.freshUntilAt === 0;
  const own = body.freshness === undefined ? policy : ownPolicy(policy, body.freshness);
  const byAge = entry.grantedAt + own.maxAgeMs;
  const staleAt = entry.hasRefreshFailed || entry.freshUntilAt === 0 ? byAge : Math.min(byAge, entry.freshUntilAt);
  const endsAt = own.neverExpires ? undefined : staleAt + Math.max(own.staleWhileRevalidateMs, own.staleIfErrorMs);
  return { body, freshness, isSoft, endsAt };
}

function bodyOf(packing: CacheParts["packing"], key: Key, entry: Entry): BodyParts | undefined {
  try {
    const body = readBody(packing.unseal(entry.body, valueAad(key, entry)), key);
    return body === "collision" ? undefined : body;
  } catch {
    return undefined;
  }
}

/** A tag, and the positions at which it was last invalidated; 0: not since the log of invalidations goes back. */
interface Tag {
  readonly text?: string;
  readonly digest: string;
  readonly subjects: readonly Subject[];
  readonly hard: number;
  readonly soft: number;
}

function tagsOf({ keys, invalidations }: CacheParts, place: Place, ofValue: readonly Subject[]): readonly Tag[] {
  const tagOf = (subjects: readonly Subject[], text?: string): Tag => ({
    ...(text === undefined ? {} : { text }),
    digest: nameOfSubject(subjects[0] as Subject),
    subjects,
    hard: invalidations.lastOf("hard", subjects),
    soft: invalidations.lastOf("soft", subjects),
  });
  const known = place.tagTexts.map((text) => tagOf(keys.tags([text]), text));
  const own = new Set(known.flatMap(({ subjects }) => subjects));
  return [...known, ...ofValue.filter((subject) => !own.has(subject)).map((subject) => tagOf([subject]))];
}

interface Found {
  readonly reason: CacheEntryReasonCode;
  /** When that was, on the store's clock. */
  readonly since?: number | undefined;
  /** The same for an invalidation, with what it has named. */
  readonly position?: number;
  readonly isSoft?: boolean;
  readonly subjects?: readonly Subject[];
  readonly tag?: Tag;
}

interface Shown {
  readonly parts: CacheParts;
  readonly place: Place;
  readonly entry: Entry | undefined;
  readonly now: number;
  readonly value: Value | undefined;
  readonly tags: readonly Tag[];
}

/** Returns why an entry is not served as a fresh one, the reason that decides first. */
function reasonsOf({ parts, place: { key }, entry, now, value, tags }: Shown): readonly Found[] {
  const { invalidation, invalidations, keys } = parts;
  const subjects = tags.flatMap((tag) => tag.subjects);
  const found: Found[] = [];
  if (invalidation.isUnconfirmed(key, subjects)) {
    const { sinceAt } = invalidation.unconfirmed;
    found.push({ reason: "UNCONFIRMED", since: sinceAt && now - (parts.clock.now() - sinceAt) });
  }
  if (invalidations.isWritten({ key, tags: { subjects } }, now)) found.push({ reason: "WRITE_IN_PROGRESS" });
  const { everything, coordinate, entry: subjectOf } = keys.subjects;
  const byKey = { reason: "KEY_INVALIDATED", subjects: [subjectOf(key)] } as const;
  const ways: readonly Found[] = [
    { reason: "CLEARED", subjects: [everything] },
    { reason: "FIELD_INVALIDATED", subjects: [coordinate(key.coordinate), ...invalidations.otherFormsOf(key)] },
    byKey,
    ...tags.map((tag): Found => ({ reason: "TAG_INVALIDATED", subjects: tag.subjects, tag })),
  ];
  const after = entry?.position ?? 0;
  const invalidatedBy = (kind: "hard" | "soft", of: readonly Found[]): Found[] =>
    of
      .map((way) => ({ ...way, isSoft: kind === "soft", position: invalidations.lastOf(kind, way.subjects ?? []) }))
      .filter(({ position }) => position > after)
      .sort((a, b) => a.position - b.position);
  if (entry === undefined) return [...found, ...invalidatedBy("hard", [byKey])];
  const isCurrent =
    invalidations.counts(entry, key) &&
    entry.position >= invalidations.latestOf(subjects) &&
    invalidations.stateOf(value?.body.subjects ?? [], entry.position) !== "changed";
  const hard = isCurrent ? [] : invalidatedBy("hard", ways);
  found.push(...hard);
  if (!isCurrent && hard.length === 0) found.push({ reason: "INVALIDATIONS_LOST" });
  if (entry.state === "pending") return [...found, { reason: "LOADING", since: begunAt(entry.gen) }];
  if (entry.state !== "value") {
    const isOver = now >= entry.untilAt;
    const reason = isOver ? "EXPIRED" : entry.state === "failed" ? "FAILED" : "UNCACHEABLE";
    return [...found, isOver ? { reason, since: entry.untilAt } : { reason }];
  }
  if (value === undefined) return [...found, { reason: "UNREADABLE" }];
  if (value.isSoft) {
    const softly = invalidatedBy("soft", ways).map((way): Found => ({ ...way, reason: "SOFTLY_INVALIDATED" }));
    found.push(...(softly.length === 0 ? [{ reason: "SOFTLY_INVALIDATED" } as const] : softly));
  }
  const isFresh = value.freshness === "fresh" || (value.isSoft && entry.freshUntilAt === 0);
  if (value.freshness === "stale-backoff") found.push({ reason: "REFRESH_FAILED" });
  else if (!isFresh) found.push({ reason: "EXPIRED", since: entry.freshUntilAt });
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

/** Returns the invalidation that has named one of the subjects at that time, as the clocks of two processes agree on it. */
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

/** By how much the time of a process may differ from that of the store, and how long an invalidation may take. */
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

/** A lease that would be held for longer, or begin later, is one whose `gen` does not begin with a time. */
const MAX_LEASE_MS = 24 * 3_600_000;
/** By how much two processes may take the time of a store for different ones: a second on memcached. */
const MAX_CLOCK_ERROR_MS = 5_000;

/** Returns an instant on the store's clock as a date: that clock need not be one of the day. `now`: the time on it. */
const isoOf = ({ clock }: CacheParts, at: number, now: number): string => dateOf(clock, clock.now() - (now - at));
