import type { Cancel, Clock, Random } from "../../base/clock.js";
import type { Entry } from "../../store/entry.js";
import type { Wake } from "../../store/store.js";

/**
 * Why a wait has ended. `changed`: the key has changed and the lease chain `gen` has ended; `entry`
 * is what its load has produced, if it was sent along. `poll`: the waiter should read the store.
 */
export type Woken =
  | { readonly kind: "changed"; readonly entry: Entry | undefined; readonly gen: string | undefined }
  | { readonly kind: "poll" };

const FIRST_POLL_MS = 50;
/** The same while messages arrive. A poll then finds something only if a message was lost, and costs the store a read. */
const LATE_FIRST_POLL_MS = 200;
const MAX_POLL_MS = 400;
/** Waiters that are due within this time of one another poll together. */
const POLL_WINDOW_MS = 15;

/**
 * Lets readers wait for loads of other processes. A message wakes them. Messages can be lost, so
 * they also poll, first after 50 ms, or after 200 ms while messages arrive, doubling up to 400 ms, with
 * jitter. All waiters of the process share one timer, so that waiters that poll together share one
 * store read. The timer costs time for the waiters that are due, not for those that merely wait.
 */
export class Waiting {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #byKey = new Map<string, Set<Watch>>();
  /** The current waits, ordered by when they are due. */
  readonly #due = new DueQueue();
  #timer: { readonly dueAt: number; readonly cancel: Cancel } | undefined;
  /** Whether messages arrive, as far as the last wait has shown. A store may send none, or a connection be broken unnoticed. */
  #doMessagesArrive = false;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * Starts watching `key`. A reader does so before it requests the lease: the load may end before
   * the result of that request arrives, and the message would be missed. The caller must call `end`
   * on the watch.
   */
  watch(key: string): Watch {
    const watches = this.#byKey.get(key) ?? new Set();
    this.#byKey.set(key, watches);
    const watch = new Watch(this, key);
    watches.add(watch);
    return watch;
  }

  /** Returns after how long the wait of this `round` polls, in milliseconds. */
  pollMsOf(round: number): number {
    const firstMs = this.#doMessagesArrive ? LATE_FIRST_POLL_MS : FIRST_POLL_MS;
    return Math.min(firstMs * 2 ** round, MAX_POLL_MS) * (0.75 + this.#random() / 2);
  }

  /** Wakes `watch` in `ms` milliseconds, unless it is woken before. Returns when that is. */
  wakeIn(watch: Watch, ms: number): number {
    const dueAt = this.#clock.now() + Math.max(0, ms);
    this.#due.add(watch, dueAt);
    this.#setTimer(dueAt);
    return dueAt;
  }

  /** `wasFoundByPoll`: the change that the watch was for was found by a poll. */
  end(watch: Watch, wasFoundByPoll: boolean): void {
    if (wasFoundByPoll) this.#doMessagesArrive = false;
    const watches = this.#byKey.get(watch.key);
    if (watches?.delete(watch) === true && watches.size === 0) this.#byKey.delete(watch.key);
  }

  /** The number of keys for whose loads in other processes a reader waits now. */
  get waitingKeys(): number {
    return [...this.#byKey.values()].filter((watches) => [...watches].some(isWaiting)).length;
  }

  readonly wake: Wake = (key, entry, gen) => {
    const watches: readonly Watch[] = key === undefined ? this.#all() : [...(this.#byKey.get(key) ?? [])];
    // Messages that were sent while there was no connection are lost.
    if (key === undefined) this.#doMessagesArrive = false;
    else if (watches.some(isWaiting)) this.#doMessagesArrive = true;
    for (const watch of watches) watch.wake(key === undefined ? { kind: "poll" } : { kind: "changed", entry, gen });
  };

  #all(): Watch[] {
    return [...this.#byKey.values()].flatMap((watches) => [...watches]);
  }

  /** Makes the shared timer fire at `dueAt`, unless it fires earlier. */
  #setTimer(dueAt: number): void {
    if (this.#timer !== undefined && this.#timer.dueAt <= dueAt) return;
    this.#timer?.cancel();
    this.#timer = { dueAt, cancel: this.#clock.after(Math.max(0, dueAt - this.#clock.now()), () => this.#pollDue()) };
  }

  #pollDue(): void {
    this.#timer = undefined;
    const dueUntil = this.#clock.now() + POLL_WINDOW_MS;
    for (let watch = this.#due.take(dueUntil); watch !== undefined; watch = this.#due.take(dueUntil))
      watch.wake({ kind: "poll" });
    const next = this.#due.nextDueAt();
    if (next !== undefined) this.#setTimer(next);
  }
}

const isWaiting = ({ dueAt }: Watch): boolean => dueAt !== Number.POSITIVE_INFINITY;

/** A wait that is due at `dueAt`, unless its watch has been woken since. */
interface DueWait {
  readonly watch: Watch;
  readonly dueAt: number;
}

/**
 * A queue of waits, ordered by when they are due: a binary heap, so that adding a wait or taking
 * one costs O(log n), whatever the number of waits that are not due. A wait that ended earlier stays
 * until it is due, which is at most the longest poll interval later, and is then skipped.
 */
class DueQueue {
  readonly #heap: DueWait[] = [];

  add(watch: Watch, dueAt: number): void {
    const heap = this.#heap;
    const wait = { watch, dueAt };
    let index = heap.length;
    heap.push(wait);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent] as DueWait;
      if (above.dueAt <= dueAt) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = wait;
  }

  /** Removes and returns the next watch whose wait is due by `until`. Undefined if there is none. */
  take(until: number): Watch | undefined {
    const dueAt = this.nextDueAt();
    return dueAt === undefined || dueAt > until ? undefined : this.#removeFirst().watch;
  }

  /** Returns when the next wait is due. Undefined if there is none. */
  nextDueAt(): number | undefined {
    for (let first = this.#heap[0]; first !== undefined; first = this.#heap[0]) {
      if (first.watch.dueAt === first.dueAt) return first.dueAt;
      this.#removeFirst();
    }
    return undefined;
  }

  #removeFirst(): DueWait {
    const heap = this.#heap;
    const first = heap[0] as DueWait;
    const last = heap.pop() as DueWait;
    if (heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && (heap[child + 1] as DueWait).dueAt < (heap[child] as DueWait).dueAt) child++;
      const below = heap[child] as DueWait;
      if (below.dueAt >= last.dueAt) break;
      heap[index] = below;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

/** One reader's watch on one key. A change between two waits ends the next wait at once. */
export class Watch {
  /** When the current wait ends; infinite between two waits. */
  dueAt = Number.POSITIVE_INFINITY;
  readonly key: string;
  readonly #waiting: Waiting;
  /** Whether the current wait ends with a poll, rather than at its time limit. */
  #isPollNext = false;
  /** Whether the last wait has ended with a poll, and no message has come since. */
  #wasPolled = false;
  /** The last wake-up that arrived between two waits. */
  #missed: Woken | undefined = undefined;
  /** Ends the current wait. */
  #resume: ((woken: Woken) => void) | undefined = undefined;

  constructor(waiting: Waiting, key: string) {
    this.#waiting = waiting;
    this.key = key;
  }

  /**
   * Resolves when the key changes, when the poll of this `round` (0, 1, 2 …) is due, or after
   * `maxMs`. Never rejects.
   */
  wait(round: number, maxMs: number): Promise<Woken> {
    const missed = this.#missed;
    this.#missed = undefined;
    this.#wasPolled = false;
    if (missed !== undefined) return Promise.resolve(missed);
    const pollMs = this.#waiting.pollMsOf(round);
    this.#isPollNext = pollMs < maxMs;
    this.dueAt = this.#waiting.wakeIn(this, Math.min(pollMs, maxMs));
    return new Promise((resolve) => {
      this.#resume = resolve;
    });
  }

  wake(woken: Woken): void {
    this.dueAt = Number.POSITIVE_INFINITY;
    this.#wasPolled = woken.kind === "poll" && this.#isPollNext;
    if (this.#resume === undefined) this.#missed = woken;
    this.#resume?.(woken);
    this.#resume = undefined;
  }

  /** Ends the watch. If the reader has just polled, it has found what no message had told it. */
  end(): void {
    this.dueAt = Number.POSITIVE_INFINITY;
    this.#waiting.end(this, this.#wasPolled);
  }
}
