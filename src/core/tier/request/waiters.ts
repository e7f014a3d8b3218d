import { isError } from "../../base/built-in.js";
import type { Cancel } from "../../base/clock.js";

/**
 * The callers that wait for one load, or for one miss that they share. They are gone once all of
 * them have left, which they do when their own requests are aborted. A caller without an abort
 * signal never leaves.
 */
export class Waiters {
  /** Whether everybody who waited has left. Remains true even if another caller is added. */
  isGone = false;
  /** Those that can leave. A group of others is one of them, which leaves when they are gone. */
  #leaving: Set<{ readonly count: number }> | undefined;
  #staying = 0;
  #hasEnded = false;
  #cancels: Cancel[] = [];
  #onGone: Set<() => void> | undefined;
  #onOver: (() => void)[] = [];
  #isOver = false;
  #controller: AbortController | undefined = undefined;
  #cancelLinger: Cancel | undefined = undefined;

  /** `linger`: calls `go` when a load that nobody waits for is given up. Default: at once. */
  constructor(private readonly linger?: (go: () => void) => Cancel) {}

  /** Waiters with one member; undefined stands for one that never leaves. */
  static of(waiter: Waiter | undefined): Waiters {
    const waiters = new Waiters();
    waiters.add(waiter);
    return waiters;
  }

  /** Waiters to which `add` adds each member. They are gone once all members have left. */
  static joining<Member>(members: readonly Member[], add: (waiters: Waiters, member: Member) => void): Waiters {
    const waiters = new Waiters();
    // The first member may have left by now, and be the only one so far.
    const leave = waiters.add(PATIENT);
    for (const member of members) add(waiters, member);
    leave();
    return waiters;
  }

  /** How many wait. Those that come after one that never leaves count until the end. */
  get count(): number {
    return this.#hasEnded ? 0 : [...(this.#leaving ?? [])].reduce((sum, { count }) => sum + count, this.#staying);
  }

  /** Aborts when the waiters are gone, or the time is over. Made on first use: few need it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isOver) this.#controller.abort(new Abandonment());
    }
    return this.#controller.signal;
  }

  /** Undefined stands for one that never leaves. Returns a function that makes it leave. */
  add(waiter: Waiter | undefined): Cancel {
    if (waiter !== undefined) return this.#add({ count: 1 }, (leave) => waiter.onLeft(leave));
    this.#staying++;
    return () => undefined;
  }

  /** Adds other waiters as one, which leaves when they are gone. */
  addAll(others: Waiters): void {
    this.#add(others, (leave) => others.onGone(leave));
  }

  #add(member: { readonly count: number }, listen: (leave: Cancel) => Cancel): Cancel {
    this.#leaving ??= new Set();
    const leaving = this.#leaving.add(member);
    this.#cancelLinger?.();
    const leave = (): void => {
      if (!leaving.delete(member) || leaving.size > 0 || !this.#canGo) return;
      if (this.linger === undefined) this.#go();
      else this.#cancelLinger = this.linger(() => this.#go());
    };
    if (this.#canGo) this.#cancels.push(listen(leave));
    return leave;
  }

  get #canGo(): boolean {
    return this.#staying === 0 && !this.#hasEnded;
  }

  #go(): void {
    this.isGone = true;
    const callbacks = [...(this.#onGone ?? [])];
    this.endWait();
    this.expire();
    for (const callback of callbacks) callback();
  }

  /** Calls back once the waiters are gone; at once if they are. */
  onGone(callback: () => void): Cancel {
    this.#onGone ??= new Set();
    if (this.isGone) callback();
    else this.#onGone.add(callback);
    return () => void this.#onGone?.delete(callback);
  }

  /** Calls back when the signal aborts, until the load ends. What the load reads may go on. */
  onOver(callback: () => void): Cancel {
    if (this.#isOver) callback();
    else this.#onOver.push(callback);
    return () => undefined;
  }

  /** Aborts the signal, also after the end of the wait: the time of the load is over. */
  expire(): void {
    this.#isOver = true;
    this.#controller?.abort(new Abandonment());
    for (const callback of this.#onOver.splice(0)) callback();
  }

  end(): void {
    this.endWait();
    this.#onOver = [];
  }

  /** Ends the wait: a load that was left at a deadline goes on for later readers. */
  endWait(): void {
    this.#hasEnded = true;
    this.#cancelLinger?.();
    for (const cancel of this.#cancels.splice(0)) cancel();
    this.#onGone = undefined;
  }
}

/** One that nothing aborts, but that can be made to leave. */
export const PATIENT: Waiter = { onLeft: () => () => undefined };

export interface Waiter {
  /** Calls back when the waiter leaves; at once if it has. Calls back once. */
  onLeft(callback: () => void): Cancel;
}

class Abandonment extends DOMException {
  constructor() {
    super("the load was aborted because no request waits for it any more", "AbortError");
  }
}

/** No failure of the source: a user's memo may pass it to a load that others do wait for. */
export const isAbandonment = (error: unknown): boolean => error instanceof Abandonment;

export const isAbortError = (error: unknown): boolean => isError(error) && error.name === "AbortError";

/**
 * Who asked for one read, as far as it can be aborted: a request, or the load that the read is part
 * of. The load may be awaited by other requests as well, so its own waiters count.
 */
export class Caller implements Waiter {
  isReported = false;
  #isAnswered = false;

  constructor(
    private readonly signals: CallSignals,
    private readonly enclosing: Waiters | undefined,
    private readonly listeners: AbortListeners,
  ) {}

  /** Before it had its value: signals that abort later do so for other reasons. */
  get hasLeft(): boolean {
    if (this.#isAnswered) return false;
    return this.enclosing === undefined ? this.#isAborted() : this.enclosing.isGone;
  }

  /**
   * Returns whether a load that was run for this caller may have failed with `error` because of its
   * abort. After the answer, signals may abort without anything being wrong, so the error must be
   * an abort.
   */
  mayHaveCaused(error: unknown): boolean {
    if (!this.#isAnswered) return this.enclosing?.isGone === true || this.#isAborted();
    return this.signals.request.some(({ aborted, reason }) => aborted && isAbort(error, reason));
  }

  get reason(): unknown {
    const signals = this.enclosing === undefined ? this.#waitSignals() : [this.enclosing.signal];
    return signals.find(({ aborted }) => aborted)?.reason;
  }

  answered(): void {
    this.#isAnswered = true;
  }

  onLeft(callback: () => void): Cancel {
    if (this.enclosing !== undefined) return this.enclosing.onGone(callback);
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
    const cancels = this.#waitSignals().map((signal) => this.listeners.add(signal, leave));
    return cancel;
  }

  #isAborted(): boolean {
    return this.#waitSignals().some(({ aborted }) => aborted);
  }

  #waitSignals(): readonly AbortSignal[] {
    const { request, execution } = this.signals;
    return execution === undefined ? request : [...request, execution];
  }
}

export interface CallSignals {
  readonly request: readonly AbortSignal[];
  /** From graphql 17. Aborts also when the execution has ended normally, after the answer. */
  readonly execution: AbortSignal | undefined;
}

const isAbort = (error: unknown, reason: unknown): boolean =>
  error === reason || isAbortError(error) || (isError(error) && error.cause === reason);

/** One listener for each signal: an EventTarget compares a new listener with all it has. */
export class AbortListeners {
  readonly #callbacksOf = new WeakMap<AbortSignal, Set<() => void>>();

  add(signal: AbortSignal, callback: () => void): Cancel {
    // A callback can be registered several times, for several reads of one request.
    const own = (): void => callback();
    let callbacks = this.#callbacksOf.get(signal);
    if (callbacks === undefined) {
      const all = new Set<() => void>();
      callbacks = all;
      this.#callbacksOf.set(signal, all);
      // Those that are registered then, unless one of them has removed another.
      const callAll = (): void => {
        for (const one of [...all]) if (all.has(one)) one();
      };
      signal.addEventListener("abort", callAll, { once: true });
    }
    const added = callbacks.add(own);
    return () => void added.delete(own);
  }
}

/** The load that the current asynchronous context is inside of. */
export interface EnclosingLoad extends PrivateReader {
  readonly start: number;
  readonly waiters: Waiters;
  readonly outer: EnclosingLoad | undefined;
  /** Whether it runs in the asynchronous context of no request. */
  readonly isOutside: boolean;
  /** What it has started can go on afterwards, such as a timer, and is not inside of it. */
  readonly hasEnded: boolean;
  /** Whether this load, or one that it is inside of, is this one, or has this key. */
  has(one: EnclosingLoad | string): boolean;
}

/** Whose a PRIVATE value is: "" without an identity; undefined: that of whoever asks. */
export type ReadOwner = string | undefined;

/**
 * Undefined, and two identities, of which one is not that of the load. With all of them, the loads
 * of a batch would multiply by those whose values it reads. (P13)
 */
const MAX_OWNERS = 3;

/** What depends on the PRIVATE values that it reads, and so does what it is a part of. */
export class PrivateReader {
  /** By owner, the field or loader of the first value. */
  privateReads: Map<ReadOwner, string> | undefined = undefined;

  constructor(private readonly partOf: readonly PrivateReader[]) {}

  readPrivate(coordinate: string, owner: ReadOwner): void {
    this.privateReads ??= new Map();
    if (this.privateReads.size === MAX_OWNERS || this.privateReads.has(owner)) return;
    this.privateReads.set(owner, coordinate);
    this.passOn(coordinate, owner);
  }

  passOn(coordinate: string, owner: ReadOwner): void {
    for (const one of this.partOf) one.readPrivate(coordinate, owner);
  }
}

/** Looks outward for keys: with copies of them, loads inside of a large batch multiply it. (P13) */
export class SingleLoad extends PrivateReader implements EnclosingLoad {
  hasEnded = false;

  constructor(
    readonly key: string,
    readonly start: number,
    readonly waiters: Waiters,
    readonly outer: EnclosingLoad | undefined,
    readonly isOutside: boolean,
    reader: PrivateReader | undefined = outer,
  ) {
    super(reader === undefined ? NOTHING : [reader]);
  }

  has(one: EnclosingLoad | string): boolean {
    let load: EnclosingLoad | undefined = this;
    for (; load instanceof SingleLoad; load = load.outer) if (load === one || load.key === one) return true;
    return load?.has(one) === true;
  }
}

const NOTHING: readonly never[] = [];

/** The loads of one call of a source, whose reads are those of each of them. */
export class JointLoad extends PrivateReader implements EnclosingLoad {
  /** The loads around, and their keys; without those of `#outer`. */
  #around: Set<EnclosingLoad | string> | undefined;
  /** The one that all loads are inside of, if there is only one. */
  #outer: JointLoad | undefined;
  #waiters: Waiters | undefined;
  #endedCount = 0;
  readonly outer = undefined;
  readonly start: number;
  readonly isOutside: boolean;

  constructor(private readonly loads: readonly EnclosingLoad[]) {
    super(loads);
    this.start = loads.reduce((latest, { start }) => Math.max(latest, start), 0);
    this.isOutside = loads[0]?.isOutside === true;
  }

  get waiters(): Waiters {
    this.#waiters ??= Waiters.joining(this.loads, (joined, { waiters }) => joined.addAll(waiters));
    return this.#waiters;
  }

  get hasEnded(): boolean {
    while (this.loads[this.#endedCount]?.hasEnded === true) this.#endedCount++;
    return this.#endedCount === this.loads.length;
  }

  has(one: EnclosingLoad | string): boolean {
    return this.#lookAround().has(one) || this.#outer?.has(one) === true;
  }

  #lookAround(): ReadonlySet<EnclosingLoad | string> {
    if (this.#around !== undefined) return this.#around;
    const around = new Set<EnclosingLoad | string>([this]);
    this.#around = around;
    const joints = new Set<JointLoad>();
    for (let load of this.loads as readonly (EnclosingLoad | undefined)[]) {
      for (; load instanceof SingleLoad && !around.has(load); load = load.outer) around.add(load).add(load.key);
      if (load instanceof JointLoad) joints.add(load);
    }
    if (joints.size === 1) [this.#outer] = joints;
    else
      for (let joint of joints as Iterable<JointLoad | undefined>)
        for (; joint !== undefined && !around.has(joint); joint = joint.#outer)
          for (const one of joint.#lookAround()) around.add(one);
    return around;
  }
}

/** A call of a source without the cache: no load, but what it returns depends on what it reads. */
export class BypassingCall extends PrivateReader {
  readonly hasEnded = true;
  /** What it has started can go on afterwards, such as a timer. */
  isOver = false;

  /** `outer`: where it was called. */
  constructor(
    readonly outer: EnclosingLoad | BypassingCall | undefined,
    partOf: readonly PrivateReader[],
  ) {
    super(partOf);
  }
}
