import type { Clock } from "../clock.js";

/** So many failures in a row open it, if nothing else is said. */
const FAILURES = 5;
const FIRST_PAUSE_MS = 250;
const LAST_PAUSE_MS = 5_000;

/**
 * Keeps callers from waiting for something that is broken: after some failures in a row, five if nothing else is said, nothing is tried for 250 ms, then one probe at a time
 * is let through, and each probe that fails doubles the pause, up to 5 s. One success closes it.
 * Source: M. Nygard, "Release It!", chapter "Circuit Breaker".
 */
export class Breaker {
  readonly #clock: Clock;
  readonly #most: number;
  #failures = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #openUntil: number | undefined;

  constructor(clock: Clock, most: number = FAILURES) {
    this.#clock = clock;
    this.#most = most;
  }

  mayTry(): boolean {
    if (this.#openUntil === undefined) return true;
    if (this.#clock.now() < this.#openUntil) return false;
    // The one who asks now is the probe; the next may try only if nothing is heard of it for a pause.
    this.#openUntil = this.#clock.now() + this.#pauseMs;
    return true;
  }

  /** Answers whether this ended a time of failures. */
  succeeded(): boolean {
    const hadFailed = this.#failures > 0;
    this.#failures = 0;
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#openUntil = undefined;
    return hadFailed;
  }

  failed(): void {
    this.#failures++;
    if (this.#failures < this.#most) return;
    if (this.#openUntil !== undefined && this.#failures > this.#most)
      this.#pauseMs = Math.min(this.#pauseMs * 2, LAST_PAUSE_MS);
    this.#openUntil = this.#clock.now() + this.#pauseMs;
  }
}
