import type { EntryIdentity, Subject } from "../../keys/key.js";

/**
 * The invalidations of this process that the store has not confirmed. Until it has, this process
 * does not read what they concern from the store. Too many become one of everything under the
 * prefix.
 */
export class UnconfirmedInvalidations {
  readonly #keys = new Map<string, EntryIdentity>();
  /**
   * The number of the `add` call that added a name last. `subjects`: what entries are tagged with
   * that contain others, such as responses, for all names. `clear`: has one name, if everything has
   * to be invalidated.
   */
  readonly #addedBy = {
    keys: new Map<string, number>(),
    tags: new Map<Subject, number>(),
    coordinates: new Map<string, number>(),
    subjects: new Map<Subject, number>(),
    clear: new Map<"*", number>(),
  };
  #addCount = 0;
  /**
   * Whether everything may be read from the store now: there are none. Not computed, since every
   * hit asks.
   */
  allowReads = true;

  get size(): number {
    const { keys, tags, coordinates, clear } = this.#addedBy;
    return keys.size + tags.size + coordinates.size + clear.size;
  }

  get counts(): UnconfirmedCounts {
    const { keys, tags, coordinates, clear } = this.#addedBy;
    return { keys: keys.size, tags: tags.size, coordinates: coordinates.size, everything: clear.size > 0 };
  }

  /**
   * `subjects`: those of all names. Returns whether the names became too many to hold with this
   * call.
   */
  add(
    { keys, tags, coordinates = [], isClear = false }: InvalidationNames,
    subjects: readonly Subject[] = tags,
  ): boolean {
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

  addClear(): void {
    for (const names of [this.#keys, ...Object.values(this.#addedBy)]) names.clear();
    this.#addedBy.clear.set("*", ++this.#addCount);
    this.allowReads = false;
  }

  /**
   * Returns whether an entry of `key`, under one of `tags`, or with a part under one of them may be
   * one that should be gone.
   */
  has(key: EntryIdentity | undefined, tags: { readonly subjects: readonly Subject[] }): boolean {
    if (this.allowReads) return false;
    const { keys, coordinates, subjects, clear } = this.#addedBy;
    if (clear.size > 0) return true;
    const isOfKey = key !== undefined && (keys.has(identityOf(key)) || coordinates.has(key.coordinate));
    return isOfKey || tags.subjects.some((subject) => subjects.has(subject));
  }

  /**
   * Returns all names, and what removes those that were not added again when the store has
   * confirmed them.
   */
  snapshot(): PendingInvalidation & { confirm(): void } {
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
export interface InvalidationNames {
  readonly keys: readonly EntryIdentity[];
  readonly tags: readonly Subject[];
  /** The fields and loaders of which every entry is invalidated. */
  readonly coordinates?: readonly string[];
  /** Whether everything under the prefix is invalidated. */
  readonly isClear?: boolean;
}

export type PendingInvalidation = Required<InvalidationNames>;

export interface UnconfirmedCounts {
  readonly keys: number;
  readonly tags: number;
  readonly coordinates: number;
  readonly everything: boolean;
}

export const MAX_NAMES = 10_000;

/** Returns what the names of an entry in all variants with the same key form have in common. */
export const identityOf = ({ coordinate, digest }: EntryIdentity): string => `${coordinate}:${digest}`;

/** What this process has invalidated last, for requests that remember what they have read. */
export class RecentInvalidations implements InvalidationCount {
  /** The `count` of the last invalidation of each coordinate, entry (`identityOf`) and tag. */
  readonly #lastOf = new Map<string | Subject, number>();
  /**
   * The `count` of the last invalidation that concerns everything, or of which the names were
   * dropped.
   */
  #allNth = 0;
  /** The `count` of the last invalidation of a tag. */
  #tagNth = 0;
  count = 0;

  hasChangedSince(count: number, key: EntryIdentity, subjects: readonly Subject[], hasResultTags: boolean): boolean {
    if (this.count === count) return false;
    const isLater = (name: string | Subject): boolean => (this.#lastOf.get(name) ?? 0) > count;
    if (this.#allNth > count || isLater(key.coordinate) || isLater(identityOf(key))) return true;
    return hasResultTags ? this.#tagNth > count : subjects.some(isLater);
  }

  add({ keys, tags, coordinates = [], isClear = false }: InvalidationNames): void {
    const nth = ++this.count;
    for (const name of [...coordinates, ...keys.map(identityOf), ...tags]) this.#lastOf.set(name, nth);
    if (tags.length > 0) this.#tagNth = nth;
    if (this.#lastOf.size <= MAX_NAMES && !isClear) return;
    this.#lastOf.clear();
    this.#allNth = nth;
  }
}

/** What this process has invalidated since some moment. */
export interface InvalidationCount {
  /** Changes when an invalidation by this process begins and when it has ended. */
  readonly count: number;
  /**
   * Whether something that concerns an entry may have been invalidated since there were `count`.
   * `subjects`: the tags known before its load. `hasResultTags`: any tag can be one of its value.
   */
  hasChangedSince(count: number, key: EntryIdentity, subjects: readonly Subject[], hasResultTags: boolean): boolean;
}
