import type { Clock } from "../clock.js";
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
   * `tagNames`: the tags known before its load. `hasResultTags`: others may be derived from its value, so any
   * tag can be one of them.
   */
  hasChangedSince(count: number, key: EntryIdentity, tagNames: readonly string[], hasResultTags: boolean): boolean;
}

/**
 * The invalidations of this process in the last minute. A store that has failed over to a replica,
 * or was restarted with older data, may have lost them, so they are repeated. Repeating one that
 * was not lost costs one load at most. If there were too many to hold, everything under the prefix is
 * invalidated instead. Invalidations of whole coordinates and of the prefix are not among them: the
 * control record shows whether it still has those.
 */
export class RecentInvalidations implements InvalidationCount {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #keys = new Map<string, Recent<EntryIdentity>>();
  readonly #tags = new Map<string, Recent<string>>();
  /** The keys and tags whose last invalidation was soft. */
  readonly #softKeys = new Map<string, Recent<EntryIdentity>>();
  readonly #softTags = new Map<string, Recent<string>>();
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

  hasChangedSince(count: number, key: EntryIdentity, tagNames: readonly string[], hasResultTags: boolean): boolean {
    if (this.count === count) return false;
    const isLater = (nth: number | undefined): boolean => nth !== undefined && nth > count;
    const id = identityOf(key);
    if (isLater(this.#allNth) || isLater(this.#coordinates.get(key.coordinate))) return true;
    if (isLater(this.#keys.get(id)?.nth) || isLater(this.#softKeys.get(id)?.nth)) return true;
    if (hasResultTags) return isLater(this.#tagNth);
    return tagNames.some((tag) => isLater(this.#tags.get(tag)?.nth) || isLater(this.#softTags.get(tag)?.nth));
  }

  add({ keys, tags, coordinates = [], isClear = false }: Names, isSoft = false): void {
    const now = this.#clock.now();
    const nth = ++this.count;
    if (isClear) this.#allNth = nth;
    if (tags.length > 0) this.#tagNth = nth;
    for (const coordinate of coordinates) this.#coordinates.set(coordinate, nth);
    for (const key of keys) note(this.#keys, this.#softKeys, identityOf(key), { name: key, at: now, nth }, isSoft);
    for (const tag of tags) note(this.#tags, this.#softTags, tag, { name: tag, at: now, nth }, isSoft);
    for (const recent of [this.#keys, this.#softKeys, this.#tags, this.#softTags]) this.#drop<unknown>(recent, now);
  }

  /** Returns the names that were invalidated hard, and those that were invalidated soft. */
  names(): Omit<PendingNames, "coordinates"> & {
    readonly softKeys: readonly EntryIdentity[];
    readonly softTags: readonly string[];
  } {
    const since = this.#clock.now() - RECENT_MS;
    if (this.#clearAt > since) return { keys: [], tags: [], softKeys: [], softTags: [], isClear: true };
    return {
      keys: namesSince(this.#keys, since),
      tags: namesSince(this.#tags, since),
      softKeys: namesSince(this.#softKeys, since),
      softTags: namesSince(this.#softTags, since),
      isClear: false,
    };
  }

  /** Drops names that are no longer recent, and the oldest of too many. */
  #drop<Name>(recent: Map<string, Recent<Name>>, now: number): void {
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
