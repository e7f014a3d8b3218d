import { isError } from "../../base/built-in.js";
import type { Cancel } from "../../base/clock.js";
import type { Key } from "../../keys/key.js";

/**
 * The callers that wait for one load, or for one miss that they share. They are gone once all of
 * them have left, which they do when their own requests are aborted. A caller without an abort
 * signal never leaves.
 */
export class Waiters {
  /** Whether everybody who waited has left. Remains true even if another caller is added. */
  isGone = false;
  #count = 0;
  /** How many were added one by one and have not left. */
  #single = 0;
  #groups: Waiters[] | undefined = undefined;
  #hasEnded = false;
  #isPermanent = false;
  #cancels: Cancel[] | undefined = undefined;
  #onGone: Set<() => void> | undefined = undefined;
  #onOver: (() => void)[] = [];
  #isOver = false;
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

  /**
   * How many wait. Once one that never leaves has been added, those that leave later still count.
   */
  get count(): number {
    if (this.#hasEnded) return 0;
    return (this.#groups ?? []).reduce((sum, { count }) => sum + count, this.#single);
  }

  /**
   * Aborts when the waiters are gone, or the time of the load is over. Created on first use, since
   * few loads pass a signal on.
   */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      if (this.#isOver) controller.abort(new Abandonment());
    }
    return this.#controller.signal;
  }

  /**
   * Adds a waiter; undefined stands for one that never leaves. Returns a function that makes it
   * leave.
   */
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
    if (this.isGone) {
      callback();
      return () => undefined;
    }
    this.#onGone ??= new Set();
    this.#onGone.add(callback);
    return () => void this.#onGone?.delete(callback);
  }

  /**
   * Calls back once the signal aborts, until the load ends. What the load reads itself is not told
   * when its time is over: it may go on.
   */
  onOver(callback: () => void): Cancel {
    if (this.#isOver) callback();
    else this.#onOver.push(callback);
    return () => undefined;
  }

  /**
   * Aborts the signal, also after the end of the wait: the time of the load is over, so nobody
   * waits.
   */
  expire(): void {
    this.#isOver = true;
    this.#controller?.abort(new Abandonment());
    for (const callback of this.#onOver.splice(0)) callback();
  }

  /** Ends the wait together with the load. */
  end(): void {
    this.endWait();
    this.#onOver = [];
  }

  /**
   * Ends the wait. Waiters that have ended do not go any more: a load that they left at their
   * deadline continues for later readers, until its time is over.
   */
  endWait(): void {
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
    if (this.#isPermanent || this.isGone) return leave;
    this.#cancels ??= [];
    this.#cancels.push(listen(leave));
    return leave;
  }

  #go(): void {
    this.isGone = true;
    const callbacks = [...(this.#onGone ?? [])];
    this.endWait();
    this.expire();
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
 * Whether an error says that nobody waits for a load. A user's own memo may pass it to another
 * load, which others do wait for: it is no failure of the source.
 */
export const isAbandonment = (error: unknown): boolean => error instanceof Abandonment;

/** Whether an error is that of an abort, by whichever signal. */
export const isAbortError = (error: unknown): boolean => isError(error) && error.name === "AbortError";

/** Makes a waiter leave that never does. */
const STAYS: Cancel = () => undefined;

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

  /**
   * Whether the caller has stopped waiting before it had its value. Signals that abort later do so
   * for other reasons.
   */
  get hasLeft(): boolean {
    if (this.#isAnswered) return false;
    return this.#enclosing === undefined ? this.#isAborted() : this.#enclosing.isGone;
  }

  /**
   * Returns whether a load that was run for this caller may have failed with `error` because of its
   * abort. After the answer, signals may abort without anything being wrong, so the error must be
   * an abort.
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

  /** Called when the read has ended, unless the caller has left. */
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
  error === reason || isAbortError(error) || (isError(error) && error.cause === reason);

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

/** The load that the current asynchronous context is inside of. */
export interface EnclosingLoad {
  /** The keys of this load, and of those that it is inside of. */
  readonly keys: ReadonlySet<string>;
  /** See `Loads.starts`. */
  readonly start: number;
  readonly waiters: Waiters;
  /** The load around it, if there is one. */
  readonly outer: EnclosingLoad | undefined;
  /**
   * What it has started, such as a timer, can go on afterwards, and is not inside of it any more.
   */
  readonly hasEnded: boolean;
  /** Notes that it has read a PRIVATE value, which `coordinate` names. */
  readPrivate(coordinate: string): void;
}

/** One load of one key. */
export class SingleLoad implements EnclosingLoad {
  readonly keys: ReadonlySet<string>;
  readonly start: number;
  readonly waiters: Waiters;
  readonly outer: EnclosingLoad | undefined;
  hasEnded = false;
  /**
   * The field or loader of the first PRIVATE value that it has read. Undefined: it has read none.
   */
  privateCoordinate: string | undefined = undefined;

  constructor({ name }: Pick<Key, "name">, start: number, waiters: Waiters, outer: EnclosingLoad | undefined) {
    this.keys = new Set([...(outer?.keys ?? []), name]);
    this.start = start;
    this.waiters = waiters;
    this.outer = outer;
  }

  readPrivate(coordinate: string): void {
    this.privateCoordinate ??= coordinate;
    this.outer?.readPrivate(coordinate);
  }
}

/**
 * The loads that one call of a source is made for. Its asynchronous context is that of the first of
 * them, but what it reads, each of them has read.
 */
export class JointLoad implements EnclosingLoad {
  readonly #loads: readonly EnclosingLoad[];
  #keys: ReadonlySet<string> | undefined;
  #waiters: Waiters | undefined;
  readonly outer = undefined;

  constructor(loads: readonly EnclosingLoad[]) {
    this.#loads = loads;
  }

  get keys(): ReadonlySet<string> {
    this.#keys ??= new Set(this.#loads.flatMap(({ keys }) => [...keys]));
    return this.#keys;
  }

  get start(): number {
    return this.#loads.reduce((latest, { start }) => Math.max(latest, start), 0);
  }

  get waiters(): Waiters {
    if (this.#waiters === undefined) {
      this.#waiters = new Waiters();
      for (const { waiters } of this.#loads) this.#waiters.addAll(waiters);
    }
    return this.#waiters;
  }

  get hasEnded(): boolean {
    return this.#loads.every(({ hasEnded }) => hasEnded);
  }

  readPrivate(coordinate: string): void {
    for (const load of this.#loads) load.readPrivate(coordinate);
  }
}
