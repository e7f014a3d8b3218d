import type { Cancel } from "../../base/clock.js";

/**
 * The callers that wait for one load, or for one miss that they share. They are gone once all of
 * them have left, which they do when their own requests are aborted. A caller without an abort
 * signal never leaves.
 */
export class Waiters {
  #count = 0;
  /** How many were added one by one and have not left. */
  #single = 0;
  // Most have none of these.
  #groups: Waiters[] | undefined = undefined;
  #hasEnded = false;
  #isGone = false;
  #isPermanent = false;
  #cancels: Cancel[] | undefined = undefined;
  #onGone: Set<() => void> | undefined = undefined;
  #controller: AbortController | undefined = undefined;
  /** Calls `go` when a load that nobody waits for is given up. Undefined: at once. */
  readonly #linger: ((go: () => void) => Cancel) | undefined;
  #cancelLinger: Cancel | undefined = undefined;

  constructor(linger?: (go: () => void) => Cancel) {
    this.#linger = linger;
  }

  /** Waiters with one member; undefined stands for one that never leaves. */
  static of(waiter: Waiter | undefined): Waiters {
    const waiters = new Waiters();
    waiters.add(waiter);
    return waiters;
  }

  /** How many wait. Once one that never leaves has been added, those that leave later still count. */
  get count(): number {
    if (this.#hasEnded) return 0;
    return (this.#groups ?? []).reduce((sum, { count }) => sum + count, this.#single);
  }

  /** Whether everybody who waited has left. Remains true even if another caller is added. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Aborts when the waiters are gone. Created on first use, since few loads pass a signal on. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      if (this.#isGone) controller.abort(new Abandonment());
    }
    return this.#controller.signal;
  }

  /** Adds a waiter; undefined stands for one that never leaves. Returns a function that makes it leave. */
  add(waiter: Waiter | undefined): Cancel {
    if (waiter !== undefined) return this.#add((leave) => waiter.onLeft(leave), 1);
    this.#single++;
    this.#isPermanent = true;
    return STAYS;
  }

  /** Adds other waiters as one, which leaves when they are gone. */
  addAll(others: Waiters): void {
    this.#groups ??= [];
    this.#groups.push(others);
    this.#add((leave) => others.onGone(leave), 0);
  }

  /** Calls back once the waiters are gone; at once if they are. */
  onGone(callback: () => void): Cancel {
    if (this.#isGone) {
      callback();
      return () => undefined;
    }
    this.#onGone ??= new Set();
    this.#onGone.add(callback);
    return () => void this.#onGone?.delete(callback);
  }

  /**
   * Ends the wait. Waiters that have ended do not go any more: a load that they left at their
   * deadline continues for later readers.
   */
  end(): void {
    this.#hasEnded = true;
    this.#cancelLinger?.();
    const cancels = this.#cancels ?? [];
    this.#cancels = undefined;
    for (const cancel of cancels) cancel();
    this.#onGone = undefined;
    this.#isPermanent = true;
  }

  /** `size`: by how much `#single` grows. */
  #add(listen: (leave: Cancel) => Cancel, size: 0 | 1): Cancel {
    this.#count++;
    this.#single += size;
    this.#cancelLinger?.();
    let hasLeft = false;
    const leave = (): void => {
      if (hasLeft) return;
      hasLeft = true;
      this.#count--;
      this.#single -= size;
      if (this.#count > 0 || this.#isPermanent) return;
      if (this.#linger === undefined) this.#go();
      else this.#cancelLinger = this.#linger(() => this.#go());
    };
    if (this.#isPermanent || this.#isGone) return leave;
    this.#cancels ??= [];
    this.#cancels.push(listen(leave));
    return leave;
  }

  #go(): void {
    this.#isGone = true;
    const callbacks = [...(this.#onGone ?? [])];
    this.end();
    this.#controller?.abort(new Abandonment());
    for (const callback of callbacks) callback();
  }
}

/** One who waits, and may leave. */
export interface Waiter {
  /** Calls back when the waiter leaves; at once if it has. Calls back once. */
  onLeft(callback: () => void): Cancel;
}

/** The reason with which a load is aborted that nobody waits for. */
class Abandonment extends DOMException {
  constructor() {
    super("the load was aborted because no request waits for it any more", "AbortError");
  }
}

/**
 * Whether an error says that nobody waits for a load. A user's own memo may pass it to another load, which others do wait
 * for: it is no failure of the source.
 */
export const isAbandonment = (error: unknown): boolean => error instanceof Abandonment;

/** Makes a waiter leave that never does. */
const STAYS: Cancel = () => undefined;
