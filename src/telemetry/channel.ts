import type { Counters } from "./counters.js";
import type { CacheEvent, Listener, ReadOutcome, ServedEvent } from "./events.js";

/**
 * Counts events and delivers them to listeners. A listener that throws affects neither the cache nor
 * the other listeners.
 */
export class Channel {
  readonly #counters: Counters | undefined;
  readonly #listeners: Listener[] = [];
  /** The listeners that get `entry.served` as well. */
  readonly #servedListeners: Listener[] = [];

  constructor(counters?: Counters) {
    this.#counters = counters;
  }

  listen(listener: Listener, events: "all" | "all but entry.served" = "all"): void {
    this.#listeners.push(listener);
    if (events === "all") this.#servedListeners.push(listener);
  }

  publish(event: Exclude<CacheEvent, ServedEvent>): void {
    this.#counters?.count(event);
    deliver(event, this.#listeners);
  }

  /** Publishes `entry.served`. Every hit does, so the event is made, and the key read, only if there is a listener for it. */
  served(coordinate: string, key: { readonly digest: string }, outcome: Exclude<ReadOutcome, "bypassed">): void {
    this.#counters?.countServed(coordinate, outcome);
    if (this.#servedListeners.length > 0)
      deliver({ name: "entry.served", coordinate, digest: key.digest, outcome }, this.#servedListeners);
  }
}

function deliver(event: CacheEvent, listeners: readonly Listener[]): void {
  for (const listener of listeners) {
    try {
      listener(event);
    } catch {
      // Errors of a listener are its own responsibility.
    }
  }
}
