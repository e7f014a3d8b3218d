import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.js";
import type { Key } from "../../keys/key.js";

/**
 * The keys whose loads fail with errors that concern one caller only, such as a missing permission.
 * The next caller loads for itself, so callers that are all refused would load one after the other.
 * After the second such error in a row, each caller of the key loads for itself for a while.
 */
export class CallerErrors {
  readonly #clock: Clock;
  readonly #unsharedMs: number;
  /** `unsharedUntil`: on the clock of this process. */
  readonly #seriesOf = new LRUCache<string, { count: number; unsharedUntil: number }>({ max: MAX_KEYS });

  constructor(clock: Clock, unsharedMs: number) {
    this.#clock = clock;
    this.#unsharedMs = unsharedMs;
  }

  /** Records such an error. Returns whether the key is not shared from now on. */
  add({ input }: Key): boolean {
    const series = this.#seriesOf.get(input) ?? { count: 0, unsharedUntil: 0 };
    this.#seriesOf.set(input, series);
    series.count++;
    const now = this.#clock.now();
    if (series.count < MAX_IN_A_ROW || series.unsharedUntil > now) return false;
    series.unsharedUntil = now + this.#unsharedMs;
    return true;
  }

  /** Records that a load has ended in another way, which ends the series. */
  endSeries({ input }: Key): void {
    const series = this.#seriesOf.get(input);
    if (series !== undefined) series.count = 0;
  }

  /** Returns whether each caller of the key loads for itself. */
  isUnshared({ input }: Key): boolean {
    return this.#seriesOf.size > 0 && (this.#seriesOf.get(input)?.unsharedUntil ?? 0) > this.#clock.now();
  }
}

/** Maximum number of keys with such errors. The least recently used are dropped. */
const MAX_KEYS = 1_000;
/** The number of loads in a row after which a key is not shared. */
const MAX_IN_A_ROW = 2;
