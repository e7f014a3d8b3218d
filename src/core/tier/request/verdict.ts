import type { Packing } from "../../codec/packing.js";
import type { Subject } from "../../keys/key.js";
import type { Entry } from "../../store/entry.js";
import type { Reading, StoreRead } from "../../store/store.js";
import type { ReadOutcome } from "../../telemetry/events.js";
import { type DecodedValue, partsIn } from "../entry/entry-decoder.js";
import { evaluateFreshness, type Freshness, isServable, type Servable } from "../entry/freshness.js";
import { implausibilityOf } from "../entry/plausible.js";
import type { InvalidationClock } from "../shared/invalidation-clock.js";
import type { TagsState } from "../shared/known-positions.js";
import type { UnconfirmedInvalidations } from "../shared/unconfirmed-invalidations.js";
import type { DecodedHolder, ReadRequest } from "./request.js";
import type { ValueDecoder } from "./value-decoder.js";

/*
 * Whether an entry may be served, and how: decided here for every way in which an entry comes, be
 * it from a read, a grant or a message, or as a fallback.
 */

/**
 * Returns what a request may do with what it was shown. `holder`: of the readers that share the
 * read. `atAnyAge`: the request has waited for the load of the value, or the source has failed.
 */
export function verdictOf(
  request: ReadRequest,
  reading: Reading,
  parts: VerdictParts,
  holder?: DecodedHolder,
  atAnyAge = false,
): Verdict {
  if (reading.kind === "failed") return UNKNOWN;
  const { entry, now } = reading;
  const { key, policy } = request;
  const { invalidations, packing, decoder } = parts;
  if (entry === undefined || !invalidations.counts(entry, key))
    return unservable(request, undefined, "absent", now, parts);
  if (implausibilityOf(entry, now, invalidations, parts.longestMs) !== undefined) return IMPLAUSIBLE;
  let opened: ReturnType<typeof partsIn>;
  const ownOf = (value: Entry) => {
    opened = partsIn(value, key, packing);
    return opened?.freshness;
  };
  const freshness = atAnyAge && entry.state === "value" ? "fresh" : evaluateFreshness(entry, policy, now, ownOf);
  if (freshness !== "fresh" && !isServable(freshness)) {
    const subjects = freshness === "stale-if-error" ? opened?.subjects : undefined;
    const isChanged = subjects !== undefined && tagsStateOf(request, entry, subjects, parts) === "changed";
    return unservable(request, entry, isChanged ? "absent" : freshness, now, parts, isChanged);
  }
  const decoded = decoder.decode(request, entry, holder);
  if (decoded.kind === "collision") return COLLISION;
  if (decoded.kind === "corrupt") return { kind: "unreadable", entry };
  const tags = tagsStateOf(request, entry, decoded.parts.subjects, parts);
  // The store does not know these tags: it would keep the value if the load in its place fails.
  if (tags === "changed") return unservable(request, entry, "absent", now, parts, true);
  const isSoft = tags === "stale" && freshness === "fresh";
  return { kind: "serve", entry, freshness: isSoft ? "stale-while-revalidate" : freshness, isSoft, decoded };
}

export interface VerdictParts {
  readonly invalidations: InvalidationClock;
  readonly unconfirmed: UnconfirmedInvalidations;
  readonly packing: Packing;
  readonly longestMs: number;
  readonly decoder: ValueDecoder;
}

/** `unreadable`: holds a damaged value. `collision`: of another key. `unknown`: no reply. */
export type Verdict =
  | ServableValue
  | Unservable
  | { readonly kind: "unreadable"; readonly entry: Entry }
  | { readonly kind: "collision" }
  | { readonly kind: "unknown" };

export interface ServableValue {
  readonly kind: "serve";
  readonly entry: Entry;
  readonly freshness: Servable;
  /** Whether it was invalidated softly, while the store takes it to be fresh. */
  readonly isSoft: boolean;
  readonly decoded: DecodedValue;
}

export interface Unservable {
  readonly kind: "load";
  readonly freshness: Freshness;
  /** What the store takes to be a fresh value, and would return in the place of a lease. */
  readonly superseded: Entry | undefined;
  /** Of `superseded`: see `AcquireRequest.endsFreshness`. Default: false. */
  readonly endsFreshness?: boolean;
}

const IMPLAUSIBLE: Verdict = { kind: "load", freshness: "implausible", superseded: undefined };
const UNKNOWN: Verdict = { kind: "unknown" };
const COLLISION: Verdict = { kind: "collision" };

/**
 * Nothing is loaded under a lease while the entry or one of its tags is written. A load, a failure
 * or a stale value from before one of the tags was invalidated is none; the store knows these tags
 * from the lease request.
 */
function unservable(
  request: Pick<ReadRequest, "key" | "tags">,
  entry: Entry | undefined,
  freshness: Freshness,
  now: number,
  { invalidations }: KnownInvalidations,
  isChanged = false,
): Unservable {
  if (invalidations.isWritten(request, now))
    return { kind: "load", freshness: "write-in-progress", superseded: undefined };
  if (entry === undefined || entry.position < invalidations.latestOf(request.tags.subjects))
    return { kind: "load", freshness: "absent", superseded: undefined };
  const isFreshInStore = entry.state === "value" && now < entry.freshUntilAt;
  // In the pause after a failed refresh, it would stay in the place of the next failure as well.
  const endsFreshness = isFreshInStore && (isChanged || entry.hasRefreshFailed);
  return { kind: "load", freshness, superseded: isFreshInStore ? entry : undefined, endsFreshness };
}

/** Returns how a read ends that is served a value. `whenFresh`: with a fresh one. */
export const outcomeOf = <Fresh extends ReadOutcome>(
  freshness: Servable,
  whenFresh: Fresh,
): Fresh | "stale" | "staleIfError" =>
  freshness === "fresh" ? whenFresh : freshness === "stale-while-revalidate" ? "stale" : "staleIfError";

type KnownInvalidations = Pick<VerdictParts, "invalidations">;

/** Of an error: what was read cannot be evaluated. */
export const UNPREPARED = "the invalidation clock could not be read";

/** Reads what the clock has more, for entries read with another head. Never rejects. */
export async function prepareFor(read: StoreRead, { invalidations }: KnownInvalidations): Promise<boolean> {
  for (const reading of read.readings) if (reading.kind === "read") invalidations.noteTime(reading.now);
  return invalidations.isAt(read.clock) || invalidations.catchUp(read.clock);
}

/** Whether nothing that a request heeds, tags known before included, was invalidated since. */
export const isCurrentAt = (
  { key, tags }: Pick<ReadRequest, "key" | "tags">,
  { epoch }: Entry,
  position: number,
  { invalidations }: KnownInvalidations,
): boolean => invalidations.counts({ epoch, position }, key) && position >= invalidations.latestOf(tags.subjects);

/** Returns what invalidations since its load have done to the value of an entry, for a request. */
export function tagsStateOf(
  { tags, key }: Pick<ReadRequest, "key" | "tags">,
  { position }: Pick<Entry, "position">,
  subjects: readonly Subject[],
  { invalidations, unconfirmed }: Pick<VerdictParts, "invalidations" | "unconfirmed">,
): TagsState {
  if (unconfirmed.allowReads && position >= invalidations.latest) return "current";
  const hasTags = subjects.length > 0 || tags.isOwn;
  if (hasTags && !unconfirmed.allowReads && unconfirmed.has(key, { subjects })) return "changed";
  const own = tags.isOwn ? invalidations.stateOf(tags.subjects, position) : "current";
  const stored = invalidations.stateOf(subjects, position);
  if (own === "changed" || stored === "changed") return "changed";
  const isStale = own === "stale" || stored === "stale" || invalidations.isSoftlyInvalidated(position, key);
  return isStale ? "stale" : "current";
}
