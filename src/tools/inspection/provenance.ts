import { GraphQLError } from "graphql";
import { type Clock, dateOf } from "../../core/base/clock.js";
import { type Key, nameOfSubject, type Subject } from "../../core/keys/key.js";
import type { CacheParts } from "../../core/parts.js";
import {
  type InvalidationRecord,
  type ProcessIdentity,
  type RememberedInvalidations,
  recordedKey,
} from "../../core/tier/invalidation/invalidation-history.js";
import type {
  CacheInspectionInvalidationsArgs,
  CacheInvalidation,
  CacheInvalidationKind,
  CacheInvalidations,
  CacheProcessRef,
} from "../../generated/schema.js";
import { checkedFirst } from "./live-resolvers.js";

/** Reads the invalidations that are remembered. Rejects if the store does not reply. */
export function readInvalidations({ history, store, keys }: CacheParts): Promise<RememberedInvalidations> {
  return history.read(async () => {
    const [reading] = (await store.read([`${keys.clock}:time`])).readings;
    if (reading?.kind !== "read") throw storeUnavailable();
    return reading.now;
  });
}

/** By how much the time of an invalidation may be earlier in its record than on the node of the entry. */
const TOLERANCE_MS = 1_000;

/** What an invalidation concerns that is the cause for the state of an entry: any of these. */
export interface Concerned {
  readonly key?: Key;
  readonly subjects?: readonly Subject[];
  readonly coordinate?: string;
  readonly isClear?: boolean;
}

/** Which of the invalidations that concern an entry is the cause. */
export interface CauseQuery {
  readonly concerned: Concerned;
  readonly isSoft: boolean;
  /** When the load began whose value was invalidated. Undefined: the last invalidation is the cause. */
  readonly after: number | undefined;
}

export interface Cause {
  readonly record: InvalidationRecord;
  /** Whether the record names what it was the cause for. If not, it had more names than a record has. */
  readonly isCertain: boolean;
}

/**
 * Returns the invalidation that is the cause: the first one after the load began, or the last one. One that repeats
 * another is the cause only if the other is not remembered. Undefined: none is remembered.
 */
export function causeOf({ records }: RememberedInvalidations, query: CauseQuery): Cause | undefined {
  const ofKind = records.filter(({ kind }) => (kind === "soft") === query.isSoft);
  const certain = causeAmong(ofKind.filter(matcherOf(query.concerned)), query);
  if (certain !== undefined) return { record: certain, isCertain: true };
  // A record has only the first of many names. Of an entry that is there, it is known that something has changed it.
  const { key, subjects = [] } = query.concerned;
  const hasNames = query.after !== undefined && (key !== undefined || subjects.length > 0);
  const possible = hasNames ? causeAmong(ofKind.filter(isCutOff), query) : undefined;
  return possible === undefined ? undefined : { record: possible, isCertain: false };
}

const isCutOff = ({ keys, tags, nameCount }: InvalidationRecord): boolean => keys.length + tags.length < nameCount;

function causeAmong(
  found: readonly InvalidationRecord[],
  { after }: Pick<CauseQuery, "after">,
): InvalidationRecord | undefined {
  const originals = found.filter(({ via }) => via !== "retry");
  if (after === undefined) return (originals.length > 0 ? originals : found).at(-1);
  const firstOf = (some: readonly InvalidationRecord[]): InvalidationRecord | undefined =>
    some.find(({ endedAt }) => endedAt >= after) ?? some.findLast(({ endedAt }) => endedAt >= after - TOLERANCE_MS);
  return firstOf(originals) ?? firstOf(found);
}

function matcherOf({ key, subjects = [], coordinate, isClear = false }: Concerned) {
  const ownKey = key === undefined ? undefined : recordedKey(key);
  const ownTags = new Set(subjects.map(nameOfSubject));
  return (record: InvalidationRecord): boolean =>
    (isClear && record.isClear) ||
    (coordinate !== undefined && record.coordinates.includes(coordinate)) ||
    (ownKey !== undefined && record.keys.includes(ownKey)) ||
    record.tags.some((tag) => ownTags.has(tag));
}

export function describeCause({ record, isCertain }: Cause, toDate: (at: number) => string): string {
  const { via, mutation, kind, process, beganAt, isConfirmed, nameCount } = record;
  const call = mutation === undefined ? via : `${via} of ${mutation}`;
  const how = kind === "soft" ? ", softly" : "";
  const doubt = isConfirmed ? "" : ", which the store has not confirmed";
  const what = `${call}${how}, in process ${process.pid} on ${process.host} at ${toDate(beganAt)}${doubt}`;
  return isCertain ? `By ${what}.` : `Probably by ${what}; it had ${nameCount} names, more than are remembered.`;
}

/** Returns what writes instants of the store's clock as dates; `now` is the time on it. */
export const datesOf =
  (clock: Clock, now: number) =>
  (at: number): string =>
    dateOf(clock, clock.now() - (now - at));

export function shownRecord(
  record: InvalidationRecord,
  toDate: (at: number) => string,
  { processId }: Pick<CacheParts, "processId">,
): CacheInvalidation {
  const { kind, via, mutation = null, beganAt, endedAt, process, ...others } = record;
  return {
    at: toDate(beganAt),
    tookMs: Math.max(0, endedAt - beganAt),
    kind: kind.toUpperCase() as CacheInvalidationKind,
    via,
    mutation,
    process: shownProcess(process, processId),
    ...others,
  };
}

/** Returns a process as the inspection shows it, as far as it is known. */
export const shownProcess = (
  {
    id,
    host = null,
    pid = null,
  }: Pick<ProcessIdentity, "id"> & { readonly host?: string | null; readonly pid?: number | null },
  ownId: string,
): CacheProcessRef => ({ id, isThis: id === ownId, host, pid });

export const storeUnavailable = (): GraphQLError =>
  new GraphQLError("the store did not reply", { extensions: { code: "CACHED_STORE_UNAVAILABLE" } });

/** Returns the newest invalidations. Rejects if the store does not reply, and with `CACHED_OPTION_INVALID` for an invalid `first`. */
export async function describeInvalidations(
  parts: CacheParts,
  { first }: Partial<CacheInspectionInvalidationsArgs>,
): Promise<CacheInvalidations> {
  const max = checkedFirst(first, "invalidations");
  const { now, since, isOwnOnly, records } = await readInvalidations(parts);
  const toDate = datesOf(parts.clock, now);
  const newest = [...records].reverse().slice(0, max);
  return {
    since: toDate(since),
    isThisProcessOnly: isOwnOnly,
    count: records.length,
    items: newest.map((record) => shownRecord(record, toDate, parts)),
  };
}
