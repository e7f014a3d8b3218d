import type { Clock } from "../clock.js";
import type { Subject } from "../keys/key.js";
import type { EntryIdentity } from "./control-record.js";
import { identityOf, MAX_NAMES, type Names, type PendingNames } from "./unconfirmed-invalidations.js";

/** How long an invalidation may take to reach the replicas of a store that loses its master. */
const RECENT_MS = 60_000;

/** When something was last invalidated. */
interface Recent<Name> {
  readonly name: Name;
  readonly at: number;
  /** See `RecentInvalidations.count`. */
  readonly nth: number;
}

/** What this process has invalidated since some moment. */
export interface InvalidationCount {
  /** The number of invalidations by this process so far. It changes when one begins and when it has ended. */
  readonly count: number;
  /**
   * Returns whether something that concerns an entry may have been invalidated since there were `count`.
   * `subjects`: the tags known before its load. `hasResultTags`: others may be derived from its value, so any
   * tag can be one of them.
   */
  hasChangedSince(count: number, key: EntryIdentity, subjects: readonly Subject[], hasResultTags: boolean): boolean;
}

/**
 * The invalidations of this process in the last minute. A store that has failed over to a replica,
 * or was restarted with older data, may have lost them, so they are repeated. Repeating one that
 * was not lost costs one load at most. If there were too many to hold, everything under the prefix is
 * invalidated instead. Those of tags, of whole coordinates and of the prefix are not among them: the
 * invalidation clock and the control record show whether they still have those.
 */
export class RecentInvalidations implements InvalidationCount {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #keys = new Map<string, Recent<EntryIdentity>>();
  /** The keys whose last invalidation was soft. */
  readonly #softKeys = new Map<string, Recent<EntryIdentity>>();
  /** When each tag was last invalidated, as a `count`. */
  readonly #tags = new Map<Subject, number>();
  /** When each coordinate was last invalidated as a whole, as a `count`. */
  readonly #coordinates = new Map<string, number>();
  /** Since when the names alone do not say what was invalidated. */
  #clearAt = Number.NEGATIVE_INFINITY;
  /** The `count` of the last invalidation that concerns everything, or of which the names were dropped. */
  #allNth = 0;
  /** The `count` of the last invalidation of a tag. */
  #tagNth = 0;
  count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  hasChangedSince(count: number, key: EntryIdentity, subjects: readonly Subject[], hasResultTags: boolean): boolean {
    if (this.count === count) return false;
    const isLater = (nth: number | undefined): boolean => nth !== undefined && nth > count;
    const id = identityOf(key);
    if (isLater(this.#allNth) || isLater(this.#coordinates.get(key.coordinate))) return true;
    if (isLater(this.#keys.get(id)?.nth) || isLater(this.#softKeys.get(id)?.nth)) return true;
    if (hasResultTags) return isLater(this.#tagNth);
    return subjects.some((tag) => isLater(this.#tags.get(tag)));
  }

  add({ keys, tags, coordinates = [], isClear = false }: Names, isSoft = false): void {
    const now = this.#clock.now();
    const nth = ++this.count;
    if (isClear) this.#allNth = nth;
    if (tags.length > 0) this.#tagNth = nth;
    for (const coordinate of coordinates) this.#coordinates.set(coordinate, nth);
    for (const key of keys) note(this.#keys, this.#softKeys, identityOf(key), { name: key, at: now, nth }, isSoft);
    for (const tag of tags) this.#tags.set(tag, nth);
    if (this.#tags.size > MAX_NAMES) {
      this.#tags.clear();
      this.#allNth = nth;
    }
    for (const recent of [this.#keys, this.#softKeys]) this.#drop(recent, now);
  }

  /** Returns the keys that were invalidated hard, and those that were invalidated soft. */
  names(): Pick<PendingNames, "keys" | "isClear"> & { readonly softKeys: readonly EntryIdentity[] } {
    const since = this.#clock.now() - RECENT_MS;
    if (this.#clearAt > since) return { keys: [], softKeys: [], isClear: true };
    return { keys: namesSince(this.#keys, since), softKeys: namesSince(this.#softKeys, since), isClear: false };
  }

  /** Drops names that are no longer recent, and the oldest of too many. */
  #drop(recent: Map<string, Recent<EntryIdentity>>, now: number): void {
    for (const [id, { at, nth }] of recent) {
      if (now - at < RECENT_MS && recent.size <= MAX_NAMES) break;
      if (now - at < RECENT_MS) this.#clearAt = Math.max(this.#clearAt, at);
      this.#allNth = Math.max(this.#allNth, nth);
      recent.delete(id);
    }
  }
}

/**
 * Notes the invalidation of a name. What was invalidated hard stays so: a soft invalidation would bring
 * a lost value back.
 */
function note<Name>(
  hard: Map<string, Recent<Name>>,
  soft: Map<string, Recent<Name>>,
  id: string,
  recent: Recent<Name>,
  isSoft: boolean,
): void {
  const earlier = hard.get(id);
  if (!isSoft) {
    soft.delete(id);
    set(hard, id, recent);
  } else if (earlier === undefined || recent.at - earlier.at >= RECENT_MS) set(soft, id, recent);
  else hard.set(id, { ...earlier, nth: recent.nth });
}

/** Sets a name, as the latest one. */
function set<Name>(recent: Map<string, Recent<Name>>, id: string, name: Recent<Name>): void {
  recent.delete(id);
  recent.set(id, name);
}

const namesSince = <Name>(recent: ReadonlyMap<string, Recent<Name>>, since: number): Name[] =>
  [...recent.values()].filter(({ at }) => at > since).map(({ name }) => name);
