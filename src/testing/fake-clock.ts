import type { Cancel, Clock } from "../clock.js";

/** A clock that stands still until it is advanced. The end of a tick is the real one, so that code under test runs as it does in logId. */
export class FakeClock implements Clock {
  #now: number;
  readonly #timers = new Set<{ readonly dueAt: number; readonly fn: () => void }>();

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
    setImmediate(fn);
  }

  /** Lets `ms` pass, firing what falls due in its order, with a few turns of the event loop after each, so that what it set off has run. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const [next] = [...this.#timers].sort((a, b) => a.dueAt - b.dueAt);
      if (next === undefined || next.dueAt > end) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.dueAt);
      next.fn();
      await settle();
    }
    this.#now = end;
    await settle();
  }
}

const TURNS = 8;

/** Lets everything run that needs no time to pass: a few turns of the event loop. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
}
