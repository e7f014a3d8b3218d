import type { Clock } from "../../base/clock.js";

/**
 * Counts the tags that are invalidated as lists. Each takes a place in the log of invalidations,
 * and what was loaded before the oldest record there is absent: with lists of thousands of ids, a
 * few small requests would empty the cache. Over a bound, all values whose tags begin like those of
 * the list are invalidated instead, by one subject. (P13)
 */
export class ListedTags {
  readonly #ofExecutions = new WeakMap<object, number>();
  readonly #ofClients: Minute;
  readonly #ofCode: Minute;

  constructor(clock: Clock) {
    this.#ofClients = new Minute(clock, MAX_OF_CLIENTS);
    this.#ofCode = new Minute(clock, MAX_OF_CODE);
  }

  /** Returns whether a mutation, owned by `execution`, may invalidate so many tags one by one. */
  allowMutation(count: number, execution: object): boolean {
    if (count <= 1) return true;
    const ofExecution = count + (this.#ofExecutions.get(execution) ?? 0);
    if (ofExecution > MAX_OF_EXECUTION || !this.#ofClients.take(count)) return false;
    this.#ofExecutions.set(execution, ofExecution);
    return true;
  }

  /** The same for a call of the API, whose lists the application has chosen. */
  allowCall(count: number): boolean {
    return count <= 1 || this.#ofCode.take(count);
  }
}

/** By the mutations of one execution. */
export const MAX_OF_EXECUTION = 1_000;
/** In a minute of one process, by mutations and by calls. A log has at least the last 60,000. */
export const MAX_OF_CLIENTS = 2_000;
const MAX_OF_CODE = 20_000;

/** Returns how long so many take, appended again and again, so as to stay below that bound. */
export const msBetween = (count: number): number => (count * 60_000) / MAX_OF_CODE;

class Minute {
  #endsAt = Number.NEGATIVE_INFINITY;
  #taken = 0;

  constructor(
    private readonly clock: Clock,
    private readonly max: number,
  ) {}

  take(count: number): boolean {
    const now = this.clock.now();
    if (now >= this.#endsAt) {
      this.#endsAt = now + 60_000;
      this.#taken = 0;
    }
    if (this.#taken + count > this.max) return false;
    this.#taken += count;
    return true;
  }
}
