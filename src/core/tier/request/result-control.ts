import { CachedError, describeSetting } from "../../base/errors.js";
import { unknownName } from "../../base/option-names.js";
import type { Subject } from "../../keys/key.js";
import { checkTagsOfValue } from "../../keys/tag-template.js";
import { MEANINGS } from "../../policy/policy.js";
import type { OwnFreshness } from "../../store/entry-layout.js";

export class LoadControl implements ResultControl {
  #isSkipped = false;
  #freshness: OwnFreshness | undefined;
  #tags: Set<Subject> | undefined;
  #hasEnded = false;

  /** `subjectsOf`: returns what is stored of tags. */
  constructor(
    private readonly coordinate: string,
    private readonly subjectsOf: (tags: readonly string[]) => readonly Subject[],
  ) {}

  skip(): void {
    this.#checkOpen("skip()");
    this.#isSkipped = true;
  }

  set(settings: ResultSettings): void {
    this.#checkOpen("set()");
    checkSettings(this.coordinate, settings);
    const { maxAge, staleWhileRevalidate, tags } = settings;
    if (maxAge !== undefined) this.#freshness = { ...this.#freshness, maxAgeMs: maxAge * 1000 };
    if (staleWhileRevalidate !== undefined)
      this.#freshness = { ...this.#freshness, staleWhileRevalidateMs: staleWhileRevalidate * 1000 };
    if (tags !== undefined) this.addSubjects(this.subjectsOf(tags));
  }

  /** Adds what an invalidation of the result names besides tags. */
  addSubjects(subjects: readonly Subject[]): void {
    this.#tags ??= new Set();
    for (const subject of subjects) this.#tags.add(subject);
  }

  /** Ends the control. Returns what was set; undefined if nothing was. */
  end(): OwnSettings | undefined {
    this.#hasEnded = true;
    if (!this.#isSkipped && this.#freshness === undefined && this.#tags === undefined) return undefined;
    return { isSkipped: this.#isSkipped, freshness: this.#freshness, tags: [...(this.#tags ?? [])] };
  }

  #checkOpen(call: string): void {
    if (!this.#hasEnded) return;
    throw invalid(
      this.coordinate,
      `expected ${call} before the load has ended, got a call after it; await what decides about the result before you return it`,
    );
  }
}

/** What a load can set of its result. */
export interface ResultSettings {
  /**
   * How long the result is fresh, in seconds, counted from the start of its load. At most
   * `maxAgeLimit` of the policy, by default its `maxAge`. 0: the result is not stored, and removes
   * the value that it replaces.
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
 * load of the cache, nothing has an effect.
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
}

export interface OwnSettings {
  readonly isSkipped: boolean;
  readonly freshness: OwnFreshness | undefined;
  /** Tags besides those of the policy. */
  readonly tags: readonly Subject[];
}

/** Returns the control of a result that is not cached: it checks its arguments. */
export const inertControl = (coordinate: string): ResultControl => new LoadControl(coordinate, () => []);

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

const invalid = (coordinate: string, problem: string): CachedError =>
  new CachedError("CACHED_RESULT_INVALID", `\`${coordinate}\`: ${problem}`, { coordinate });
