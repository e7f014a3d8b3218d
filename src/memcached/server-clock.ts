import type { Clock } from "../clock.js";
import { learnOffset, type ServerOffset } from "../store/server-offset.js";

/** So many questions follow closely on one another, until the second's end is known well; after that, one in a while. */
const EARLY_QUESTIONS = 20;
const EARLY_MS = 50;
const LATER_MS = 970;
/** A server that is so far behind what was learnt of it has been set back, or is another one. */
const SET_BACK_MS = 2_500;

/**
 * One server's time, in milliseconds. The server tells whole seconds, so the offset to our clock is learnt from many answers: all processes
 * come to count from the moment at which the server's second changes, within about a twentieth of a second of each other.
 * It asks along with the operations that need the time, and never by itself.
 */
export class ServerClock {
  readonly #askSeconds: () => Promise<number>;
  readonly #clock: Clock;
  #offset: ServerOffset | undefined;
  #asked = 0;
  #nextAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;

  constructor(askSeconds: () => Promise<number>, clock: Clock) {
    this.#askSeconds = askSeconds;
    this.#clock = clock;
  }

  /** Resolves once the time is known. Rejects where it never was, and the server does not tell. */
  async ready(): Promise<void> {
    if (this.#clock.now() >= this.#nextAt) this.#asking ??= this.#ask().finally(() => (this.#asking = undefined));
    if (this.#offset === undefined) await this.#asking;
    // An answer that is only to make the time more exact is nobody's to wait for, nor its failure.
    else this.#asking?.catch(() => undefined);
  }

  /** After `ready`. */
  now(): number {
    return this.#clock.now() + (this.#offset?.ms ?? 0);
  }

  async #ask(): Promise<void> {
    const askedAt = this.#clock.now();
    const serverAt = (await this.#askSeconds()) * 1000;
    const now = this.#clock.now();
    const isSetBack = this.#offset !== undefined && askedAt + this.#offset.ms > serverAt + SET_BACK_MS;
    this.#offset = learnOffset(isSetBack ? undefined : this.#offset, serverAt, now);
    this.#asked++;
    this.#nextAt = now + (this.#asked < EARLY_QUESTIONS ? EARLY_MS : LATER_MS);
  }
}
