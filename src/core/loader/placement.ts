import { CachedError } from "../base/errors.js";
import { idText } from "../keys/canonical.js";

/**
 * Finds the values that a batch function has returned in the place of another id: rows in the order of the source, one too
 * many and one too few. With DataLoader, one request gets them; from the cache, everybody would.
 *
 * A value with another id is misplaced if it belongs to another id of the call, or if the values of the loader have the ids
 * that they are loaded by: the loader may be one by another key, such as a slug.
 */
export class Placement<Id, Value> {
  readonly #name: string;
  readonly #idOf: IdOf<Value> | undefined;
  /** Whether values have the ids that they are loaded by, as the first ones have shown. Undefined: not known yet. */
  #isByOwnId: boolean | undefined;

  constructor(name: string, idOf: IdOf<Value> | undefined) {
    this.#name = name;
    this.#idOf = idOf;
    this.#isByOwnId = idOf === undefined ? undefined : true;
  }

  /** Returns the mistake in the value of each of the ids. Undefined: there is none. `given`: the ids after the call. */
  mistakesIn(
    ids: readonly Id[],
    given: readonly Id[],
    values: ArrayLike<Value | Error>,
  ): readonly (CachedError | undefined)[] {
    const isUnchanged = areUnchanged(given, ids);
    const asked = ids.map(requestedText);
    const found = ids.map((_, index) => this.#textIn(values[index] as Value));
    const all = new Set(asked);
    this.#isByOwnId ??= isByOwnId(asked, found, all);
    return found.map((text, index) => {
      const requested = asked[index];
      if (text !== undefined && text === requested) return undefined;
      if (!isUnchanged) return this.#mistake(IDS_CHANGED);
      if (text === undefined || requested === undefined) return undefined;
      return this.#isByOwnId === true || all.has(text) ? this.#mistake(MISPLACED) : undefined;
    });
  }

  #textIn(value: Value): string | undefined {
    if (this.#idOf === false || typeof value !== "object" || value === null) return undefined;
    try {
      return idText(this.#idOf === undefined ? (value as { readonly id?: unknown }).id : this.#idOf(value));
    } catch {
      return undefined;
    }
  }

  #mistake(what: string): CachedError {
    const coordinate = this.#name;
    return new CachedError("CACHED_VALUE_MISPLACED", `\`${coordinate}\`: the value is not cached: ${what}`, {
      coordinate,
    });
  }
}

/** Returns the id that a value has, or undefined if it has none. False: the ids of values are not those of the loader. */
export type IdOf<Value> = ((value: Value) => unknown) | false;

/**
 * Returns the ids that a function of the user gets: a list of its own, which it can change without effect on what the
 * cache takes its results for. `isFrozen`: it cannot sort or shorten them, which throws at the place of the mistake.
 */
export const givenIds = <Id>(ids: readonly Id[], isFrozen: boolean): readonly Id[] =>
  isFrozen ? Object.freeze(ids.slice()) : ids.slice();

/** Whether a function has left the ids that it was given as they were. */
export const areUnchanged = <Id>(given: readonly Id[], ids: readonly Id[]): boolean =>
  given.length === ids.length && given.every((id, index) => Object.is(id, ids[index]));

/** Ids can be objects that have an `id` beside other parts of a key. */
function requestedText(id: unknown): string | undefined {
  try {
    return idText(id) ?? idText((id as { readonly id?: unknown } | undefined)?.id);
  } catch {
    return undefined;
  }
}

/** Ids of two types can be the same by chance, so as many values must have their own as have one that was not asked for. */
function isByOwnId(
  asked: readonly (string | undefined)[],
  found: readonly (string | undefined)[],
  all: ReadonlySet<string | undefined>,
): boolean | undefined {
  const own = found.filter((text, index) => text !== undefined && text === asked[index]).length;
  const strange = found.filter((text) => text !== undefined && !all.has(text)).length;
  return own + strange === 0 ? undefined : own >= strange;
}

const MISPLACED =
  "expected `batch` to return each value in the place of its id, got one with another `id`; return ids.map((id) => rowsById.get(id)), or set `idOf` if the ids of values are not those of the loader";
const IDS_CHANGED =
  "expected `batch` to leave `ids` as it is, got it in another order or number when `batch` returned; sort a copy, such as [...ids].sort()";
