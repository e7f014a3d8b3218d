import { CachedError, describeSetting } from "../../base/errors.js";
import { unknownName } from "../../base/option-names.js";
import type { Subject } from "../../keys/key.js";
import { checkTagsOfValue } from "../../keys/tag-template.js";
import { MEANINGS } from "../../policy/policy.js";
import type { OwnFreshness } from "../../store/body.js";
import type { DecodedValue } from "../entry/entry-decoder.js";

/** The control of the result of one load. */
export class LoadControl implements ResultControl {
  readonly #load: ControlledLoad;
  #isSkipped = false;
  #freshness: OwnFreshness | undefined;
  #tags: Set<Subject> | undefined;
  #reading: Promise<PreviousValue | undefined> | undefined;
  #previous: PreviousValue | undefined;
  #isUnchanged = false;
  #hasEnded = false;

  constructor(load: ControlledLoad) {
    this.#load = load;
  }

  skip(): void {
    this.#checkOpen("skip()");
    this.#isSkipped = true;
  }

  set(settings: ResultSettings): void {
    this.#checkOpen("set()");
    checkSettings(this.#load.coordinate, settings);
    const { maxAge, staleWhileRevalidate, tags } = settings;
    if (maxAge !== undefined) this.#freshness = { ...this.#freshness, maxAgeMs: maxAge * 1000 };
    if (staleWhileRevalidate !== undefined)
      this.#freshness = { ...this.#freshness, staleWhileRevalidateMs: staleWhileRevalidate * 1000 };
    if (tags !== undefined) this.addSubjects(this.#load.subjectsOf(tags));
  }

  /** Adds what an invalidation of the result names besides tags. */
  addSubjects(subjects: readonly Subject[]): void {
    this.#tags ??= new Set();
    for (const subject of subjects) this.#tags.add(subject);
  }

  async previous<Value>(): Promise<Value | undefined> {
    this.#checkOpen("previous()");
    this.#reading ??= this.#load.readPrevious?.() ?? Promise.resolve(undefined);
    const previous = await this.#reading;
    this.#previous = previous;
    return previous?.value as Value | undefined;
  }

  unchanged<Value>(): Value {
    this.#checkOpen("unchanged()");
    if (this.#previous === undefined) throw noPrevious(this.#load.coordinate);
    this.#isUnchanged = true;
    return this.#previous.value as Value;
  }

  /**
   * Throws `CACHED_RESULT_INVALID` if the load has declared its previous value unchanged, but has
   * returned another one.
   */
  checkReturned(value: unknown): void {
    if (!this.#isUnchanged || Object.is(value, this.#previous?.value)) return;
    const { coordinate } = this.#load;
    throw invalid(
      coordinate,
      "expected the load to return what unchanged() has returned, got another value; return it as it is, or do not call unchanged()",
    );
  }

  /** Ends the control. Returns what was set; undefined if nothing was. */
  end(): OwnSettings | undefined {
    this.#hasEnded = true;
    const unchanged = this.#isUnchanged ? this.#previous : undefined;
    if (!this.#isSkipped && this.#freshness === undefined && this.#tags === undefined && unchanged === undefined)
      return undefined;
    const kept = unchanged?.freshness;
    return {
      isSkipped: this.#isSkipped,
      freshness: kept === undefined ? this.#freshness : { ...kept, ...this.#freshness },
      tags: [...(this.#tags ?? [])],
      unchanged,
    };
  }

  #checkOpen(call: string): void {
    if (!this.#hasEnded) return;
    throw invalid(
      this.#load.coordinate,
      `expected ${call} before the load has ended, got a call after it; await what decides about the result before you return it`,
    );
  }
}

/** What a load can set of its result. */
export interface ResultSettings {
  /**
   * How long the result is fresh, in seconds, counted from the start of its load. At most
   * `maxAgeLimit` of the policy, by default its `maxAge`. 0: the result is not stored, and removes the
   * value that it replaces.
   */
  readonly maxAge?: number | undefined;
  /**
   * How long after that the result is served while it is refreshed, in seconds. At most what the
   * policy says, or its `maxAgeLimit` if that is longer.
   */
  readonly staleWhileRevalidate?: number | undefined;
  /** Tags of the result, besides those of the policy. Several calls add up. */
  readonly tags?: readonly string[] | undefined;
}

/**
 * Controls how the result of one load is cached. To be used until the load has ended. Outside of a
 * load of the cache, nothing has an effect and there is no previous value.
 *
 * All methods throw `CACHED_RESULT_INVALID` for invalid arguments, and once the load has ended.
 */
export interface ResultControl {
  /**
   * Stores nothing. Callers in this process that wait for the load get its result. A value that is
   * stored stays as it is.
   */
  skip(): void;
  /** Sets how long the result is served, and adds tags. The last call that sets a property wins. */
  set(settings: ResultSettings): void;
  /**
   * Resolves to the value that this load replaces: a stale or soft-invalidated one, or, for an early
   * refresh, a fresh one. Undefined if there is none, also after a hard invalidation. Read from the
   * store when it is first called; rejects only as described above.
   */
  previous<Value>(): Promise<Value | undefined>;
  /**
   * Declares that the previous value is still current, and returns it, to be returned by the load. The
   * value is fresh again, with the tags, times and cache hints that it had, unless this load sets others.
   *
   * Throws `CACHED_RESULT_INVALID` if `previous` has not resolved to a value before.
   */
  unchanged<Value>(): Value;
}

/** The value that a load replaces. */
export type PreviousValue = Omit<DecodedValue, "kind">;

/** What a load has set of its result. */
export interface OwnSettings {
  readonly isSkipped: boolean;
  readonly freshness: OwnFreshness | undefined;
  /** Tags besides those of the policy. */
  readonly tags: readonly Subject[];
  /** The previous value, if the load has declared it unchanged. */
  readonly unchanged: PreviousValue | undefined;
}

/** What the control of a result needs of its load. */
export interface ControlledLoad {
  readonly coordinate: string;
  /** Returns what is stored of tags. */
  readonly subjectsOf: (tags: readonly string[]) => readonly Subject[];
  /** Reads the value that the load replaces. Undefined: the load replaces none. Never rejects. */
  readonly readPrevious: (() => Promise<PreviousValue | undefined>) | undefined;
}

/** The control of a result that is not cached. */
export class InertControl implements ResultControl {
  readonly #coordinate: string;

  constructor(coordinate: string) {
    this.#coordinate = coordinate;
  }

  skip(): void {
    // There is nothing to skip.
  }

  set(settings: ResultSettings): void {
    checkSettings(this.#coordinate, settings);
  }

  previous(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  unchanged(): never {
    throw noPrevious(this.#coordinate);
  }
}

const SETTINGS = ["maxAge", "staleWhileRevalidate", "tags"];

function checkSettings(coordinate: string, settings: unknown): asserts settings is ResultSettings {
  const place = "set() of its result";
  if (typeof settings !== "object" || settings === null || Array.isArray(settings))
    throw invalid(
      coordinate,
      `${place}: expected an object such as { maxAge: 30 }, got ${describeSetting(settings)}; pass \`maxAge\`, \`staleWhileRevalidate\` or \`tags\``,
    );
  for (const [name, value] of Object.entries(settings)) {
    if (!SETTINGS.includes(name))
      throw invalid(
        coordinate,
        `${place}: ${unknownName(name, { kind: "property", known: SETTINGS, meanings: MEANINGS })}`,
      );
    if (value === undefined) continue;
    if (name === "tags") checkTags(coordinate, place, value);
    else if (typeof value !== "number" || !Number.isFinite(value) || value < 0)
      throw invalid(
        coordinate,
        `${place}: \`${name}\`: expected a number of at least 0 (seconds), got ${describeSetting(value)}; omit it to keep what the policy says, or call skip() to store nothing`,
      );
  }
}

/** The message never contains a tag: tags can contain user data. */
function checkTags(coordinate: string, place: string, tags: unknown): void {
  const problem = !Array.isArray(tags)
    ? `got ${typeof tags === "string" ? "a string" : describeSetting(tags)}`
    : tags.every((tag) => typeof tag === "string" && tag !== "")
      ? undefined
      : "got one with another element";
  if (problem !== undefined)
    throw invalid(
      coordinate,
      `${place}: \`tags\`: expected an array of non-empty strings, ${problem}; pass tags such as ["Movie:7"]`,
    );
  checkTagsOfValue(tags as readonly string[], (mistake) => invalid(coordinate, `${place}: ${mistake}`));
}

const noPrevious = (coordinate: string): CachedError =>
  invalid(
    coordinate,
    "expected unchanged() after previous() has resolved to a value, got a call without one; await previous() first, and load the value if it is undefined",
  );

const invalid = (coordinate: string, problem: string): CachedError =>
  new CachedError("CACHED_RESULT_INVALID", `\`${coordinate}\`: ${problem}`, { coordinate });
