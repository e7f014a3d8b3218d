import type { Random } from "../../core/base/clock.js";

const FIRST_MS = 100;
const MAX_MS = 5_000;

/** How long to wait after consecutive failures: doubled each time, and randomly shortened by up to half. */
export class Backoff {
  readonly #random: Random;
  #nextMs = FIRST_MS;

  constructor(random: Random) {
    this.#random = random;
  }

  nextMs(): number {
    const ms = this.#nextMs;
    this.#nextMs = Math.min(ms * 2, MAX_MS);
    return ms * (1 - this.#random() / 2);
  }

  reset(): void {
    this.#nextMs = FIRST_MS;
  }
}
