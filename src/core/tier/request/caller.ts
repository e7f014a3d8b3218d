import { isError } from "../../base/built-in.js";
import type { Cancel } from "../../base/clock.js";
import type { Waiter, Waiters } from "./waiters.js";

/**
 * Who asked for one read, as far as it can be aborted: a request, or the load that the read is part
 * of. The load may be awaited by other requests as well, so its own waiters count.
 */
export class Caller implements Waiter {
  /** Whether the outcome of the read has been reported. */
  isReported = false;
  readonly #signals: CallSignals;
  readonly #enclosing: Waiters | undefined;
  readonly #listeners: AbortListeners;
  #isAnswered = false;

  constructor(signals: CallSignals, enclosing: Waiters | undefined, listeners: AbortListeners) {
    this.#signals = signals;
    this.#enclosing = enclosing;
    this.#listeners = listeners;
  }

  /** Whether the caller has stopped waiting before it had its value. Signals that abort later do so for other reasons. */
  get hasLeft(): boolean {
    if (this.#isAnswered) return false;
    return this.#enclosing === undefined ? this.#isAborted() : this.#enclosing.isGone;
  }

  /**
   * Returns whether a load that was run for this caller may have failed with `error` because of its
   * abort. A load inside of another one may use a signal of the request although it does not wait for
   * it. After the answer, signals may abort without anything being wrong, so the error must be an abort.
   */
  mayHaveCaused(error: unknown): boolean {
    if (!this.#isAnswered) return this.#enclosing?.isGone === true || this.#isAborted();
    return this.#signals.request.some(({ aborted, reason }) => aborted && isAbort(error, reason));
  }

  /** Why the caller has left. */
  get reason(): unknown {
    const signals = this.#enclosing === undefined ? this.#waitSignals() : [this.#enclosing.signal];
    return signals.find(({ aborted }) => aborted)?.reason;
  }

  /** To be called when the read has ended, unless the caller has left. */
  answered(): void {
    this.#isAnswered = true;
  }

  onLeft(callback: () => void): Cancel {
    if (this.#enclosing !== undefined) return this.#enclosing.onGone(callback);
    if (this.hasLeft) {
      callback();
      return () => undefined;
    }
    // Each signal may abort, some long after the caller has left.
    const cancel = (): void => {
      for (const cancelOne of cancels) cancelOne();
    };
    const leave = (): void => {
      cancel();
      callback();
    };
    const cancels = this.#waitSignals().map((signal) => this.#listeners.add(signal, leave));
    return cancel;
  }

  #isAborted(): boolean {
    return this.#waitSignals().some(({ aborted }) => aborted);
  }

  #waitSignals(): readonly AbortSignal[] {
    const { request, execution } = this.#signals;
    return execution === undefined ? request : [...request, execution];
  }
}

/** The abort signals of the GraphQL request that a read belongs to. */
export interface CallSignals {
  /** Of the request. */
  readonly request: readonly AbortSignal[];
  /**
   * Of the execution, from graphql 17. Aborts also when the execution has ended normally, so it
   * says nothing once the read has been answered.
   */
  readonly execution: AbortSignal | undefined;
}

const isAbort = (error: unknown, reason: unknown): boolean =>
  error === reason || (isError(error) && (error.name === "AbortError" || error.cause === reason));

/**
 * Calls back when signals abort, with one listener for each signal: a request can wait for
 * thousands of keys, and an EventTarget compares a new listener with all it has.
 */
export class AbortListeners {
  readonly #callbacksOf = new WeakMap<AbortSignal, Set<() => void>>();

  add(signal: AbortSignal, callback: () => void): Cancel {
    // A callback can be registered several times, for several reads of one request.
    const own = (): void => callback();
    let callbacks = this.#callbacksOf.get(signal);
    if (callbacks === undefined) {
      callbacks = new Set();
      const all = callbacks;
      this.#callbacksOf.set(signal, all);
      signal.addEventListener("abort", () => callEach(all), { once: true });
    }
    const added = callbacks.add(own);
    return () => void added.delete(own);
  }
}

/** Calls those that are registered now, unless one of them has removed another. */
function callEach(callbacks: ReadonlySet<() => void>): void {
  for (const callback of [...callbacks]) if (callbacks.has(callback)) callback();
}
