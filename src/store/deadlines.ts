import { type Cancel, type Clock, TIME_PARTS } from "../clock.js";

/** Number of time budgets after which time counts in any case, also if this process is always busy. */
const MAX_BUSY_BUDGETS = 2;

/** The time budget of one operation. */
export class Deadline {
  readonly startedAt: number;
  readonly partMs: number;
  /** Until then, a part that ends late is repeated. */
  readonly repeatUntil: number;
  readonly expire: () => void;
  partsLeft = TIME_PARTS;
  /** When the current part ends. Infinity while the turn of the event loop that follows it is awaited. */
  partEndsAt: number;
  isRunning = true;
  /** Its neighbours in the list of those that are running: there is one for each read of the store, and a Set would hash them. */
  previous: Deadline | undefined;
  next: Deadline | undefined = undefined;

  constructor(now: number, ms: number, expire: () => void, previous: Deadline | undefined) {
    this.startedAt = now;
    this.partMs = ms / TIME_PARTS;
    this.repeatUntil = now + MAX_BUSY_BUDGETS * ms;
    this.expire = expire;
    this.partEndsAt = now + this.partMs;
    this.previous = previous;
  }
}

/**
 * The time budgets of the operations that are in flight. Nearly all of them end in time, so they share
 * one timer, which is set for the first part that ends, and stays set for those that begin meanwhile.
 *
 * A budget is counted in four parts, each ended by the timer and a turn of the event loop, in which
 * replies that have arrived are read. A part whose end comes late by more than its own length is
 * repeated, within two budgets: this process was busy, which says nothing about the store. With a
 * single timer, a burst of requests would look like an outage.
 */
export class Deadlines {
  readonly #clock: Clock;
  /** The first and the last one that was started, of those that are running. */
  #first: Deadline | undefined = undefined;
  #last: Deadline | undefined = undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #cancelTimer: Cancel | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `expire` in `ms` milliseconds, unless the returned deadline is ended before. */
  start(ms: number, expire: () => void): Deadline {
    const now = this.#clock.now();
    const deadline = new Deadline(now, ms, expire, this.#last);
    if (this.#last === undefined) this.#first = deadline;
    else this.#last.next = deadline;
    this.#last = deadline;
    if (deadline.partEndsAt < this.#timerAt) this.#setTimer(deadline.partEndsAt, now);
    return deadline;
  }

  /** Ends a deadline. Returns false if it has ended or expired before. */
  end(deadline: Deadline): boolean {
    if (!deadline.isRunning) return false;
    deadline.isRunning = false;
    const { previous, next } = deadline;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    return true;
  }

  *#running(): Iterable<Deadline> {
    for (let deadline = this.#first; deadline !== undefined; deadline = deadline.next) yield deadline;
  }

  #setTimer(at: number, now: number): void {
    this.#cancelTimer?.();
    this.#timerAt = at;
    this.#cancelTimer = this.#clock.after(at - now, () => this.#endParts());
  }

  /** Sets the timer for the first part that ends, if there is any. */
  #setNextTimer(): void {
    let at = Number.POSITIVE_INFINITY;
    for (const { partEndsAt } of this.#running()) at = Math.min(at, partEndsAt);
    if (at < this.#timerAt) this.#setTimer(at, this.#clock.now());
  }

  #endParts(): void {
    this.#cancelTimer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
    const now = this.#clock.now();
    const ended: Deadline[] = [];
    for (const deadline of this.#running()) {
      const { partEndsAt, partMs, repeatUntil } = deadline;
      if (now < partEndsAt) continue;
      const isRepeated = now - partEndsAt > partMs && now < repeatUntil;
      if (!isRepeated) deadline.partsLeft--;
      deadline.partEndsAt = Number.POSITIVE_INFINITY;
      ended.push(deadline);
    }
    this.#setNextTimer();
    if (ended.length > 0) this.#clock.afterTick(() => this.#beginParts(ended));
  }

  /** Begins the next part of those that are still running, or ends them if it was the last one. */
  #beginParts(deadlines: readonly Deadline[]): void {
    const now = this.#clock.now();
    for (const deadline of deadlines) {
      if (!deadline.isRunning) continue;
      if (deadline.partsLeft > 0) deadline.partEndsAt = now + deadline.partMs;
      else {
        this.end(deadline);
        deadline.expire();
      }
    }
    this.#setNextTimer();
  }
}
