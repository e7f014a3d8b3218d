import { LRUCache } from "lru-cache";
import { getOrMake } from "../base/multimap.js";

/**
 * Decides which misses are worth a lease and a stored response: those cost more than an execution,
 * and are paid for by the hits that follow. An operation has to be asked for twice, and only so
 * many have stored responses: a client can send any number of them. A key whose last response had
 * no hit, or whose last ones had too few, waits for 1, 2, 4 … requests. A new key of an operation
 * whose responses are seldom hits, since each request has other variables, has to be asked for
 * twice.
 */
export class Admission {
  readonly #operations = new LRUCache<string, OperationState>({ max: MAX_REMEMBERED });
  /** Without those of keys that were asked for once. */
  readonly #keys = new LRUCache<string, KeyState>({ max: MAX_REMEMBERED });
  /** By operation. Instants are on the clock of this process. */
  readonly #storedUntil = new Map<string, number>();
  readonly #minHits: number;
  readonly #maxOperations: number;

  /** `minHits`: the hits that pay for a stored response. `maxOperations`: how many have any. */
  constructor({ minHits, maxOperations }: { readonly minHits: number; readonly maxOperations: number }) {
    this.#minHits = minHits;
    this.#maxOperations = maxOperations;
  }

  of(digest: string): OperationState {
    const make = () => ({ digest, isKnown: false, stored: 0, hits: 0, isCacheable: undefined, isPrivate: false });
    return getOrMake(this.#operations, digest, make);
  }

  /** Whether an operation was asked for before, as it is from now on. */
  isKnown(operation: OperationState): boolean {
    const { isKnown } = operation;
    operation.isKnown = true;
    return isKnown;
  }

  /** Whether to execute without a look-up, which would seldom be a hit. Counts the request. */
  passes(operation: OperationState, key: string): boolean {
    const state = this.#stateOf(operation, key);
    if (state.wait === 0) return false;
    state.wait--;
    return true;
  }

  hasRoom({ digest }: OperationState, now: number): boolean {
    const storedUntil = this.#storedUntil;
    if (storedUntil.size < this.#maxOperations || storedUntil.has(digest)) return true;
    for (const [one, until] of storedUntil) if (until <= now) storedUntil.delete(one);
    return storedUntil.size < this.#maxOperations;
  }

  hit(operation: OperationState, key: string): void {
    const state = this.#stateOf(operation, key);
    state.hits = (state.hits ?? 0) + 1;
    // One key that is always a hit says nothing about others.
    if (state.hits <= MAX_HITS) operation.hits++;
  }

  /** Counts a miss that is stored, until `until` at most. */
  stored(operation: OperationState, key: string, until: number): void {
    const { digest } = operation;
    this.#storedUntil.set(digest, Math.max(until, this.#storedUntil.get(digest) ?? 0));
    const state = this.#stateOf(operation, key);
    state.tooFew = state.hits !== undefined && state.hits < this.#minHits ? state.tooFew + 1 : 0;
    const isWorthless = state.tooFew > 0 && (state.hits === 0 || state.tooFew > MAX_TOO_FEW);
    state.lastWait = isWorthless ? Math.min(MAX_WAIT, Math.max(1, state.lastWait * 2)) : 0;
    state.wait = state.lastWait;
    state.hits = 0;
    operation.stored++;
    if (operation.stored < MAX_STORED) return;
    operation.stored /= 2;
    operation.hits /= 2;
  }

  /** The response of a key could not be stored, so that it is not looked up until `until`. */
  unstorable(operation: OperationState, key: string, until: number): void {
    this.#stateOf(operation, key).unstorableUntil = until;
  }

  isUnstorable(key: string, now: number): boolean {
    return (this.#keys.get(key)?.unstorableUntil ?? 0) > now;
  }

  #stateOf({ stored, hits }: OperationState, key: string): KeyState {
    return getOrMake(this.#keys, key, () => {
      const isSeldomHit = stored >= MIN_STORED && hits < (this.#minHits * stored) / 2;
      return { wait: isSeldomHit ? 1 : 0, lastWait: 0, tooFew: 0, hits: undefined, unstorableUntil: 0 };
    });
  }
}

const MAX_REMEMBERED = 10_000;
/** Stored responses of an operation after which its new keys are judged by the hits of others. */
const MIN_STORED = 16;
/** Both counts of an operation are halved at this, so that old ones weigh less. */
const MAX_STORED = 128;
/** Hits of one stored response that count for its operation. */
const MAX_HITS = 4;
/** How many responses of a key one after the other may have too few hits, if each has some. */
const MAX_TOO_FEW = 5;
/** The most requests of a key that are executed without being stored, one after the other. */
const MAX_WAIT = 16;

export interface OperationState {
  readonly digest: string;
  isKnown: boolean;
  stored: number;
  hits: number;
  /** What the last execution without a lookup has shown, whatever the schema says. */
  isCacheable: boolean | undefined;
  /** Whether a response was PRIVATE although the schema does not say so. */
  isPrivate: boolean;
}

interface KeyState {
  /** How many misses are executed without being stored, before one is; and the last time. */
  wait: number;
  lastWait: number;
  tooFew: number;
  /** Hits since a response was stored. Undefined: none was. */
  hits: number | undefined;
  unstorableUntil: number;
}
