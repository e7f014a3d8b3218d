import { LRUCache } from "lru-cache";
import { getOrMake } from "../base/multimap.js";

/**
 * Decides which misses are worth a lease and a stored response: those cost more than an execution, and are paid for by the hits
 * that follow. An operation has to be asked for twice, and only so many have stored responses: a client can send any number of
 * them. A key whose last response had too few hits waits for 1, 2, 4 … requests. A new key of an operation whose responses
 * are seldom hits, since each request has other variables, has to be asked for twice.
 */
export class Admission {
  readonly #operations = new LRUCache<string, { stored: number; hits: number }>({ max: MAX_REMEMBERED });
  readonly #keys = new LRUCache<string, KeyState>({ max: MAX_REMEMBERED });
  /** Until when the responses of an operation may be stored, by operation. */
  readonly #storedUntil = new Map<string, number>();
  readonly #minHits: number;
  readonly #maxOperations: number;

  /** `minHits`: the hits that pay for a stored response. `maxOperations`: how many operations have stored responses at most. */
  constructor({ minHits, maxOperations }: { readonly minHits: number; readonly maxOperations: number }) {
    this.#minHits = minHits;
    this.#maxOperations = maxOperations;
  }

  admits(operation: string, key: string, now: number): boolean {
    if (!this.isKnown(operation) || !this.#hasRoom(operation, now)) return false;
    return this.#stateOf(operation, key).wait === 0;
  }

  /** Whether an operation was asked for before, as it is from now on. */
  isKnown(operation: string): boolean {
    const isKnown = this.#operations.has(operation);
    if (!isKnown) this.#countsOf(operation);
    return isKnown;
  }

  #hasRoom(operation: string, now: number): boolean {
    const storedUntil = this.#storedUntil;
    if (storedUntil.size < this.#maxOperations || storedUntil.has(operation)) return true;
    for (const [one, until] of storedUntil) if (until <= now) storedUntil.delete(one);
    return storedUntil.size < this.#maxOperations;
  }

  /** Counts a miss that is executed without being stored. */
  passed(operation: string, key: string): void {
    const state = this.#stateOf(operation, key);
    state.wait = Math.max(0, state.wait - 1);
  }

  hit(operation: string, key: string): void {
    const state = this.#stateOf(operation, key);
    state.hits = (state.hits ?? 0) + 1;
    // One key that is always a hit says nothing about others.
    if (state.hits <= MAX_HITS) this.#countsOf(operation).hits++;
  }

  /** Counts a miss that is stored, until `until` at most. */
  stored(operation: string, key: string, until: number): void {
    this.#storedUntil.set(operation, Math.max(until, this.#storedUntil.get(operation) ?? 0));
    const state = this.#stateOf(operation, key);
    state.lastWait =
      state.hits !== undefined && state.hits < this.#minHits ? Math.min(MAX_WAIT, Math.max(1, state.lastWait * 2)) : 0;
    state.wait = state.lastWait;
    state.hits = 0;
    const counts = this.#countsOf(operation);
    counts.stored++;
    if (counts.stored < MAX_STORED) return;
    counts.stored /= 2;
    counts.hits /= 2;
  }

  #countsOf(operation: string): { stored: number; hits: number } {
    return getOrMake(this.#operations, operation, () => ({ stored: 0, hits: 0 }));
  }

  #stateOf(operation: string, key: string): KeyState {
    return getOrMake(this.#keys, key, () => {
      const { stored, hits } = this.#countsOf(operation);
      const isSeldomHit = stored >= MIN_STORED && hits < (this.#minHits * stored) / 2;
      return { wait: isSeldomHit ? 1 : 0, lastWait: 0, hits: undefined };
    });
  }
}

/** How many operations, and how many keys, are remembered. */
const MAX_REMEMBERED = 10_000;
/** Stored responses of an operation after which its new keys are judged by how often the others were hits. */
const MIN_STORED = 16;
/** Both counts of an operation are halved at this, so that old ones weigh less. */
const MAX_STORED = 128;
/** Hits of one stored response that count for its operation. */
const MAX_HITS = 4;
/** The most requests of a key that are executed without being stored, one after the other. */
const MAX_WAIT = 16;

interface KeyState {
  /** How many misses are executed without being stored, before one is. */
  wait: number;
  /** How many there were the last time. */
  lastWait: number;
  /** Hits since a response was stored. Undefined: none was. */
  hits: number | undefined;
}
