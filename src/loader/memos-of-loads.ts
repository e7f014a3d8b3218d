import type { EnclosingLoad } from "../tier/loads.js";

/**
 * What a request remembers inside of its loads, apart for each load. What a load reads becomes part of what is stored, so it
 * must not be older than the load: the request may remember a value that another process has invalidated since.
 * Nor must it depend on who waits for another load.
 */
export class MemosOfLoads<Memo> {
  readonly #create: () => Memo;
  readonly #memos = new Map<EnclosingLoad, Memo>();

  constructor(create: () => Memo) {
    this.#create = create;
  }

  of(load: EnclosingLoad): Memo {
    let memo = this.#memos.get(load);
    if (memo !== undefined) return memo;
    for (const other of this.#memos.keys()) if (other.hasEnded) this.#memos.delete(other);
    memo = this.#create();
    this.#memos.set(load, memo);
    return memo;
  }

  all(): Iterable<Memo> {
    return this.#memos.values();
  }

  clear(): void {
    this.#memos.clear();
  }
}
