import type { Clock, Random } from "../../base/clock.js";
import { Multimap } from "../../base/multimap.js";
import type { Entry } from "../../store/entry.js";
import type { Wake } from "../../store/store.js";

/**
 * Lets readers wait for loads of other processes. A message wakes them. Messages can be lost, so
 * they also poll, first after 50 ms, or after 200 ms while messages arrive, doubling up to 400 ms,
 * with jitter.
 */
export class Waiting {
  readonly #byKey = new Multimap<string, Watch>();
  /** The next poll of each window, by the number of the window. */
  readonly #polls = new Map<number, Poll>();
  /** As far as the last wait has shown. A store may send none, or a connection break unnoticed. */
  #doMessagesArrive = false;

  constructor(
    private readonly clock: Clock,
    private readonly random: Random,
  ) {}

  /**
   * Starts watching `key`, before the reader requests the lease (interleaving 3 of PROTOCOL.md),
   * until `end`. A change between two waits ends the next one at once.
   */
  watch(key: string): Watch {
    const idle = { isPollNext: false, wasPolled: false, missed: undefined, resume: undefined };
    const watch: Watch = { key, dueAt: Number.POSITIVE_INFINITY, ...idle };
    this.#byKey.add(key, watch);
    return watch;
  }

  /** Resolves at a change, at the poll of this `round` (0, 1 …) or after `maxMs`. Never rejects. */
  wait(watch: Watch, round: number, maxMs: number): Promise<Woken> {
    const { missed } = watch;
    watch.missed = undefined;
    watch.wasPolled = false;
    if (missed !== undefined) return Promise.resolve(missed);
    const firstMs = this.#doMessagesArrive ? LATE_FIRST_POLL_MS : FIRST_POLL_MS;
    const pollMs = Math.min(firstMs * 2 ** round, MAX_POLL_MS) * (0.75 + this.random() / 2);
    watch.isPollNext = pollMs < maxMs;
    const poll = this.#pollIn(Math.max(0, Math.min(pollMs, maxMs)));
    poll.watches.push(watch);
    watch.dueAt = poll.dueAt;
    return new Promise((resolve) => {
      watch.resume = resolve;
    });
  }

  /** Returns the poll of the window that ends in `delayMs`: then, or up to a window earlier. */
  #pollIn(delayMs: number): Poll {
    const dueAt = this.clock.now() + delayMs;
    const window = Math.floor(dueAt / POLL_WINDOW_MS);
    const next = this.#polls.get(window);
    if (next !== undefined && next.dueAt <= dueAt) return next;
    const poll: Poll = { dueAt, watches: [] };
    this.#polls.set(window, poll);
    const wake = (): void => {
      if (this.#polls.get(window) === poll) this.#polls.delete(window);
      for (const watch of poll.watches) if (watch.dueAt === dueAt) wakeOne(watch, { kind: "poll" });
    };
    this.clock.after(delayMs, wake, true);
    return poll;
  }

  /** Ends a watch. If its reader has just polled, it has found what no message had told it. */
  end(watch: Watch): void {
    watch.dueAt = Number.POSITIVE_INFINITY;
    if (watch.wasPolled) this.#doMessagesArrive = false;
    this.#byKey.delete(watch.key, watch);
  }

  readonly wake: Wake = (key, entry, gen) => {
    const watches = key === undefined ? this.#byKey.groups().flat() : this.#byKey.get(key);
    // Without a key, messages may have been lost. One for a key that nobody waits for says nothing.
    if (key === undefined) this.#doMessagesArrive = false;
    else if (watches.some(({ resume }) => resume !== undefined)) this.#doMessagesArrive = true;
    for (const watch of watches) wakeOne(watch, key === undefined ? { kind: "poll" } : { kind: "changed", entry, gen });
  };
}

/**
 * Why a wait has ended. `changed`: the key has changed and the lease chain `gen` has ended; `entry`
 * is what its load has produced, if it was sent along. `poll`: the waiter should read the store.
 */
type Woken =
  | { readonly kind: "changed"; readonly entry: Entry | undefined; readonly gen: string | undefined }
  | { readonly kind: "poll" };

const FIRST_POLL_MS = 50;
/** While messages arrive. A poll then finds something only if a message was lost. */
const LATE_FIRST_POLL_MS = 200;
const MAX_POLL_MS = 400;
/** Waiters that are due within the same window poll together, so that they share one store read. */
const POLL_WINDOW_MS = 15;

interface Poll {
  readonly dueAt: number;
  readonly watches: Watch[];
}

export interface Watch {
  readonly key: string;
  /** When the current wait ends; infinite between two waits. */
  dueAt: number;
  /** Whether the current wait ends with a poll, rather than at its time limit. */
  isPollNext: boolean;
  /** Whether the last wait has ended with a poll, and no message has come since. */
  wasPolled: boolean;
  /** The last wake-up that arrived between two waits. */
  missed: Woken | undefined;
  resume: ((woken: Woken) => void) | undefined;
}

function wakeOne(watch: Watch, woken: Woken): void {
  watch.dueAt = Number.POSITIVE_INFINITY;
  watch.wasPolled = woken.kind === "poll" && watch.isPollNext;
  if (watch.resume === undefined) watch.missed = woken;
  watch.resume?.(woken);
  watch.resume = undefined;
}
