import type { Clock } from "../clock.js";
import { learnOffset, type ServerOffset } from "../store/server-offset.js";

/** So many questions follow closely on one another, until the second's end is known well; after that, one in a while. */
const EARLY_QUESTIONS = 20;
const EARLY_MS = 50;
const LATER_MS = 970;
/** A server that is so far behind what was learnt of it has been set back, or is another one. */
const SET_BACK_MS = 2_500;

/** A server's time as far as it is known. */
export interface ServerTime {
  /** The earliest it can be. */
  readonly now: number;
  /** It may be later by so much. */
  readonly slackMs: number;
}

/**
 * One server's time, in milliseconds. The server tells whole seconds, so the offset to our clock is learnt from many answers: all processes
 * come to count from the moment at which the server's second changes, within about a twentieth of a second of each other.
 * It asks along with the operations that need the time, and never by itself.
 */
export class ServerClock {
  readonly #askSeconds: () => Promise<number>;
  readonly #clock: Clock;
  #offset: ServerOffset | undefined;
  /** The greatest that the offset can be, by the same reckoning backwards: before the question was sent, the next second had not begun. */
  #most: ServerOffset | undefined;
  #latest = 0;
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
  time(): ServerTime {
    const leastMs = this.#offset?.ms ?? 0;
    // What is learnt fades by a millisecond between two answers; time does not go back for that.
    this.#latest = Math.max(this.#latest, this.#clock.now() + leastMs);
    return { now: this.#latest, slackMs: Math.max(0, (this.#most?.ms ?? leastMs) - leastMs) };
  }

  async #ask(): Promise<void> {
    const askedAt = this.#clock.now();
    const serverAt = (await this.#askSeconds()) * 1000;
    const now = this.#clock.now();
    const isSetBack = this.#offset !== undefined && askedAt + this.#offset.ms > serverAt + SET_BACK_MS;
    if (isSetBack) {
      this.#offset = this.#most = undefined;
      this.#latest = 0;
    }
    this.#offset = learnOffset(this.#offset, serverAt, now);
    const most = serverAt + 1000 - askedAt;
    const known = this.#most === undefined ? most : this.#most.ms + (now - this.#most.learnedAt) / 1000;
    this.#most = { ms: Math.min(most, known), learnedAt: now };
    this.#asked++;
    this.#nextAt = now + (this.#asked < EARLY_QUESTIONS ? EARLY_MS : LATER_MS);
  }
}
