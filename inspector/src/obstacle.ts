import { count, words } from "./format.js";
import type { Bypass, Field, RecentEvent } from "./types.js";

/** Below this share of the reads, bypasses are not what keeps a field from its cache. */
const MIN_SHARE = 0.2;

const REASONS: Readonly<Record<string, string>> = {
  KEY_UNUSABLE: "a part of the key is missing in the parent object or the context",
  NO_IDENTITY: "it is PRIVATE, and the request has no identity: `identify` returns none",
  UNCACHEABLE: "the last value could not be stored, or its load has skipped that",
  WRITE_IN_PROGRESS: "a write to the key was in progress",
  STORE_UNAVAILABLE: "the store failed, or was too slow",
  WAIT_TIMEOUT: "the load of another caller took too long",
  NESTED: "its load asked for its own key",
  DOES_NOT_EXIST: "the `exists` guard excluded the id; nothing was loaded",
  REQUESTED: "the request asked for it",
  KEY_COLLISION: "the entry was built from another input",
  ABORTED: "the request was aborted",
  CLOSED: "the cache is closed",
  MODE_OFF: "every read calls the source",
};

/** Why a value is refused, by the code of the event. */
const REFUSALS: Readonly<Record<string, string>> = {
  CACHED_VALUE_TOO_LARGE: "it is larger than `storage.maxValueBytes`; the log says by how much",
  CACHED_VALUE_UNSERIALIZABLE: "it cannot be serialized; the log says where",
  CACHED_VALUE_EXPIRED: "its load takes longer than `maxAge`",
};

/** With fewer reads, a hit ratio says little. */
const MIN_READS = 20;

/** Returns what a reason means, if it is known. */
export const meaningOf = (reason: string): string => REASONS[reason] ?? "";

/** The reasons for which the source is called without a load. */
const WITHOUT_LOAD = new Set(["REQUESTED", "MODE_OFF", "NO_IDENTITY", "KEY_UNUSABLE"]);

/** Returns how many reads have called the source past the cache. They are not among the loads. */
export const callsPastCache = ({ coordinate, bypasses }: Field): number =>
  coordinate === "responses"
    ? 0
    : (bypasses ?? []).reduce((sum, { reason, reads }) => sum + (WITHOUT_LOAD.has(reason) ? reads : 0), 0);

/** The reasons of all fields and loaders, the most frequent first. */
export const bypassesByField = (fields: readonly Field[]): readonly (Bypass & { readonly coordinate: string })[] =>
  fields
    .flatMap(({ coordinate, bypasses }) => (bypasses ?? []).map((one) => ({ coordinate, ...one })))
    .toSorted((one, other) => other.reads - one.reads);

/** What keeps a field or loader from its cache. */
export interface Obstacle {
  readonly name: string;
  readonly text: string;
}

/** Returns why many reads of a field or loader make no use of the cache. Undefined if few bypass it. */
export function obstacleOf(field: Field, events: readonly RecentEvent[] | undefined): Obstacle | undefined {
  const [most] = field.bypasses ?? [];
  if (most === undefined || most.reads < MIN_SHARE * field.stats.reads) return rarelyHit(field);
  const of = `${count(most.reads)} of ${count(field.stats.reads)} reads bypassed the cache`;
  const refused =
    most.reason === "UNCACHEABLE"
      ? events?.find(({ name, coordinate }) => name === "value.refused" && coordinate === field.coordinate)
      : undefined;
  const code = refused?.error;
  if (!code) return { name: words(most.reason), text: `${of}: ${meaningOf(most.reason) || words(most.reason)}.` };
  const why = REFUSALS[code];
  return { name: code, text: `${of}: its value is refused with ${code}${why === undefined ? "" : `, since ${why}`}.` };
}

/** Its values are stored, and most of them are gone before they are read again. */
function rarelyHit({ stats }: Pick<Field, "stats">): Obstacle | undefined {
  const used = stats.hit + stats.stale + stats.staleIfError + stats.coalesced;
  if (stats.reads < MIN_READS || used >= MIN_SHARE * stats.reads) return undefined;
  return {
    name: "rarely hit",
    text: `Only ${count(used)} of ${count(stats.reads)} reads had use of a stored value or of another load: a key is rarely read twice within \`maxAge\`, or is invalidated before. An entry among the hot keys says which.`,
  };
}
