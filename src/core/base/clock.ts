import { type AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import timers from "node:timers";
import { attempt } from "./built-in.js";

/*
 * Time and randomness as arguments: no other module reads a clock, starts a timer or draws a random
 * number. They are taken from the modules of Node.js: fake timers replace the globals, and every
 * wait of the cache would be one that nobody ends.
 */
const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate } = timers;
/** Not imported, since older Cloudflare Workers lack the module. They have no fake timers. */
const { performance } = process.getBuiltinModule?.("node:perf_hooks") ?? globalThis;
const now = performance.now.bind(performance);
const wallNow = Date.now;

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
   * Calls `fn` once after `delayMs` milliseconds, outside of the asynchronous context of any
   * request, which a pending timer would keep in memory. Keeps the process alive only if somebody
   * waits for it (`isAwaited`, default: false): what nobody waits for may be left undone, but a
   * program must not end in the middle.
   */
  after(delayMs: number, fn: () => void, isAwaited?: boolean): Cancel;
  /** Calls `fn` at the end of the tick, after all that is ready in this turn of the event loop. */
  afterTick(fn: () => void): void;
  /** Milliseconds since 1970, for people to read. Default: `now()`. */
  wallTime?(): number;
}

/** Returns the time of day of a clock, in milliseconds since 1970. Shown, and never compared. */
export const wallTimeOf = (clock: Clock): number => clock.wallTime?.() ?? clock.now();

/** Returns a number from 0 (inclusive) to 1 (exclusive). */
export type Random = () => number;
export const systemRandom: Random = () => Math.random();

export const afterTick: (fn: () => void) => void = setImmediate;

/** Calls `fn` as a promise job: `queueMicrotask`, which fake timers replace as well. */
export function asJob(fn: () => void): void {
  void RESOLVED.then(fn);
}

const RESOLVED = Promise.resolve();

export const systemClock: Clock = {
  now,
  after(delayMs, fn, isAwaited = false) {
    const timer = outsideOfRequests.runInAsyncScope(setTimeout, undefined, fn, delayMs) as NodeJS.Timeout;
    if (!isAwaited) timer.unref();
    return () => clearTimeout(timer);
  },
  afterTick,
  wallTime: () => wallNow(),
};

/** Keeps the process alive until `work` ends: pending timers of a clock do not. */
export function keepingAlive<T>(work: Promise<T>): Promise<T> {
  const timer = setInterval(() => undefined, 60_000);
  return work.finally(() => clearInterval(timer));
}

/** Returns an instant of `clock.now()` as a date for people to read: ISO 8601 in UTC. */
export const dateOf = (clock: Clock, at: number): string =>
  new Date(wallTimeOf(clock) - (clock.now() - at)).toISOString();

/** The longest delay of a timer of Node.js; longer ones end at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Whether an option is a time that a timer can wait for, as `EXPECTED_TIMER_MS` says. */
export const isTimerMs = (value: unknown): boolean =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_TIMER_MS;
export const EXPECTED_TIMER_MS = `an integer from 1 to ${MAX_TIMER_MS} (milliseconds)`;

export interface TimeLimit<Late> {
  readonly ms: number;
  /** Returns the result when the time is over. */
  readonly otherwise: () => Late | Promise<Late>;
  /** Nobody waits for it, so that the limit does not keep the process alive. Default: false. */
  readonly isUnawaited?: boolean;
}

export interface PartedLimit<Late> extends Omit<TimeLimit<Late>, "isUnawaited"> {
  /** Returns something else once more has arrived. That time does not count: slow is not away. */
  readonly progress?: (() => unknown) | undefined;
  /** The first part that begins later is the last; replies are read in it. Default: 10 × `ms`. */
  readonly maxMs?: number;
}

const TIME_PARTS = 4;
/** By how much timers are late on a host that is idle: they count whole milliseconds. */
const TIMERS_LATE_MS = 2;
const MAX_LIMITS = 10;

/** Returns the result of `work` if it ends in time. Rejects as `work` or `otherwise` does. */
export function within<T, Late>(
  clock: Pick<Clock, "after">,
  work: Promise<T>,
  { ms, otherwise, isUnawaited = false }: TimeLimit<Late>,
): Promise<T | Late> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(Math.max(0, ms), () => resolve(resultOf(otherwise)), !isUnawaited);
    work.then(
      (result) => {
        cancel();
        resolve(result);
      },
      (error) => {
        cancel();
        reject(error);
      },
    );
  });
}

/**
 * Timers, of which those that begin in one promise job and last as long are one: the loads of a
 * tick have one for their time limit.
 */
export class SharedTimers implements Pick<Clock, "after"> {
  #open: SharedTimer | undefined;

  constructor(private readonly clock: Pick<Clock, "after">) {}

  after(delayMs: number, fn: () => void): Cancel {
    const timer = this.#open?.delayMs === delayMs ? this.#open : this.#begin(delayMs);
    timer.calls.add(fn);
    return () => {
      timer.calls.delete(fn);
      if (timer.calls.size > 0) return;
      timer.cancel();
      this.#close(timer);
    };
  }

  #begin(delayMs: number): SharedTimer {
    const calls = new Set<() => void>();
    const cancel = this.clock.after(delayMs, () => {
      for (const call of calls) call();
    });
    const timer = { delayMs, calls, cancel };
    this.#open = timer;
    asJob(() => this.#close(timer));
    return timer;
  }

  #close(timer: SharedTimer): void {
    if (this.#open === timer) this.#open = undefined;
  }
}

interface SharedTimer {
  readonly delayMs: number;
  readonly calls: Set<() => void>;
  readonly cancel: Cancel;
}

/** Called by timers: nobody else would catch what `otherwise` throws. */
const resultOf = <Late>(otherwise: () => Late | Promise<Late>): Promise<Late> =>
  new Promise((resolve) => resolve(otherwise()));

/**
 * The same, with the time counted in four parts, each a timer and a turn of the event loop, in
 * which replies that have arrived are read. A part counts only if its timer fires in time, within a
 * tenth of the part or two milliseconds: a process or host that is busy says nothing about what it
 * waits for.
 */
export function withinParts<T, Late>(
  clock: Clock,
  work: Promise<T>,
  { ms, otherwise, progress, maxMs = MAX_LIMITS * ms }: PartedLimit<Late>,
): Promise<T | Late> {
  return new Promise((resolve, reject) => {
    const partMs = Math.max(0, ms) / TIME_PARTS;
    const endsAtLast = clock.now() + maxMs;
    let partsLeft = TIME_PARTS;
    let hasEnded = false;
    let cancelTimer: Cancel;
    const beginPart = (): void => {
      if (partsLeft === 0 && !hasEnded) resolve(resultOf(otherwise));
      if (partsLeft === 0 || hasEnded) return;
      const beganAt = clock.now();
      const before = progress?.();
      const end = (): void => {
        const isBusy = clock.now() - beganAt - partMs > Math.max(TIMERS_LATE_MS, partMs / 10);
        clock.afterTick(() => {
          const hasMoved = progress?.() !== before;
          if (beganAt >= endsAtLast) partsLeft = 0;
          else if (!isBusy && !hasMoved) partsLeft--;
          beginPart();
        });
      };
      cancelTimer = clock.after(partMs, end, true);
    };
    const stop = (): void => {
      hasEnded = true;
      cancelTimer();
    };
    beginPart();
    work.then(resolve, reject);
    work.then(stop, stop);
  });
}

/** Instants, and durations before now, that are further away cannot be written as dates. */
const MAX_TIME_MS = 1e14;

/** Whether what another process has written is a time in milliseconds. */
export const isTime = (value: unknown): value is number => typeof value === "number" && Math.abs(value) < MAX_TIME_MS;

/** Where that is possible: in Cloudflare Workers, the method is missing or throws. */
export function disableStorage(storage: Pick<AsyncLocalStorage<unknown>, "disable">): void {
  // Otherwise, it only slows down promises in old versions of Node.js.
  attempt(() => storage.disable());
}

/** Of what belongs to no request: a cache made inside of one would keep its context alive. */
export const outsideOfRequests = new AsyncResource("graphql-cached");
