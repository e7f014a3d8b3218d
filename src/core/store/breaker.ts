import type { Clock } from "../base/clock.js";

/**
 * A circuit breaker. It opens after `threshold` consecutive failures (default: 5) and rejects every
 * attempt for 250 ms. Then it admits one probe at a time. Each failed probe doubles the pause, up
 * to `maxPauseMs` (default: 5 s); one success closes the breaker. Failures of attempts that began
 * before it opened change nothing. Source: M. Nygard, "Release It!", chapter "Circuit Breaker".
 */
export class Breaker {
  /** Closed, and nothing has failed since the last success. A property, because hits read it. */
  isCalm = true;
  #failures = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #openUntil: number | undefined;
  #isProbing = false;
  #changedAt: number | undefined;
  /** How often it was reconnected: an attempt that began before the last time says nothing. */
  era = 0;

  constructor(
    private readonly clock: Clock,
    private readonly threshold: number = DEFAULT_THRESHOLD,
    private readonly maxPauseMs: number = MAX_PAUSE_MS,
  ) {}

  get isOpen(): boolean {
    return this.#openUntil !== undefined && this.clock.now() < this.#openUntil;
  }

  get status(): BreakerStatus {
    const state = this.#openUntil === undefined ? "closed" : this.isOpen ? "open" : "half-open";
    return { state, sinceAt: this.#changedAt };
  }

  /** Returns whether an attempt may be made now. An open breaker counts the caller as its probe. */
  mayTry(): boolean {
    if (this.#openUntil === undefined) return true;
    if (this.clock.now() < this.#openUntil) return false;
    // Admits the next probe after one more pause if the outcome of this one is never reported.
    this.#openUntil = this.clock.now() + this.#pauseMs;
    this.#isProbing = true;
    return true;
  }

  /** An attempt that was admitted was not made: the next one may be the probe. */
  withdrawn(): void {
    if (!this.#isProbing) return;
    this.#isProbing = false;
    this.#openUntil = this.clock.now();
  }

  succeeded(): void {
    this.isCalm = true;
    this.#failures = 0;
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#isProbing = false;
    if (this.#openUntil !== undefined) this.#changedAt = this.clock.now();
    this.#openUntil = undefined;
  }

  /** Ends the pause: what has failed is there again. The next failure opens the breaker anew. */
  reconnected(): void {
    this.era++;
    if (this.#openUntil === undefined) return;
    this.succeeded();
    this.isCalm = false;
    this.#failures = this.threshold - 1;
  }

  failed(era: number = this.era): void {
    if (era !== this.era) return;
    this.isCalm = false;
    if (this.#openUntil === undefined) {
      if (++this.#failures < this.threshold) return;
      this.#changedAt = this.clock.now();
    } else {
      if (!this.#isProbing) return;
      this.#isProbing = false;
      this.#pauseMs = Math.min(this.#pauseMs * 2, this.maxPauseMs);
    }
    this.#openUntil = this.clock.now() + this.#pauseMs;
  }
}

const DEFAULT_THRESHOLD = 5;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 5_000;

/** `half-open`: the next attempt is a probe. `sinceAt`: of its last change; undefined: none. */
export interface BreakerStatus {
  readonly state: "closed" | "open" | "half-open";
  readonly sinceAt: number | undefined;
}
