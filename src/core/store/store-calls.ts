import { attempt } from "../base/built-in.js";
import { type Clock, withinParts } from "../base/clock.js";
import { CachedError, messageOf } from "../base/errors.js";
import { getOrMake, groupBy } from "../base/multimap.js";
import type { Channel } from "../telemetry/channel.js";
import { NodeState } from "./node-state.js";
import type { Store } from "./store.js";

/** Calls a store: within a time budget, through a breaker, reported, measured and traced. */
export class StoreCalls {
  /** Of the nodes that were asked. An empty id: of a store that is one node, or any node. */
  readonly states = new Map<string, NodeState>();
  /** A name whose node the store cannot say goes to it with all of these. */
  readonly nodeOf: Store["nodeOf"];
  /** Whether the cache was closed: no request begins anything any more. */
  isClosed = false;

  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly channel: Channel,
    private readonly budgetMs: number,
  ) {
    const { nodeOf } = store;
    this.nodeOf = nodeOf && ((name) => attempt(() => nodeOf.call(store, name)) ?? "");
  }

  #stateOf(node: string): NodeState {
    return getOrMake(this.states, node, () => new NodeState(node, this.clock));
  }

  reconnected(): void {
    for (const { breaker } of this.states.values()) breaker.reconnected();
    // What has failed while the nodes were not known is asked of these from now on.
    const unknown = this.nodeOf && this.states.get("");
    if (unknown === undefined || unknown.failing.size === 0) return;
    unknown.failing.clear();
    this.channel.publish({ name: "store.recovered", node: "" });
  }

  run<T>(
    node: string,
    operation: string,
    call: () => Promise<T>,
    { budgets = 1, nameCount = 1, asksBreaker = true, onTimeout }: CallOptions = {},
  ): Promise<T> {
    const state = this.states.get(node) ?? this.#stateOf(node);
    const { breaker } = state;
    if (this.isClosed && OF_REQUESTS.includes(operation))
      return Promise.reject(unavailable(operation, "the cache is closed"));
    if (asksBreaker && !breaker.isCalm && !breaker.mayTry())
      return Promise.reject(unavailable(operation, "the circuit breaker is open after repeated failures"));
    const { storeListeners, tracing, storeFinished } = this.channel;
    const isFollowed = storeListeners.length > 0 || tracing !== undefined || storeFinished.hasSubscribers;
    const observed = isFollowed ? this.#observe(node, operation, nameCount) : undefined;
    const { era } = breaker;
    const fail = (cause: unknown): never => {
      if (asksBreaker) breaker.failed(era);
      const error = this.#errorOf(node, operation, cause);
      observed?.end(error);
      const isRefused = attempt(() => (error.cause as { isMissingRight?: unknown }).isMissingRight) === true;
      state.failed(operation, error, isRefused);
      this.channel.publish({ name: "store.failed", node, operation, nameCount, error });
      throw error;
    };
    const running = observed === undefined ? call() : observed.run(call);
    return this.#inTime(operation, running, budgets, node, onTimeout).then((result) => {
      observed?.end();
      if (asksBreaker && !breaker.isCalm) breaker.succeeded();
      if (state.failing.size > 0 && state.recover(operation)) this.channel.publish({ name: "store.recovered", node });
      return result;
    }, fail);
  }

  /**
   * Runs an operation on items of any node: nodes concurrently, the items of one node in batches,
   * one after the other. A failed batch is the last of its node, so that the budgets of a store
   * that is away do not add up. Without `onFailure`, rejects after all nodes have ended.
   */
  async inBatches<Item extends Named, Result>(
    operation: string,
    items: readonly Item[],
    how: NodeOperation<Item, Result>,
  ): Promise<readonly Result[]> {
    const { nodeOf } = this;
    if (nodeOf === undefined) return this.#inBatchesTo("", operation, items, how);
    const results = new Array<Result>(items.length);
    const ended = await Promise.allSettled(
      [...groupBy(items, (item) => nodeOf(typeof item === "string" ? item : item.key))].map(async ([node, indexes]) => {
        const part = indexes.map((index) => items[index] as Item);
        const found = await this.#inBatchesTo(node, operation, part, how);
        for (const [at, result] of found.entries()) results[indexes[at] as number] = result;
      }),
    );
    const failed = ended.find((one) => one.status === "rejected");
    if (failed !== undefined) throw failed.reason as Error;
    return results;
  }

  async #inBatchesTo<Item extends Named, Result>(
    node: string,
    operation: string,
    items: readonly Item[],
    how: NodeOperation<Item, Result>,
  ): Promise<readonly Result[]> {
    const { run, onFailure, onLate, onTimeout, continuesAfterErrors, budgets = budgetsOf(items.length) } = how;
    const results: Result[] = [];
    let firstError: unknown;
    for (let from = 0, to = 0; from < items.length; from = to) {
      to = endOfBatch(node, how, items, from);
      const batch = to - from === items.length ? items : items.slice(from, to);
      let running: Promise<readonly Result[]> | undefined;
      const start = async (): Promise<readonly Result[]> => {
        running = promised(run(batch, node));
        const found = await running;
        if (found?.length !== batch.length) throw INCOMPLETE;
        return found;
      };
      try {
        const found = await this.run(node, operation, start, {
          budgets,
          nameCount: items.length - from,
          onTimeout: () => onTimeout?.(node, batch.length),
        });
        for (const result of found) results.push(result);
      } catch (error) {
        if (running !== undefined) onLate?.(running, batch);
        if (onFailure !== undefined) return [...results, ...items.slice(from).map(() => onFailure(error))];
        firstError ??= error;
        if (continuesAfterErrors !== true || !isReply(error)) break;
      }
    }
    if (firstError !== undefined) throw firstError as Error;
    return results;
  }

  /** Runs a call on which nothing that is served depends. */
  async beside<T>(operation: string, call: () => Promise<T>): Promise<T> {
    try {
      return await this.#inTime(operation, promised(call()), BACKGROUND_BUDGETS);
    } catch (cause) {
      throw this.#errorOf("", operation, cause);
    }
  }

  /** The budgets do not pass while this process is busy or bytes arrive from `node`. */
  #inTime<T>(operation: string, running: Promise<T>, budgets: number, node?: string, onLate?: () => void): Promise<T> {
    const ms = this.budgetMs * budgets;
    const otherwise = (): Promise<never> => {
      onLate?.();
      const reason = `no reply within ${ms} ms; check the store, or raise \`storage.storeTimeoutMs\``;
      return Promise.reject(unavailable(operation, reason));
    };
    const store = this.store;
    const progress =
      node === undefined || store.connectionTo === undefined
        ? undefined
        : (): unknown => attempt(() => store.connectionTo?.(node).received);
    return withinParts(this.clock, running, { ms, otherwise, maxMs: UNCOUNTED_BUDGETS * this.budgetMs, progress });
  }

  /** Reports that a node could not read some keys. Not for its breaker: it has read the rest. */
  partFailed(node: string, cause: unknown, nameCount: number): void {
    const error = this.#errorOf(node, "read", cause);
    // Not "read": the call itself succeeds, which is no recovery.
    this.#stateOf(node).failed("part of a read", error, false);
    this.channel.publish({ name: "store.failed", node, operation: "read", nameCount, error });
  }

  #observe(node: string, operation: string, nameCount: number) {
    const startedAt = this.clock.now();
    const trace = this.channel.tracing?.startStore({ operation, node, nameCount });
    return {
      // An adapter may throw.
      run: async <T>(call: () => Promise<T>): Promise<T> => (trace === undefined ? call() : trace.run(call)),
      end: (error?: CachedError): void => {
        trace?.end(error);
        const storeMs = this.clock.now() - startedAt;
        const failure = error === undefined ? {} : { error };
        this.channel.finished({ name: "store.finished", node, operation, nameCount, storeMs, ...failure });
      },
    };
  }

  /** While the store is not connected, the error says why. */
  #errorOf(node: string, operation: string, cause: unknown): CachedError {
    const connectionError = attempt(() => this.store.connectionTo?.(node).error);
    if (connectionError === undefined && cause instanceof CachedError) return cause;
    const reason = connectionError === undefined ? "" : ` (connection: ${connectionError.message})`;
    const message = messageOf(cause);
    // A call that was given up begins in the same way.
    const prefix = unavailable(operation, "").message;
    const own = message.startsWith(prefix) ? message.slice(prefix.length) : message;
    return unavailable(operation, own + reason, cause);
  }
}

export const BACKGROUND_BUDGETS = 10;
/** For how many budgets no time passes while this process is busy or replies arrive. */
const UNCOUNTED_BUDGETS = 10;

/** A closed cache may still read, release what it was granted, and invalidate. */
const OF_REQUESTS = ["acquire", "storeValues"];

interface CallOptions {
  /** How many time budgets it may take. Default: 1. */
  readonly budgets?: number;
  readonly onTimeout?: (() => void) | undefined;
  /** The number of keys and tags that get no result if it fails. Default: 1. */
  readonly nameCount?: number;
  /** Whether the breaker of the node decides about the call, and counts it. Default: true. */
  readonly asksBreaker?: boolean;
}

export function promised<T>(running: Promise<T> | undefined): Promise<T> {
  if (typeof running?.then === "function") return running;
  throw new TypeError(`expected a promise, got ${typeof running}; ${CHECK_STORE}`);
}

export const CHECK_STORE = "check the store with `storeConformance`";

export const INCOMPLETE = new TypeError(`expected one result for each key, in their order; ${CHECK_STORE}`);

export const unavailable = (operation: string, reason: string, cause?: unknown): CachedError =>
  new CachedError("CACHED_STORE_UNAVAILABLE", `store: \`${operation}\` failed: ${reason}`, { cause });

type Named = string | { readonly key: string };

export interface NodeOperation<Item, Result> {
  readonly run: (part: readonly Item[], node: string) => Promise<readonly Result[]>;
  /** Returns the result of an item whose node has failed. Undefined: the operation rejects. */
  readonly onFailure?: (error: unknown) => Result;
  /** Called with a batch that has failed, perhaps for its budget, and may still succeed. */
  readonly onLate?: (running: Promise<readonly Result[]>, part: readonly Item[]) => void;
  readonly onTimeout?: (node: string, count: number) => void;
  /** Of a batch. Default: `budgetsOf` the items of the node. */
  readonly budgets?: number;
  readonly maxItems?: number;
  /** Known, or expected. */
  readonly bytesOf?: (item: Item, node: string) => number;
  /** Whether an error that the store returns for one batch does not prevent the next ones. */
  readonly continuesAfterErrors?: boolean;
}

/** Bounds for how long one batch of scripts or reads blocks a server, or this process. */
const KEYS_PER_BATCH = 500;
/** A batch ends before the value with which it would exceed this size. */
export const BYTES_PER_BATCH = 1024 * 1024;

export const KEYS_PER_BUDGET = 100;
/** From one to five for the keys of a node and tick: slow is not away. */
export const budgetsOf = (nameCount: number): number =>
  Math.max(1, Math.min(Math.ceil(nameCount / KEYS_PER_BUDGET), 5));

function endOfBatch<Item, Result>(
  node: string,
  { bytesOf, maxItems = KEYS_PER_BATCH }: NodeOperation<Item, Result>,
  items: readonly Item[],
  from: number,
): number {
  const end = Math.min(from + maxItems, items.length);
  if (bytesOf === undefined) return end;
  let bytes = 0;
  for (let at = from; at < end; at++) {
    bytes += bytesOf(items[at] as Item, node);
    if (bytes > BYTES_PER_BATCH && at > from) return at;
  }
  return end;
}

/** Returns whether the store itself reported the failure, rather than not replying in time. */
const isReply = (error: unknown): boolean =>
  error instanceof CachedError && error.cause !== undefined && !(error.cause instanceof CachedError);
