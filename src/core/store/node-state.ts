import type { Clock } from "../base/clock.js";
import { CachedError, messageOf } from "../base/errors.js";
import type { Channel } from "../telemetry/channel.js";
import { Breaker, type BreakerStatus } from "./breaker.js";
import type { ConnectionFailure } from "./store.js";

/** How this process reaches one node of a store: its breaker, how long it takes, and what has failed on it. */
export class NodeState {
  readonly breaker: Breaker;
  readonly latencies = new Latencies();
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

interface Failing {
  readonly at: number;
  readonly refusal: string | undefined;
}

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

export interface NodeHealth {
  readonly node: string;
  readonly breaker: BreakerStatus;
  /** Of the last 256 operations; those that exceeded their time budget count with it. Undefined: there was none. */
  readonly latency: Latency | undefined;
  readonly operations: number;
  readonly failures: number;
  readonly lastFailure: StoreFailure | undefined;
}

const KEPT = 256;

/** How long recent operations took, in milliseconds. `operations`: how many of them there are. */
export interface Latency {
  readonly operations: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** The durations of the last 256 operations. Percentiles are computed on demand. */
export class Latencies {
  /** Grows up to `KEPT`: a Cluster whose nodes are not known yet has one for each slot that is asked. */
  readonly #durations: number[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(ms: number): void {
    this.#durations[this.#count++ & (KEPT - 1)] = ms;
  }

  summary(): Latency | undefined {
    const sorted = this.#durations.toSorted((a, b) => a - b);
    if (sorted.length === 0) return undefined;
    // The nearest rank: the smallest duration that is at least as long as this share of all.
    const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] as number;
    return { operations: sorted.length, p50Ms: at(0.5), p95Ms: at(0.95), p99Ms: at(0.99), maxMs: at(1) };
  }
}

/**
 * The connections that a store has opened for itself and that cannot be used. No operation fails for them, so without this nobody
 * would notice. Published once for each cause: after new credentials, all of them fail for the same one.
 */
export class OwnConnections {
  readonly #channel: Channel;
  readonly #failures = new Map<string, ConnectionFailure>();

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  get failures(): readonly ConnectionFailure[] {
    return [...this.#failures.values()];
  }

  report(failure: ConnectionFailure): void {
    const { use, node, error } = failure;
    const id = `${use} ${node}`;
    if (error === undefined) {
      if (this.#failures.delete(id) && this.#failures.size === 0)
        this.#channel.publish({ name: "connection.recovered" });
      return;
    }
    const isPublished = this.failures.some((other) => other.error?.message === error.message);
    this.#failures.set(id, failure);
    if (isPublished) return;
    const message = `store: the connection for ${use} cannot be used: ${error.message}`;
    this.#channel.publish({
      name: "connection.failed",
      use,
      node,
      error: new CachedError("CACHED_STORE_UNAVAILABLE", message, { cause: error }),
    });
  }
}
