/**
 * Time and randomness as arguments. No other module reads a clock, starts a timer or draws a random
 * number, so tests control all three.
 */

/** Cancels the timer, subscription or use it was returned for. Calling it again has no effect. */
export type Cancel = () => void;

/**
 * Monotonic time and timers of this process. Instants shared between processes are on the store's
 * clock and are never compared with this one.
 */
export interface Clock {
  /** Milliseconds since an arbitrary fixed instant. Never goes back. */
  now(): number;
  /**
   * Calls `fn` once after `delayMs` milliseconds. A pending timer does not keep the process alive.
   */
  after(delayMs: number, fn: () => void): Cancel;
  /**
   * Calls `fn` at the end of the tick: after everything that is ready in this turn of the event
   * loop.
   */
  afterTick(fn: () => void): void;
}

/** Returns a number from 0 (inclusive) to 1 (exclusive). */
export type Random = () => number;

export const systemClock: Clock = {
  now: () => performance.now(),
  after(delayMs, fn) {
    const timer = setTimeout(fn, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
  afterTick(fn) {
    setImmediate(fn);
  },
};

export const systemRandom: Random = () => Math.random();
