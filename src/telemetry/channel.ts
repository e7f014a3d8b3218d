import type { CacheEvent, Listener } from "./events.js";

/**
 * Delivers events to listeners. A listener that throws affects neither the cache nor the other
 * listeners.
 */
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
        // Errors of a listener are its own responsibility.
      }
    }
  }
}
