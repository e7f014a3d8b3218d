import type { Counters } from "./counters.js";
import type { CacheEvent, Listener, ReadOutcome, ServedEvent } from "./events.js";
import type { HotKeys } from "./hot-keys.js";

/**
 * Counts events and delivers them to listeners. A listener that throws affects neither the cache nor
 * the other listeners.
 */
export class Channel {
  /** Counts reads by key. Undefined unless somebody has asked for hot keys. */
  hotKeys: HotKeys | undefined = undefined;
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
    if (this.hotKeys !== undefined && event.name === "resolver.bypassed" && event.digest !== "")
      this.hotKeys.add(event.coordinate, event.digest);
    deliver(event, this.#listeners);
  }

  /** Counts how long a read has waited for the load of another. */
  waited(coordinate: string, waitMs: number): void {
    this.#counters?.countWait(coordinate, waitMs);
  }

  /**
   * Publishes `entry.served`. Every hit does, so the event is made, and the key read, only if there is a listener for
   * it. `readBytes`: the size of the stored value that the read was served from.
   */
  served(coordinate: string, key: ServedKey, outcome: Exclude<ReadOutcome, "bypassed">, readBytes = 0): void {
    this.#counters?.countServed(coordinate, outcome, readBytes);
    if (this.hotKeys !== undefined) this.hotKeys.add(coordinate, key.digest, key.input);
    if (this.#servedListeners.length > 0)
      deliver({ name: "entry.served", coordinate, digest: key.digest, outcome }, this.#servedListeners);
  }
}

/** What is read of a key if somebody listens. */
interface ServedKey {
  readonly digest: string;
  readonly input?: string;
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
