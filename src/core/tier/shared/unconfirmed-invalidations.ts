import type { EntryIdentity, Subject } from "../../keys/key.js";

/**
 * The invalidations of this process that the store has not confirmed. Until it has, this process
 * does not read what they concern from the store. Too many become one of everything.
 */
export class UnconfirmedInvalidations {
  readonly #keys = new Map<string, EntryIdentity>();
  /**
   * The `add` call that added a name last. `subjects`: the tags of responses and other entries that
   * contain the named ones. `clear`: has one name, if everything has to be invalidated.
   */
  readonly #addedBy = {
    keys: new Map<string, number>(),
    tags: new Map<Subject, number>(),
    coordinates: new Map<string, number>(),
    subjects: new Map<Subject, number>(),
    clear: new Map<"*", number>(),
  };
  #addCount = 0;
  /** Whether there are none. Not computed, since every hit asks. */
  allowReads = true;

  get size(): number {
    const { keys, tags, coordinates, clear } = this.#addedBy;
    return keys.size + tags.size + coordinates.size + clear.size;
  }

  /** Whether everything has to be invalidated. */
  get isClear(): boolean {
    return this.#addedBy.clear.size > 0;
  }

  /** `subjects`: those of all names. Returns whether the names became too many with this call. */
  add({ keys, tags, coordinates = [], isClear = false }: InvalidationNames, subjects = tags): boolean {
    const addedBy = this.#addedBy;
    const nth = ++this.#addCount;
    if (isClear || (this.isClear && keys.length + tags.length + coordinates.length > 0)) this.addClear();
    if (this.isClear) return false;
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

  /** Whether an entry of `key`, or one under one of `tags`, may be one that should be gone. */
  has(key: EntryIdentity | undefined, tags: { readonly subjects: readonly Subject[] }): boolean {
    if (this.allowReads) return false;
    if (this.isClear) return true;
    const { keys, coordinates, subjects } = this.#addedBy;
    const isOfKey = key !== undefined && (keys.has(identityOf(key)) || coordinates.has(key.coordinate));
    return isOfKey || tags.subjects.some((subject) => subjects.has(subject));
  }

  /** Returns all names. `confirm` removes those that were not added again since. */
  snapshot(): Required<InvalidationNames> & { confirm(): void } {
    const { tags, coordinates } = this.#addedBy;
    const upTo = this.#addCount;
    const confirm = (): void => {
      for (const names of Object.values(this.#addedBy) as Map<unknown, number>[])
        for (const [name, addedBy] of names) if (addedBy <= upTo) names.delete(name);
      for (const identity of this.#keys.keys()) if (!this.#addedBy.keys.has(identity)) this.#keys.delete(identity);
      this.allowReads = this.size === 0;
    };
    const names = { keys: [...this.#keys.values()], tags: [...tags.keys()], coordinates: [...coordinates.keys()] };
    return { ...names, isClear: this.isClear, confirm };
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

export const MAX_NAMES = 10_000;

/** What an entry has in common in all variants of its key form. */
const identityOf = ({ coordinate, digest }: EntryIdentity): string => `${coordinate}:${digest}`;

/** What this process has invalidated last, for requests that remember what they have read. */
export class RecentInvalidations {
  /** The `count` of the last invalidation of each coordinate, entry (`identityOf`) and tag. */
  readonly #lastOf = new Map<string | Subject, number>();
  /** The `count` of the last one that concerns everything, or of which the names were dropped. */
  #allNth = 0;
  /** The `count` of the last invalidation of a tag. */
  #tagNth = 0;
  /** Changes when an invalidation by this process begins and when it has ended. */
  count = 0;

  /**
   * Whether something that concerns an entry may have been invalidated since there were `count`.
   * `subjects`: the tags known before its load. `hasResultTags`: any tag can be one of its value.
   */
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

export type InvalidationCount = Pick<RecentInvalidations, "count" | "hasChangedSince">;
