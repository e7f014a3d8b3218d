/**
 * Time, chance and the end of a tick, as arguments: nothing else in the house reads a clock or rolls dice.
 */

/** Ends what it was handed out for; calling it again does nothing. */
export type Cancel = () => void;

/** Monotonic time and timers of this process. Never compared with another process's: instants shared between processes are the store's. */
export interface Clock {
  /** Milliseconds since some fixed instant; never goes back. */
  now(): number;
  /** Calls `fn` once, `delayMs` from now. A pending timer does not keep the process alive. */
  after(delayMs: number, fn: () => void): Cancel;
  /** Calls `fn` once everything that is ready in this turn of the event loop has run: the end of the tick. */
  afterTick(fn: () => void): void;
}

/** A number from 0 (included) to 1 (excluded). */
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
