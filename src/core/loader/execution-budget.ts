import { CachedError } from "../base/errors.js";

/** What one execution may make the cache do, beyond what grows with the request itself. See `LimitOptions`. */
export interface ExecutionLimits {
  readonly maxKeyBytes: number;
  readonly maxCopyBytes: number;
  readonly maxTagCombinations: number;
}

/**
 * What an execution has used of its limits. A request of a few kilobytes can name one large variable in thousands of
 * aliases, ask for one large value as often, or multiply the members of two lists. (P13)
 */
export class ExecutionBudget {
  readonly #limits: ExecutionLimits;
  #keyBytes = 0;
  #copyBytes = 0;
  #combinations = 0;

  constructor(limits: ExecutionLimits) {
    this.#limits = limits;
  }

  /** Throws `CACHED_KEY_UNUSABLE` if the keys of the execution are too large already. To be called before a key is made. */
  checkKeys(coordinate: string): void {
    const { maxKeyBytes } = this.#limits;
    if (this.#keyBytes > maxKeyBytes)
      throw overLimit(coordinate, `${maxKeyBytes} bytes of arguments in the keys of one execution`, "maxKeyBytes");
  }

  /** Counts a key that was made. `input`: its canonical text. */
  addKey({ input }: { readonly input: string }): void {
    this.#keyBytes += input.length;
  }

  /** Counts the tags that a template with several lists makes. Throws `CACHED_KEY_UNUSABLE` if they are too many. */
  addCombinations(count: number, coordinate: string): void {
    const { maxTagCombinations: most } = this.#limits;
    this.#combinations += count;
    if (this.#combinations > most)
      throw overLimit(
        coordinate,
        `${most} tags of templates with several lists in one execution`,
        "maxTagCombinations",
      );
  }

  /** Counts a copy of a value that was read before. Returns whether it may be made; otherwise its readers share one. */
  mayCopy(bytes: number): boolean {
    this.#copyBytes += bytes;
    return this.#copyBytes <= this.#limits.maxCopyBytes;
  }
}

const overLimit = (coordinate: string, expected: string, option: string): CachedError =>
  new CachedError(
    "CACHED_KEY_UNUSABLE",
    `\`${coordinate}\` is not cached in the rest of a request: expected at most ${expected}, got more; raise createCache({ limits: { ${option} } }) if an honest client sends such requests`,
    { coordinate },
  );
