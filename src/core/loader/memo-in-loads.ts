import type { EnclosingLoad } from "../tier/request/waiters.js";

/**
 * What the loads of a request have read. What a load reads becomes part of what is stored, so it
 * must not be older than the load, as what the request remembers may be. So a load gets what any
 * load of the request has read since it began.
 */
export class MemoInLoads<Value> {
  readonly #entries = new Map<unknown, Entry<Value>>();

  get(key: unknown, load: EnclosingLoad): Entry<Value> | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && entry.starts >= load.start ? entry : undefined;
  }

  set(key: unknown, value: Value, load: EnclosingLoad, starts: number): void {
    this.#entries.set(key, { value, load, starts });
  }

  /** What was set last for a key, in whichever load. */
  last(key: unknown): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  keys(): Iterable<unknown> {
    return this.#entries.keys();
  }

  delete(key: unknown): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }
}

interface Entry<Value> {
  readonly value: Value;
  readonly load: EnclosingLoad;
  /** `Loads.starts` when it began. */
  readonly starts: number;
}
