import type { Clock } from "../base/clock.js";
import { type CachedError, messageOf } from "../base/errors.js";
import { Breaker, type BreakerStatus } from "./breaker.js";
import { Latencies, type Latency } from "./latencies.js";

/** How this process reaches one node of a store: its breaker, how long it takes, and what has failed on it. */
export class NodeRecord {
  readonly breaker: Breaker;
  readonly latencies = new Latencies();
  /** The operations that have failed and not succeeded since. */
  readonly failing = new Map<string, Failing>();
  readonly #node: string;
  readonly #clock: Clock;
  #failures = 0;
  #lastFailure: StoreFailure | undefined;

  constructor(node: string, clock: Clock) {
    this.#node = node;
    this.#clock = clock;
    this.breaker = new Breaker(clock, undefined, MAX_PAUSE_MS);
  }

  /** Records a failure. `isRefused`: the server does not allow the operation to this user. */
  failed(operation: string, error: CachedError, isRefused: boolean): void {
    const at = this.#clock.now();
    this.#failures++;
    this.#lastFailure = { at, message: error.message };
    const refusal = isRefused ? messageOf(error.cause) : this.failing.get(operation)?.refusal;
    this.failing.set(operation, { at, refusal });
  }

  /**
   * Records the success of an operation. Returns whether the node has recovered: what has failed works again. A server
   * without memory refuses writes and replies to reads, so it has not recovered with each of them.
   */
  recover(operation: string): boolean {
    this.failing.delete(operation);
    const now = this.#clock.now();
    for (const { at } of this.failing.values()) if (now - at < FAILING_MS) return false;
    this.failing.clear();
    return true;
  }

  /** The operations that were refused, if they have failed in the last 30 seconds, with the words of the server. */
  refusals(): readonly Refusal[] {
    const since = this.#clock.now() - FAILING_MS;
    return [...this.failing].flatMap(([operation, { at, refusal }]) =>
      refusal === undefined || at <= since ? [] : [{ node: this.#node, operation, message: refusal }],
    );
  }

  health(): NodeHealth {
    return {
      node: this.#node,
      breaker: this.breaker.status,
      latency: this.latencies.summary(),
      operations: this.latencies.count,
      failures: this.#failures,
      lastFailure: this.#lastFailure,
    };
  }
}

/** How long a node counts as failing if the operation that has failed is not called again. */
const FAILING_MS = 30_000;

/** How long a node that fails is not asked at most. A probe costs the requests of one tick a time budget. */
const MAX_PAUSE_MS = 1_000;

/** When an operation last failed, and the words in which the server has refused it to this user, if it has. */
interface Failing {
  readonly at: number;
  readonly refusal: string | undefined;
}

/** An operation that a server does not allow the user of this process. */
export interface Refusal {
  readonly node: string;
  readonly operation: string;
  readonly message: string;
}

/** A failed operation, or a connection error. `at`: on the clock of this process. */
export interface StoreFailure {
  readonly at: number;
  readonly message: string;
}

/** How this process reaches one node of the store. `node` is empty if the store is one node. */
export interface NodeHealth {
  readonly node: string;
  readonly breaker: BreakerStatus;
  /** Of the last 256 operations; those that exceeded their time budget count with it. Undefined: there was none. */
  readonly latency: Latency | undefined;
  /** Since the process started. */
  readonly operations: number;
  readonly failures: number;
  readonly lastFailure: StoreFailure | undefined;
}
