import type { EntryIdentity, Subject } from "../../keys/key.js";

/**
 * The invalidations of this process that the store has not confirmed. Until it has, this process
 * does not read their entries from the store, which may still hold old values. Each name is held
 * once, however often it was invalidated. If there are too many to hold, all of them become one
 * invalidation of everything under the prefix, and this process reads nothing from the store until
 * that is confirmed.
 */
export class UnconfirmedInvalidations {
  readonly #keys = new Map<string, EntryIdentity>();
  /**
   * The number of the `add` call that added a name last. `subjects`: what entries are tagged with that contain others, such as
   * responses, for all names. `clear`: has one name, if everything has to be invalidated.
   */
  readonly #addedBy = {
    keys: new Map<string, number>(),
    tags: new Map<Subject, number>(),
    coordinates: new Map<string, number>(),
    subjects: new Map<Subject, number>(),
    clear: new Map<"*", number>(),
  };
  #addCount = 0;
  /** Whether everything may be read from the store now: there are none. Not computed, since every hit asks. */
  allowReads = true;

  get size(): number {
    const { keys, tags, coordinates, clear } = this.#addedBy;
    return keys.size + tags.size + coordinates.size + clear.size;
  }

  get counts(): UnconfirmedCounts {
    const { keys, tags, coordinates, clear } = this.#addedBy;
    return { keys: keys.size, tags: tags.size, coordinates: coordinates.size, everything: clear.size > 0 };
  }

  /** `subjects`: those of all names. Returns whether the names became too many to hold with this call. */
  add({ keys, tags, coordinates = [], isClear = false }: Names, subjects: readonly Subject[] = tags): boolean {
    const addedBy = this.#addedBy;
    const nth = ++this.#addCount;
    if (isClear) this.addClear();
    if (addedBy.clear.size > 0) {
      if (keys.length + tags.length + coordinates.length > 0) addedBy.clear.set("*", this.#addCount);
      return false;
    }
    // As many as the schemas and loaders of this process have.
    for (const coordinate of coordinates) addedBy.coordinates.set(coordinate, nth);
    for (const key of keys) {
      this.#keys.set(identityOf(key), key);
      addedBy.keys.set(identityOf(key), nth);
    }
    for (const tag of tags) addedBy.tags.set(tag, nth);
    for (const subject of subjects) addedBy.subjects.set(subject, nth);
    this.allowReads = this.size === 0;
    if (addedBy.keys.size <= MAX_NAMES && addedBy.tags.size <= MAX_NAMES) return false;
    this.addClear();
    return true;
  }

  /** Adds an invalidation of everything under the prefix, which covers all names. */
  addClear(): void {
    for (const names of [this.#keys, ...Object.values(this.#addedBy)]) names.clear();
    this.#addedBy.clear.set("*", ++this.#addCount);
    this.allowReads = false;
  }

  /** Returns whether an entry of `key`, under one of `tags`, or with a part under one of them may be one that should be gone. */
  has(key: EntryIdentity | undefined, tags: { readonly subjects: readonly Subject[] }): boolean {
    if (this.allowReads) return false;
    const { keys, coordinates, subjects, clear } = this.#addedBy;
    if (clear.size > 0) return true;
    const isOfKey = key !== undefined && (keys.has(identityOf(key)) || coordinates.has(key.coordinate));
    return isOfKey || tags.subjects.some((subject) => subjects.has(subject));
  }

  /**
   * Returns all names. Call `confirm` when the store has confirmed them: it removes those that were
   * not added again in the meantime.
   */
  snapshot(): PendingNames & { confirm(): void } {
    const { tags, coordinates, clear } = this.#addedBy;
    const upTo = this.#addCount;
    const confirm = (): void => {
      for (const names of Object.values(this.#addedBy) as Map<unknown, number>[])
        for (const [name, addedBy] of names) if (addedBy <= upTo) names.delete(name);
      for (const identity of this.#keys.keys()) if (!this.#addedBy.keys.has(identity)) this.#keys.delete(identity);
      this.allowReads = this.size === 0;
    };
    return {
      keys: [...this.#keys.values()],
      tags: [...tags.keys()],
      coordinates: [...coordinates.keys()],
      isClear: clear.size > 0,
      confirm,
    };
  }
}

/** What an invalidation concerns: entries, in all variants, and tags. */
export interface Names {
  readonly keys: readonly EntryIdentity[];
  readonly tags: readonly Subject[];
  /** The fields and loaders of which every entry is invalidated. */
  readonly coordinates?: readonly string[];
  /** Whether everything under the prefix is invalidated. */
  readonly isClear?: boolean;
}

/** What has to be repeated. `isClear`: everything under the prefix, and nothing else. */
export type PendingNames = Required<Names>;

/** How many names have to be repeated. */
export interface UnconfirmedCounts {
  readonly keys: number;
  readonly tags: number;
  readonly coordinates: number;
  readonly everything: boolean;
}

/** Limit for keys and for tags. */
export const MAX_NAMES = 10_000;

/** Returns what the names of an entry in all variants with the same key form have in common. */
export const identityOf = ({ coordinate, digest }: EntryIdentity): string => `${coordinate}:${digest}`;

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
