import { isPlainObject } from "../../base/built-in.js";
import { CachedError } from "../../base/errors.js";
import type { Key, Subject } from "../../keys/key.js";
import type { FieldRule } from "../../schema-rules.js";
import type { InvalidationClock } from "../../tier/shared/invalidation-clock.js";

/**
 * How old the sources of one field are: its parents, which were read before its loads begin. A value that is made of a parent from before an
 * invalidation of the value is its caller's alone: the position of its lease is later, and would hide the invalidation. (P2)
 *
 * Most resolvers read nothing of their parent but what is in the key. Where it matters, they get a copy of it that tells what they read.
 */
export class SourceAge {
  readonly #invalidations: InvalidationClock;
  readonly #hasSource: boolean;
  readonly #hasResultTags: boolean;
  /** The properties of the source that are in the key. */
  readonly #keyed: ReadonlySet<string>;
  /** Whether a load was seen to read more of its source than its key has. */
  #readsMore = false;

  constructor({ isRoot, keyPaths, resultTags, entities }: FieldRule, invalidations: InvalidationClock) {
    const steps = keyPaths.flatMap((path) => (path.root === "source" ? [path.steps] : []));
    this.#invalidations = invalidations;
    // A key that has all of its source says how old that is.
    this.#hasSource = !isRoot && steps.every(({ length }) => length > 0);
    this.#hasResultTags = resultTags.length > 0 || entities !== undefined;
    this.#keyed = new Set(["__typename", ...steps.flatMap(([step = "", next]) => (next === undefined ? [step] : []))]);
  }

  /** Whether the result of a load with this source would be its caller's alone. */
  isOutdated(source: unknown, position: number, key: Key, tags: Tags): boolean {
    return (this.#readsMore || !isPlainObject(source)) && this.isOlder(source, position, key, tags);
  }

  /** Whether the value was invalidated since this source was read. */
  isOlder(source: unknown, position: number, key: Key, tags: Tags): boolean {
    return this.#mayBeOlder(source, position) && this.#invalidations.isOlderThanKnown(position, key, tags.subjects);
  }

  /** Begins a load. Undefined: nothing was invalidated since its source was read. */
  begin(source: unknown, position: number, key: Key, tags: Tags): OlderSource | undefined {
    if (!this.#mayBeOlder(source, position)) return undefined;
    const isOlder = this.#invalidations.isOlderThanKnown(position, key, tags.subjects);
    const isWatched = (isOlder || this.#hasResultTags) && isPlainObject(source);
    const older = new OlderSource(source, position, isOlder, this.#invalidations);
    if (isWatched) older.watch(this.#keyed);
    return older;
  }

  /**
   * Returns whether the result of a load that has ended is its caller's alone. `subjects`: all its tags. `isSerializable`: false of a result that
   * contains the copy.
   */
  hasOutdated(older: OlderSource, subjects: readonly Subject[], isSerializable: boolean): boolean {
    const isRead = older.isRead || !isSerializable;
    if (isRead && older.isKnownToBeOlder) this.#readsMore = true;
    return isRead && (older.isKnownToBeOlder || older.isBefore(subjects));
  }

  #mayBeOlder(source: unknown, position: number): source is object {
    return this.#hasSource && position < this.#invalidations.latest && typeof source === "object" && source !== null;
  }
}

/** The tags that are known before a load. */
interface Tags {
  readonly subjects: readonly Subject[];
}

/** The source of one load, which is older than the latest invalidation. */
export class OlderSource {
  /** What the resolver gets. */
  source: object;
  /** Whether something of it was invalidated meanwhile, by what is known before the load. */
  readonly isKnownToBeOlder: boolean;
  /** Whether the load has read what is not in its key. So it counts if nobody watches. */
  isRead = true;
  readonly #original: object;
  readonly #position: number;
  readonly #begunAt: number;
  readonly #invalidations: InvalidationClock;

  constructor(source: object, position: number, isKnownToBeOlder: boolean, invalidations: InvalidationClock) {
    this.source = source;
    this.#original = source;
    this.isKnownToBeOlder = isKnownToBeOlder;
    this.#position = position;
    this.#begunAt = invalidations.shownPosition;
    this.#invalidations = invalidations;
  }

  /** Whether one of the tags was invalidated between the source and the load. */
  isBefore(subjects: readonly Subject[]): boolean {
    const isBetween = (at: number): boolean => at > this.#position && at <= this.#begunAt;
    return (
      isBetween(this.#invalidations.lastOf("hard", subjects)) || isBetween(this.#invalidations.lastOf("soft", subjects))
    );
  }

  /** Returns what a resolver has returned: the source itself in the place of its copy. */
  uncopied(returned: unknown): unknown {
    if (returned instanceof Promise) return returned.then((value) => this.uncopied(value));
    if (returned !== this.source) return returned;
    this.isRead = true;
    return this.#original;
  }

  /** Gives the resolver a copy of the source that tells when something else than `keyed` is read. */
  watch(keyed: ReadonlySet<string>): void {
    const source = this.#original;
    this.isRead = false;
    const copy = Object.create(Object.getPrototypeOf(source) as object | null) as object;
    for (const name of Reflect.ownKeys(source)) {
      const own = Object.getOwnPropertyDescriptor(source, name) as PropertyDescriptor;
      const isKeyed = typeof name === "string" && keyed.has(name);
      Object.defineProperty(copy, name, isKeyed ? own : this.#told(source, name, own));
    }
    this.source = copy;
  }

  #told(source: object, name: PropertyKey, { enumerable = false }: PropertyDescriptor): PropertyDescriptor {
    return {
      get: () => {
        this.isRead = true;
        return Reflect.get(source, name) as unknown;
      },
      set: (value: unknown) => {
        if (!Reflect.set(source, name, value))
          throw new TypeError(`Cannot assign to read only property '${String(name)}' of object`);
      },
      enumerable,
      configurable: true,
    };
  }
}

/** Says that a parent is served although a value that is made of it has been invalidated. */
export const sourceOutdated = (coordinate: string): CachedError =>
  new CachedError(
    "CACHED_SOURCE_OUTDATED",
    `\`${coordinate}\`: a value is not cached: expected a parent that was read after the last invalidation of the value, got one that the cache still serves; give the field that returns the parent the tag as well, or let the resolver read what it needs by the parent's id`,
    { coordinate },
  );
