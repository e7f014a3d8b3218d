import type { Clock, Random } from "../../base/clock.js";
import { Multimap } from "../../base/multimap.js";
import type { Entry } from "../../store/entry.js";
import type { Wake } from "../../store/store.js";

/**
 * Lets readers wait for loads of other processes. A message wakes them. Messages can be lost, so
 * they also poll, first after 50 ms, or after 200 ms while messages arrive, doubling up to 400 ms, with jitter.
 */
export class Waiting {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #byKey = new Multimap<string, Watch>();
  /** The next poll of each window, by the number of the window. */
  readonly #polls = new Map<number, Poll>();
  /** As far as the last wait has shown. A store may send none, or a connection be broken unnoticed. */
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
    const watch = new Watch(this, key);
    this.#byKey.add(key, watch);
    return watch;
  }

  /** Returns after how long the wait of this `round` polls, in milliseconds. */
  pollMsOf(round: number): number {
    const firstMs = this.#doMessagesArrive ? LATE_FIRST_POLL_MS : FIRST_POLL_MS;
    return Math.min(firstMs * 2 ** round, MAX_POLL_MS) * (0.75 + this.#random() / 2);
  }

  /** Wakes `watch` in `ms` milliseconds, or up to a window earlier, unless it is woken before. Returns when that is. */
  wakeIn(watch: Watch, ms: number): number {
    const delayMs = Math.max(0, ms);
    const dueAt = this.#clock.now() + delayMs;
    const window = Math.floor(dueAt / POLL_WINDOW_MS);
    let poll = this.#polls.get(window);
    if (poll === undefined || poll.dueAt > dueAt) {
      const added: Poll = { dueAt, watches: [] };
      this.#polls.set(window, added);
      this.#clock.after(delayMs, () => {
        if (this.#polls.get(window) === added) this.#polls.delete(window);
        for (const due of added.watches) if (due.dueAt === dueAt) due.wake({ kind: "poll" });
      });
      poll = added;
    }
    poll.watches.push(watch);
    return poll.dueAt;
  }

  /** `wasFoundByPoll`: the change that the watch was for was found by a poll. */
  end(watch: Watch, wasFoundByPoll: boolean): void {
    if (wasFoundByPoll) this.#doMessagesArrive = false;
    this.#byKey.delete(watch.key, watch);
  }

  /** The number of keys for whose loads in other processes a reader waits now. */
  get waitingKeys(): number {
    return this.#byKey.groups().filter((watches) => watches.some(isWaiting)).length;
  }

  readonly wake: Wake = (key, entry, gen) => {
    const watches = key === undefined ? this.#byKey.groups().flat() : this.#byKey.get(key);
    // Without a key, messages may have been lost. One for a key that nobody waits for says nothing.
    if (key === undefined) this.#doMessagesArrive = false;
    else if (watches.some(isWaiting)) this.#doMessagesArrive = true;
    for (const watch of watches) watch.wake(key === undefined ? { kind: "poll" } : { kind: "changed", entry, gen });
  };
}

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
/** Waiters that are due within the same window poll together, so that they share one store read. */
const POLL_WINDOW_MS = 15;

/** Waiters that poll together. */
interface Poll {
  readonly dueAt: number;
  readonly watches: Watch[];
}

const isWaiting = ({ dueAt }: Watch): boolean => dueAt !== Number.POSITIVE_INFINITY;

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

  /** If the reader has just polled, it has found what no message had told it. */
  end(): void {
    this.dueAt = Number.POSITIVE_INFINITY;
    this.#waiting.end(this, this.#wasPolled);
  }
}
