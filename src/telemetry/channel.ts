import type { CacheEvent, Listener } from "./events.js";

/** Where events are told. A listener that throws harms neither the cache nor the other listeners. */
export class Channel {
  readonly #listeners: Listener[] = [];

  listen(listener: Listener): void {
    this.#listeners.push(listener);
  }

  publish(event: CacheEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch {
        // What a listener does is its own affair.
      }
    }
  }
}
