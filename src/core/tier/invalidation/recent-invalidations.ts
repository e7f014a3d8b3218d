import type { EntryIdentity, Subject } from "../../keys/key.js";
import { identityOf, MAX_NAMES, type Names } from "../record/unconfirmed-invalidations.js";

/** What this process has invalidated last, for requests that remember what they have read. */
export class RecentInvalidations implements InvalidationCount {
  /** When each was last invalidated, as a `count`. */
  readonly #keys = new Map<string, number>();
  readonly #tags = new Map<Subject, number>();
  readonly #coordinates = new Map<string, number>();
  /** The `count` of the last invalidation that concerns everything, or of which the names were dropped. */
  #allNth = 0;
  /** The `count` of the last invalidation of a tag. */
  #tagNth = 0;
  count = 0;

  hasChangedSince(count: number, key: EntryIdentity, subjects: readonly Subject[], hasResultTags: boolean): boolean {
    if (this.count === count) return false;
    const isLater = (nth: number | undefined): boolean => nth !== undefined && nth > count;
    if (isLater(this.#allNth) || isLater(this.#coordinates.get(key.coordinate))) return true;
    if (isLater(this.#keys.get(identityOf(key)))) return true;
    return hasResultTags ? isLater(this.#tagNth) : subjects.some((tag) => isLater(this.#tags.get(tag)));
  }

  add({ keys, tags, coordinates = [], isClear = false }: Names): void {
    const nth = ++this.count;
    if (isClear) this.#allNth = nth;
    if (tags.length > 0) this.#tagNth = nth;
    for (const coordinate of coordinates) this.#coordinates.set(coordinate, nth);
    for (const key of keys) this.#keys.set(identityOf(key), nth);
    for (const tag of tags) this.#tags.set(tag, nth);
    for (const names of [this.#keys, this.#tags])
      if (names.size > MAX_NAMES) {
        names.clear();
        this.#allNth = nth;
      }
  }
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
