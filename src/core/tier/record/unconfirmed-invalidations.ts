import type { EntryIdentity, Subject } from "../../keys/key.js";

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

/**
 * The invalidations of this process that the store has not confirmed. Until it has, this process
 * does not read their entries from the store, which may still hold old values. Each name is held
 * once, however often it was invalidated. If there are too many to hold, all of them become one
 * invalidation of everything under the prefix, and this process reads nothing from the store until
 * that is confirmed.
 */
export class UnconfirmedInvalidations {
  /** Each key and tag with the number of the `add` call that added it last. */
  readonly #keys = new Map<string, { readonly key: EntryIdentity; readonly addedBy: number }>();
  readonly #tags = new Map<Subject, number>();
  readonly #coordinates = new Map<string, number>();
  /** What entries are tagged with that contain others, such as responses: the subjects of all these names. */
  readonly #subjects = new Map<Subject, number>();
  /** The number of the last `add` call that the clear has to cover. Undefined: no clear. */
  #clearAddedBy: number | undefined;
  #addCount = 0;
  /** Whether everything may be read from the store now: there are none. */
  allowReads = true;

  get size(): number {
    return this.#keys.size + this.#tags.size + this.#coordinates.size + (this.#clearAddedBy === undefined ? 0 : 1);
  }

  get counts(): UnconfirmedCounts {
    return {
      keys: this.#keys.size,
      tags: this.#tags.size,
      coordinates: this.#coordinates.size,
      everything: this.#clearAddedBy !== undefined,
    };
  }

  /** `subjects`: those of all names. Returns whether the names became too many to hold with this call. */
  add({ keys, tags, coordinates = [], isClear = false }: Names, subjects: readonly Subject[] = tags): boolean {
    this.#addCount++;
    if (isClear) this.addClear();
    if (this.#clearAddedBy !== undefined) {
      if (keys.length + tags.length + coordinates.length > 0) this.#clearAddedBy = this.#addCount;
      return false;
    }
    // As many as the schemas and loaders of this process have.
    for (const coordinate of coordinates) this.#coordinates.set(coordinate, this.#addCount);
    for (const key of keys) this.#keys.set(identityOf(key), { key, addedBy: this.#addCount });
    for (const tag of tags) this.#tags.set(tag, this.#addCount);
    for (const subject of subjects) this.#subjects.set(subject, this.#addCount);
    this.allowReads = this.size === 0;
    if (this.#keys.size <= MAX_NAMES && this.#tags.size <= MAX_NAMES) return false;
    this.addClear();
    return true;
  }

  /** Adds an invalidation of everything under the prefix, which covers all names. */
  addClear(): void {
    this.#addCount++;
    this.#clearAddedBy = this.#addCount;
    this.#keys.clear();
    this.#tags.clear();
    this.#coordinates.clear();
    this.#subjects.clear();
    this.allowReads = false;
  }

  /** Returns whether an entry of `key`, under one of `tags`, or with a part under one of them may be one that should be gone. */
  has(key: EntryIdentity | undefined, tags: { readonly subjects: readonly Subject[] }): boolean {
    if (this.allowReads) return false;
    if (this.#clearAddedBy !== undefined) return true;
    const isOfKey = key !== undefined && (this.#keys.has(identityOf(key)) || this.#coordinates.has(key.coordinate));
    return isOfKey || tags.subjects.some((subject) => this.#subjects.has(subject));
  }

  /**
   * Returns all names. Call `confirm` when the store has confirmed them: it removes those that were
   * not added again in the meantime.
   */
  snapshot(): PendingNames & { confirm(): void } {
    const keys = [...this.#keys];
    const tags = [...this.#tags.keys()];
    const coordinates = [...this.#coordinates.keys()];
    const subjects = [...this.#subjects.keys()];
    const isClear = this.#clearAddedBy !== undefined;
    const upTo = this.#addCount;
    const confirm = (): void => {
      for (const [identity] of keys)
        if ((this.#keys.get(identity)?.addedBy ?? upTo) <= upTo) this.#keys.delete(identity);
      forget(this.#tags, tags, upTo);
      forget(this.#coordinates, coordinates, upTo);
      forget(this.#subjects, subjects, upTo);
      if (isClear && (this.#clearAddedBy ?? upTo) <= upTo) this.#clearAddedBy = undefined;
      this.allowReads = this.size === 0;
    };
    return { keys: keys.map(([, { key }]) => key), tags, coordinates, isClear, confirm };
  }
}

/** Deletes the names that no later `add` call than `upTo` has added. */
function forget<Name>(addedBy: Map<Name, number>, names: readonly Name[], upTo: number): void {
  for (const name of names) if ((addedBy.get(name) ?? upTo) <= upTo) addedBy.delete(name);
}

/** Returns what the names of an entry in all variants with the same key form have in common. */
export const identityOf = ({ coordinate, digest }: EntryIdentity): string => `${coordinate}:${digest}`;
