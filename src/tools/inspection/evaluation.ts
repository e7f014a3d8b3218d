import type { Key, Subject } from "../../core/keys/key.js";
import type { CacheParts } from "../../core/parts.js";
import type { Policy } from "../../core/policy/policy.js";
import { type BodyParts, readBody } from "../../core/store/body.js";
import type { Entry } from "../../core/store/entry.js";
import { begunAt } from "../../core/store/transitions.js";
import { evaluateFreshness, type Freshness, ownPolicy } from "../../core/tier/entry/freshness.js";
import type { RequestTags } from "../../core/tier/request/request.js";
import type { TagsState } from "../../core/tier/shared/known-positions.js";
import type { CacheEntryReason } from "../../generated/schema.js";
import type { CauseQuery } from "./provenance.js";

/** Returns what will become of an entry, as a reader would evaluate it. */
export function evaluateEntry(parts: CacheParts, shown: Shown): Evaluation {
  const { entry } = shown;
  const isOutdated = !isCurrent(parts, shown);
  const value = entry.state === "value" ? valueStateOf(parts, shown) : undefined;
  return { isOutdated, value, notFresh: reasonOf(parts, shown, isOutdated, value) };
}

export interface Place {
  readonly key: Key;
  readonly policy: Policy;
  readonly tags: RequestTags;
}

export interface Shown {
  readonly place: Place;
  readonly entry: Entry;
  /** The store's time. */
  readonly now: number;
}

/** What will become of a value besides what the clock says. */
export interface ValueState {
  readonly freshness: Freshness;
  readonly resultTags: readonly Subject[];
  readonly tagsState: TagsState;
  readonly isSoft: boolean;
  /** When it is not served any more. Undefined: never. */
  readonly endsAt: number | undefined;
}

/** Why an entry is not served as a fresh one, and which invalidation can be the cause. */
export interface NotFresh {
  readonly reason: CacheEntryReason;
  readonly cause?: CauseQuery;
}

export interface Evaluation {
  /** Whether it was invalidated as a whole, or by a tag that is known before its load. */
  readonly isOutdated: boolean;
  /** Undefined if it holds no value, or none that can be read. */
  readonly value: ValueState | undefined;
  /** Undefined: its value is fresh and will be served. */
  readonly notFresh: NotFresh | undefined;
}

/** Returns why there is no entry, if an invalidation is remembered that has removed it. */
export const removed = (key: Key): Required<NotFresh> => ({
  reason: "REMOVED",
  cause: { concerned: { key }, isSoft: false, after: undefined },
});

/** Returns that an entry, or one of its tags, is being written at `now`, if it is. */
export const writeOf = (
  { invalidations }: CacheParts,
  { key }: Place,
  subjects: readonly Subject[],
  now: number,
): Required<NotFresh> | undefined =>
  invalidations.isWritten({ key, tags: { subjects } }, now)
    ? { reason: "WRITE_IN_PROGRESS", cause: { concerned: { key, subjects }, isSoft: false, after: undefined } }
    : undefined;

function reasonOf(
  parts: CacheParts,
  shown: Shown,
  isOutdated: boolean,
  value: ValueState | undefined,
): NotFresh | undefined {
  const { place, entry, now } = shown;
  const { key, tags } = place;
  const after = entry.state === "value" ? entry.grantedAt : entry.gen === "" ? undefined : begunAt(entry.gen);
  const hardBy = (concerned: CauseQuery["concerned"]): CauseQuery => ({ concerned, isSoft: false, after });
  const resultTags = value?.resultTags ?? [];
  const subjects = [...tags.subjects, ...resultTags];
  if (parts.invalidation.isUnconfirmed(key, subjects))
    return {
      reason: "UNCONFIRMED",
      cause: { ...hardBy({ key, subjects, coordinate: key.coordinate, isClear: true }), after: undefined },
    };
  const written = writeOf(parts, place, subjects, now);
  if (written !== undefined) return written;
  if (isOutdated) return reasonOfOutdated(parts, shown, after);
  switch (entry.state) {
    case "pending":
      return { reason: "LOADING" };
    case "failed":
      return { reason: now < entry.untilAt ? "FAILED" : "EXPIRED" };
    case "uncacheable":
      return { reason: now < entry.untilAt ? "UNCACHEABLE" : "EXPIRED" };
    case "value":
  }
  if (value === undefined) return { reason: "UNREADABLE" };
  if (value.tagsState === "changed")
    return { reason: "RESULT_TAG_INVALIDATED", cause: hardBy({ subjects: resultTags }) };
  const isExpired = value.freshness === "absent" || value.freshness === "stale-if-error";
  if (value.freshness === "stale-backoff") return { reason: "REFRESH_FAILED" };
  if (!isExpired && (value.isSoft || entry.freshUntilAt === 0))
    return {
      reason: "SOFTLY_INVALIDATED",
      cause: {
        concerned: { key, subjects, coordinate: key.coordinate, isClear: true },
        isSoft: true,
        after,
      },
    };
  return value.freshness === "fresh" ? undefined : { reason: "EXPIRED" };
}

/** Whether no invalidation of the prefix, its coordinate or its own tags is later than an entry. */
function isCurrent({ invalidations }: CacheParts, { place: { key, tags }, entry }: Shown): boolean {
  return invalidations.counts(entry, key) && entry.position >= invalidations.latestOf(tags.subjects);
}

/** Returns what has outdated an entry: the first of the invalidations after its load began. */
function reasonOfOutdated(
  { invalidations, keys }: CacheParts,
  { place: { key, tags }, entry }: Shown,
  after: number | undefined,
): NotFresh {
  const { coordinate } = key;
  const ways = [
    { subjects: [keys.subjects.everything], reason: "CLEARED", concerned: { isClear: true } },
    {
      subjects: [keys.subjects.coordinate(coordinate), ...invalidations.otherFormsOf(key)],
      reason: "FIELD_INVALIDATED",
      concerned: { coordinate },
    },
    { subjects: [keys.subjects.entry(key)], reason: "REMOVED", concerned: { key } },
    { subjects: tags.subjects, reason: "TAG_INVALIDATED", concerned: { subjects: tags.subjects } },
  ] as const;
  const found = ways
    .map((way) => ({ ...way, at: invalidations.latestOf(way.subjects) }))
    .filter(({ at }) => at > entry.position)
    .sort((one, other) => one.at - other.at);
  const [first] = found;
  return first === undefined
    ? { reason: "INVALIDATIONS_LOST" }
    : { reason: first.reason, cause: { concerned: first.concerned, isSoft: false, after } };
}

function valueStateOf({ invalidations, packing }: CacheParts, shown: Shown): ValueState | undefined {
  const { place, entry, now } = shown;
  const body = bodyOf(packing, place.key, entry);
  if (body === undefined) return undefined;
  const own = new Set(place.tags.subjects);
  const tagsState = invalidations.stateOf(body.subjects, entry.position);
  return {
    freshness: evaluateFreshness(entry, place.policy, now, () => body.freshness),
    resultTags: body.subjects.filter((subject) => !own.has(subject)),
    tagsState,
    isSoft: tagsState === "stale" || invalidations.isSoftlyInvalidated(entry.position, place.key),
    endsAt: endOf(entry, body.freshness === undefined ? place.policy : ownPolicy(place.policy, body.freshness)),
  };
}

/** Returns when a value is not served any more, not even as a stale one. Undefined: never. */
function endOf({ grantedAt, freshUntilAt, hasRefreshFailed }: Entry, policy: Policy): number | undefined {
  if (policy.neverExpires) return undefined;
  const byAge = grantedAt + policy.maxAgeMs;
  const staleAt = hasRefreshFailed || freshUntilAt === 0 ? byAge : Math.min(byAge, freshUntilAt);
  return staleAt + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs);
}

function bodyOf(packing: CacheParts["packing"], key: Key, entry: Entry): BodyParts | undefined {
  try {
    const body = readBody(packing.unseal(entry.body, key.name), key);
    return body === "collision" ? undefined : body;
  } catch {
    return undefined;
  }
}
