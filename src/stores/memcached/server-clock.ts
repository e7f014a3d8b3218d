import type { Clock } from "../../core/base/clock.js";
import { learnOffset, type ServerOffset } from "../../core/store/server-offset.js";

/**
 * Estimates one server's time in milliseconds. The server reports whole seconds, so the offset to
 * the process's clock is learned from many replies: all processes converge on the moment at which
 * the server's second changes, within about 50 ms of each other. Time is requested only along with
 * operations that need it, never on a timer.
 */
export class ServerClock {
  readonly #fetchSeconds: () => Promise<number>;
  readonly #clock: Clock;
  /** The smallest that the offset can be. */
  #offset: ServerOffset | undefined;
  /**
   * The largest that the offset can be: when the request was sent, the server's next second had not
   * begun.
   */
  #maxOffset: ServerOffset | undefined;
  #latest = 0;
  #requests = 0;
  #nextAt = Number.NEGATIVE_INFINITY;
  #pending: Promise<void> | undefined;

  constructor(fetchSeconds: () => Promise<number>, clock: Clock) {
    this.#fetchSeconds = fetchSeconds;
    this.#clock = clock;
  }

  /**
   * Resolves once the time is known. Rejects if it was never known and the server does not report
   * it.
   */
  async ready(): Promise<void> {
    if (this.#clock.now() >= this.#nextAt) this.#pending ??= this.#learn().finally(() => (this.#pending = undefined));
    if (this.#offset === undefined) await this.#pending;
    // A request that only improves a known estimate delays nothing, and may fail without
    // consequence.
    else this.#pending?.catch(() => undefined);
  }

  /** Returns the estimate. Call `ready` first. */
  time(): ServerTime {
    const leastMs = this.#offset?.ms ?? 0;
    // The learned offset decays by about a millisecond between two replies. The time must not go
    // back because of that.
    this.#latest = Math.max(this.#latest, this.#clock.now() + leastMs);
    return { now: this.#latest, slackMs: Math.max(0, (this.#maxOffset?.ms ?? leastMs) - leastMs) };
  }

  async #learn(): Promise<void> {
    const sentAt = this.#clock.now();
    const serverAt = (await this.#fetchSeconds()) * 1000;
    const now = this.#clock.now();
    const isSetBack = this.#offset !== undefined && sentAt + this.#offset.ms > serverAt + SET_BACK_MS;
    if (isSetBack) {
      this.#offset = this.#maxOffset = undefined;
      this.#latest = 0;
    }
    this.#offset = learnOffset(this.#offset, serverAt, now);
    const maxMs = serverAt + 1000 - sentAt;
    const knownMaxMs =
      this.#maxOffset === undefined ? maxMs : this.#maxOffset.ms + (now - this.#maxOffset.learnedAt) / 1000;
    this.#maxOffset = { ms: Math.min(maxMs, knownMaxMs), learnedAt: now };
    this.#requests++;
    this.#nextAt = now + (this.#requests < EARLY_REQUESTS ? EARLY_MS : LATER_MS);
  }
}

/**
 * The first requests follow each other closely, until the start of the server's second is known
 * well.
 */
const EARLY_REQUESTS = 20;
const EARLY_MS = 50;
const LATER_MS = 970;
/** A server this far behind the learned time has been set back, or replaced by another one. */
const SET_BACK_MS = 2_500;

/** A server's time, as far as it is known. */
export interface ServerTime {
  /** The earliest that the server's time can be, in milliseconds. */
  readonly now: number;
  /** How much later it may be. */
  readonly slackMs: number;
}
