import timers from "node:timers";
import type { Cancel, Clock } from "graphql-cached/store";

/** Taken from the module, since fake timers replace the global. */
const afterTick: (fn: () => void) => void = timers.setImmediate;

/**
 * A clock that moves only when it is advanced. `afterTick` uses the real event loop, so that code
 * under test batches as it does in production.
 */
export class FakeClock implements Clock {
  #now: number;
  readonly #timers = new Set<{ readonly dueAt: number; readonly fn: () => void }>();

  /** `now` is the initial time in milliseconds. Default: 1,000,000. */
  constructor(now = 1_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(delayMs: number, fn: () => void): Cancel {
    const timer = { dueAt: this.#now + delayMs, fn };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  afterTick(fn: () => void): void {
    afterTick(fn);
  }

  /**
   * Moves the clock forward by `ms` milliseconds and fires the timers that fall due, in order.
   * Calls `settle` after each, so that its effects are complete before the next timer fires.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      let next: { readonly dueAt: number; readonly fn: () => void } | undefined;
      for (const timer of this.#timers) if (next === undefined || timer.dueAt < next.dueAt) next = timer;
      if (next === undefined || next.dueAt > end) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.dueAt);
      next.fn();
      await settle();
    }
    // What a timer has begun may have advanced it further.
    this.#now = Math.max(this.#now, end);
    await settle();
  }
}

const TURNS = 8;

/** Resolves after a few turns of the event loop, when everything that needs no timer has run. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise<void>((resolve) => afterTick(resolve));
}
