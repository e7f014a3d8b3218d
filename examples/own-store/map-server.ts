import type { Cancel } from "graphql-cached/store";

/** What a name holds: an entry, the invalidation clock, or the settings. */
export interface Item {
  readonly bytes: Buffer;
  readonly dropAt: number;
}

/**
 * Stands in for a database that several processes share. A real one needs the same three things:
 * reads, a write that fails if the item has changed since it was read, and one clock.
 */
export class MapServer {
  readonly now: () => number;
  readonly #items = new Map<string, Item>();
  readonly #subscribers = new Set<(name: string) => void>();

  constructor(now: () => number = Date.now) {
    this.now = now;
  }

  async get(name: string): Promise<Item | undefined> {
    return this.#live(name);
  }

  /** Replaces `seen` by `next`, or removes it. Resolves to false, and writes nothing, if the name was written in between. */
  async compareAndSet(name: string, seen: Item | undefined, next: Item | undefined): Promise<boolean> {
    if (this.#live(name) !== seen) return false;
    if (next === undefined) this.#items.delete(name);
    else this.#items.set(name, next);
    return true;
  }

  #live(name: string): Item | undefined {
    const item = this.#items.get(name);
    return item !== undefined && this.now() < item.dropAt ? item : undefined;
  }

  publish(name: string): void {
    for (const subscriber of this.#subscribers) subscriber(name);
  }

  subscribe(subscriber: (name: string) => void): Cancel {
    this.#subscribers.add(subscriber);
    return () => void this.#subscribers.delete(subscriber);
  }
}
