import { type Cancel, type Clock, withinParts } from "../base/clock.js";
import { CachedError, messageOf } from "../base/errors.js";
import { HASH_TAGS } from "../keys/hash-tags.js";
import type { Channel } from "../telemetry/channel.js";
import type { StoreTrace } from "../telemetry/tracing.js";
import { Breaker, type BreakerStatus } from "./breaker.js";
import { laterHead } from "./clock-copies.js";
import { nonceOf, readHead } from "./clock-log.js";
import { groupBy } from "./group-by.js";
import { Latencies, type Latency } from "./latencies.js";
import { OwnConnections } from "./own-connections.js";
import type {
  AcquireRequest,
  ClockOrigin,
  ConnectionFailure,
  Grant,
  Hold,
  LeaseTimes,
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRead,
  StoreReport,
  StoreRequest,
  Wake,
} from "./store.js";
import { abandon } from "./store.js";

/**
 * Wraps a store so that its failures become misses. An operation fails if it exceeds its time
 * budget, if the store rejects it, or if the breaker is open; an open breaker does not call the
 * store.
 *
 * `read`, `acquire`, `storeValues`, `renew` and `release` never reject. `inspect` rejects with
 * the error of the store, and `watchClock` and `reports` are those of the store. All other operations reject with
 * `CACHED_STORE_UNAVAILABLE`. Each node of the store has a breaker of its own, so that a
 * failing node affects only its own keys.
 */
export class FailOpenStore implements Store {
  readonly isShared: Store["isShared"];
  readonly nodeOf: Store["nodeOf"];
  readonly watchClock: Store["watchClock"];
  /** Not limited here: no request waits for reports, and their failures say nothing about entries. */
  readonly reports: Store["reports"];
  readonly appendHistory: Store["appendHistory"];
  readonly readHistory: Store["readHistory"];
  readonly #inner: Store;
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #budgetMs: number;
  readonly #records = new Map<string, NodeRecord>();
  readonly #own: OwnConnections;
  #lastConnectionError: StoreFailure | undefined;
  #isClosed = false;
  #probedName = "";
  /** Called when the store is connected again, before anything else is sent to it. */
  onReconnect: () => void = () => undefined;

  constructor(inner: Store, clock: Clock, channel: Channel, budgetMs: number) {
    this.#inner = inner;
    this.isShared = inner.isShared;
    const { nodeOf } = inner;
    // A name whose node the store cannot say goes to it with all of these.
    this.nodeOf = nodeOf && ((name) => ask(() => nodeOf.call(inner, name)) ?? "");
    this.watchClock = inner.watchClock?.bind(inner);
    this.reports = inner.reports;
    const { appendHistory, readHistory } = inner;
    this.appendHistory =
      appendHistory &&
      ((content, limits) => this.#beside("appendHistory", () => appendHistory.call(inner, content, limits)));
    this.readHistory = readHistory && (() => this.#beside("readHistory", () => readHistory.call(inner)));
    this.#clock = clock;
    this.#channel = channel;
    this.#own = new OwnConnections(channel);
    this.#budgetMs = budgetMs;
  }

  get name(): string {
    return this.#inner.name;
  }

  read(keys: readonly string[]): Promise<StoreRead> {
    // The read of most ticks is one batch to the only node. A read without keys is one to any node.
    const isOneBatch = keys.length === 0 || (this.nodeOf === undefined && keys.length <= KEYS_PER_READ);
    // A read of several keys from the only node that is expected to get more than one batch may have.
    const bytesPerKey = this.#records.get("")?.bytesPerKey ?? 0;
    const isLarge = keys.length > 1 && keys.length * bytesPerKey > BYTES_PER_BATCH;
    if (!isOneBatch || isLarge) return this.#readInBatches(keys);
    return this.#within("", "read", () => this.#readBatch("", keys), {
      nameCount: keys.length,
      budgets: keys.length <= KEYS_PER_BUDGET ? 1 : budgetsOf(keys.length),
      onTimeout: () => this.#expectLarger("", keys.length),
      onFailure: (error) => ({
        readings: keys.map((): Reading => ({ kind: "failed", error })),
        clock: undefined,
      }),
    });
  }

  async #readInBatches(keys: readonly string[]): Promise<StoreRead> {
    let clock: Buffer | undefined;
    const readings = await this.#inBatches<string, Reading>({
      operation: "read",
      items: keys,
      nameOf: identity,
      maxItems: KEYS_PER_READ,
      bytesOf: (_key, _index, node) => this.#recordOf(node).bytesPerKey,
      onTimeout: (node, count) => this.#expectLarger(node, count),
      run: async (part) => {
        const node = this.nodeOf?.(part[0] as string) ?? "";
        const read = await this.#readBatch(node, part);
        this.#reportFailedReadings(part, read.readings);
        clock = laterHead(clock, read.clock);
        return read.readings;
      },
      onFailure: (_, error) => ({ kind: "failed", error }),
    });
    return { readings, clock };
  }

  /** Reads, and remembers how large the values are. */
  async #readBatch(node: string, keys: readonly string[]): Promise<StoreRead> {
    const read = await promised(this.#inner.read(keys));
    // What a store has returned may be anything.
    const readings: readonly (Reading | undefined)[] = Array.isArray(read?.readings) ? read.readings : [];
    let bytes = 0;
    for (const reading of readings) if (reading?.kind === "read") bytes += reading.entry?.body?.byteLength ?? 0;
    const record = this.#records.get(node);
    if (record !== undefined && keys.length > 0) record.bytesPerKey = bytes / keys.length;
    if (readings.length !== keys.length) throw INCOMPLETE;
    return read;
  }

  /** Halves the next batch after one of `count` keys that took too long: perhaps its values are large. */
  #expectLarger(node: string, count: number): void {
    if (count === 0) return;
    const record = this.#recordOf(node);
    record.bytesPerKey = Math.max(record.bytesPerKey, Math.floor((2 * BYTES_PER_BATCH) / count));
  }

  /** The node that has the log of the clock and the settings. */
  get #clockNode(): string {
    return ask(() => this.#inner.clockNode?.()) ?? "";
  }

  readSettings(): Promise<Uint8Array | undefined> {
    const read = async (): Promise<Uint8Array | undefined> => {
      const content = await promised(this.#inner.readSettings());
      if (content === undefined || content instanceof Uint8Array) return content;
      throw new TypeError(`expected bytes of the settings, or undefined, got another value; ${CHECK_STORE}`);
    };
    return this.#within(this.#clockNode, "readSettings", read);
  }

  replaceSettings(expected: Uint8Array | undefined, content: Uint8Array): Promise<boolean> {
    const replace = (): Promise<boolean> => this.#inner.replaceSettings(expected, content);
    return this.#within(this.#clockNode, "replaceSettings", replace, { budgets: CONFIRMED_BUDGETS });
  }

  acquire(
    requests: readonly AcquireRequest[],
    times: LeaseTimes,
    origin: ClockOrigin,
    holder?: string,
  ): Promise<readonly Grant[]> {
    return this.#inBatches<AcquireRequest, Grant>({
      operation: "acquire",
      items: requests,
      nameOf: keyOf,
      run: (part) => this.#inner.acquire(part, times, origin, holder),
      onFailure: (_, error) => ({ kind: "unavailable", error }),
      onLate: (granting, part) => this.#releaseLate(granting, part),
    });
  }

  storeValues(requests: readonly StoreRequest[]): Promise<readonly StoreOutcome[]> {
    return this.#inBatches<StoreRequest, StoreOutcome>({
      operation: "storeValues",
      items: requests,
      nameOf: keyOf,
      budgets: BACKGROUND_BUDGETS,
      bytesOf: ({ body }) => body?.byteLength ?? 0,
      run: (part) => this.#inner.storeValues(part),
      onFailure: () => "unavailable",
    });
  }

  release(releases: readonly Release[]): Promise<readonly boolean[]> {
    return this.#inBatches<Release, boolean>({
      operation: "release",
      items: releases,
      nameOf: keyOf,
      budgets: BACKGROUND_BUDGETS,
      run: (part) => this.#inner.release(part),
      onFailure: () => false,
    });
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<readonly boolean[]> {
    return this.#inBatches<Hold, boolean>({
      operation: "renew",
      items: holds,
      nameOf: keyOf,
      run: (part) => this.#inner.renew(part, times),
      // A node that does not reply leaves it unknown whether its leases are held; the next renewal
      // decides.
      onFailure: () => true,
    });
  }

  /** An invalidation needs all nodes of a store with several, so its failure must not keep this process from reading the log. */
  appendClock(records: readonly Buffer[]): Promise<Buffer> {
    const append = async (): Promise<Buffer> => {
      const bytes = await promised(this.#inner.appendClock(records));
      const head = readHead(bytes);
      const last = records.at(-1);
      // An invalidation counts as confirmed then.
      if (head !== undefined && (last === undefined || head.nonce === nonceOf(last))) return bytes;
      throw new TypeError(`expected the head of the clock after the last record, got another value; ${CHECK_STORE}`);
    };
    const isInvalidation = records.length > 0;
    const budgets = isInvalidation ? CONFIRMED_BUDGETS : 1;
    return this.#within(this.#clockNode, "appendClock", append, {
      budgets,
      asksBreaker: !isInvalidation || this.nodeOf === undefined,
    });
  }

  readClock(from: number): Promise<Buffer | undefined> {
    const read = async (): Promise<Buffer | undefined> => {
      const bytes = await promised(this.#inner.readClock(from));
      if (bytes === undefined || Buffer.isBuffer(bytes)) return bytes;
      throw new TypeError(`expected bytes of the log, or undefined, got another value; ${CHECK_STORE}`);
    };
    return this.#within(this.#clockNode, "readClock", read);
  }

  remove(keys: readonly string[]): Promise<void> {
    return this.#everywhere("remove", keys, (part) => this.#inner.remove(part));
  }

  softInvalidate(keys: readonly string[]): Promise<void> {
    return this.#everywhere("softInvalidate", keys, (part) => this.#inner.softInvalidate(part));
  }

  /** What it returns also ends what requests do with the store: some may go on after their cache has been closed. */
  open(names: StoreNames, wake: Wake): Cancel {
    const stopWatching = this.#inner.watchConnections?.({
      onReconnect: () => {
        for (const { breaker } of this.#records.values()) breaker.reconnected();
        this.onReconnect();
      },
      onOwn: (failure) => this.#own.report(failure),
    });
    this.#probedName = `${names.settings}:probe`;
    const close = this.#inner.open(names, wake);
    return () => {
      this.#isClosed = true;
      stopWatching?.();
      close();
    };
  }

  /** The ids of all nodes; of a store that does not say, those that were asked. A store that is one node has an empty id. */
  nodes(): readonly string[] {
    return ask(() => this.#inner.nodes?.()) ?? (this.nodeOf === undefined ? [""] : [...this.#records.keys()]);
  }

  /** How this process reaches each node. */
  health(): readonly NodeHealth[] {
    return this.nodes().map((node) => {
      const { breaker, latencies, failures, lastFailure } = this.#recordOf(node);
      const { count: operations } = latencies;
      return { node, breaker: breaker.status, latency: latencies.summary(), operations, failures, lastFailure };
    });
  }

  /** The connections of the store's own that cannot be used. */
  get ownFailures(): readonly ConnectionFailure[] {
    return this.#own.failures;
  }

  /** The operations that the store has refused for lack of a right in the last 30 seconds, and that have not succeeded since. */
  get refusals(): readonly Refusal[] {
    const since = this.#clock.now() - FAILING_MS;
    return this.nodes().flatMap((node) => {
      const { refusals, failing } = this.#recordOf(node);
      return [...refusals]
        .filter(([operation]) => (failing.get(operation) ?? since) > since)
        .map(([operation, message]) => ({ node, operation, message }));
    });
  }

  /** Why the store was not connected when an operation last failed for that reason. */
  get lastConnectionError(): StoreFailure | undefined {
    return this.#lastConnectionError;
  }

  /**
   * Reads one of 64 names that no entry has on each node that has one, through its breaker and within a time budget. Never
   * rejects. Returns one probe at least.
   */
  probe(): Promise<readonly Probe[]> {
    if (ask(() => this.#inner.nodes?.())?.length === 0) {
      const error = unavailable("read", "the client does not know the nodes of the store yet");
      return Promise.resolve([{ node: "", replyMs: undefined, error }]);
    }
    const names = HASH_TAGS.map((tag) => `${this.#probedName}:{${tag}}`);
    const nodes = groupBy(names, (name) => this.nodeOf?.(name) ?? "");
    return Promise.all(
      [...nodes].map(async ([node, [index = 0]]): Promise<Probe> => {
        const startedAt = this.#clock.now();
        const read = async (): Promise<void> => {
          const [reading] = (await this.#inner.read([names[index] as string])).readings;
          if (reading?.kind === "failed") throw reading.error;
        };
        try {
          await this.#within(node, "read", read);
          return { node, replyMs: this.#clock.now() - startedAt, error: undefined };
        } catch (error) {
          return { node, replyMs: undefined, error };
        }
      }),
    );
  }

  /**
   * Asks a node for its state. Rejects if the store cannot say, or does not within a time budget. Neither asks the
   * breaker nor counts as an operation.
   */
  inspect(node: string): Promise<StoreReport> {
    const inspect = this.#inner.inspect?.bind(this.#inner);
    if (inspect === undefined) return Promise.reject(new Error(`the ${this.name} store does not report its state`));
    if (!this.nodes().includes(node)) return Promise.reject(new Error("this process does not know the node"));
    return this.#inTime("inspect", () => inspect(node));
  }

  /**
   * Calls `run` for the items of each node, concurrently. Returns the results in the order of
   * `items`. Rejects with the first error after all calls have ended.
   */
  async #byNode<Item, Result>(
    items: readonly Item[],
    nameOf: (item: Item) => string,
    run: (node: string, part: readonly Item[], indexes: readonly number[]) => Promise<readonly Result[]>,
  ): Promise<readonly Result[]> {
    const { nodeOf } = this;
    if (nodeOf === undefined) return run("", items, [...items.keys()]);
    const byNode = groupBy(items, (item) => nodeOf(nameOf(item)));
    const results = new Array<Result>(items.length);
    const ended = await Promise.allSettled(
      [...byNode].map(async ([node, indexes]) => {
        const part = indexes.map((index) => items[index] as Item);
        for (const [at, result] of (await run(node, part, indexes)).entries()) results[indexes[at] as number] = result;
      }),
    );
    const failed = ended.find((one) => one.status === "rejected");
    if (failed !== undefined) throw failed.reason as Error;
    return results;
  }

  /**
   * Runs an operation on items of any node: nodes concurrently, the items of one node in batches of
   * bounded size, one after the other, each with a time budget of its own. Once a batch has failed, no
   * further ones are sent to its node: the budgets of a store that is away do not add up. Without
   * `onFailure`, rejects with the first error after all nodes have ended.
   */
  #inBatches<Item, Result>(operation: NodeOperation<Item, Result>): Promise<readonly Result[]> {
    return this.#byNode(operation.items, operation.nameOf, (node, part, indexes) =>
      this.#inBatchesTo(node, operation, part, indexes),
    );
  }

  /** Runs an operation on the items of one node; `indexes` are their positions among all items. */
  async #inBatchesTo<Item, Result>(
    node: string,
    operation: NodeOperation<Item, Result>,
    items: readonly Item[],
    indexes: readonly number[],
  ): Promise<readonly Result[]> {
    const { run, onFailure, onLate, continuesAfterErrors } = operation;
    const budgets = operation.budgets ?? budgetsOf(items.length);
    const results: Result[] = [];
    let firstError: unknown;
    for (let from = 0, to = 0; from < items.length; from = to) {
      to = endOfBatch(operation, { node, items, indexes }, from);
      const batch = to - from === items.length ? items : items.slice(from, to);
      let running: Promise<readonly Result[]> | undefined;
      const start = async (): Promise<readonly Result[]> => {
        running = promised(run(batch, indexes.slice(from, to)));
        const found = await running;
        if (found?.length !== batch.length) throw INCOMPLETE;
        return found;
      };
      try {
        const found = await this.#within(node, operation.operation, start, {
          budgets,
          nameCount: items.length - from,
          onTimeout: () => operation.onTimeout?.(node, batch.length),
        });
        for (const result of found) results.push(result);
      } catch (error) {
        if (running !== undefined) onLate?.(running, batch);
        if (onFailure !== undefined)
          return [...results, ...indexes.slice(from).map((index) => onFailure(index, error))];
        firstError ??= error;
        if (continuesAfterErrors !== true || !isReply(error)) break;
      }
    }
    if (firstError !== undefined) throw firstError as Error;
    return results;
  }

  /** Runs an operation that must be confirmed by every node. */
  async #everywhere(
    operation: string,
    names: readonly string[],
    run: (part: readonly string[]) => Promise<void>,
  ): Promise<void> {
    await this.#inBatches<string, void>({
      operation,
      items: names,
      nameOf: identity,
      budgets: CONFIRMED_BUDGETS,
      continuesAfterErrors: true,
      run: async (part) => {
        await run(part);
        return part.map(() => undefined);
      },
    });
  }

  /**
   * Runs one call within its time budget, through the breaker of its node. Without `onFailure`, it rejects if the call
   * has failed.
   */
  #within<T>(node: string, operation: string, run: () => Promise<T>, options: CallOptions<T> = {}): Promise<T> {
    const { budgets = 1, nameCount = 1, asksBreaker = true } = options;
    const record = this.#records.get(node) ?? this.#recordOf(node);
    const { breaker, latencies } = record;
    if (this.#isClosed && OF_REQUESTS.includes(operation))
      return Promise.resolve(afterFailure(unavailable(operation, "the cache is closed"), options));
    if (asksBreaker && !breaker.mayTry()) {
      const error = unavailable(operation, "the circuit breaker is open after repeated failures");
      return Promise.resolve(afterFailure(error, options));
    }
    const { isStoreObserved, tracing, storeFinished } = this.#channel;
    const isObserved = isStoreObserved || tracing !== undefined || storeFinished.hasSubscribers;
    const observed = isObserved ? this.#observe(node, operation, nameCount) : undefined;
    const startedAt = this.#clock.now();
    const { era } = breaker;
    const fail = (cause: unknown): T | Promise<T> => {
      if (asksBreaker) breaker.failed(era);
      const error = this.#failure(node, operation, cause);
      observed?.end(error);
      latencies.add(this.#clock.now() - startedAt);
      this.#report({ node, operation, nameCount, error }, operation);
      return afterFailure(error, options);
    };
    const inTime = this.#inTime(operation, observed === undefined ? run : () => observed.run(run), {
      budgets,
      node,
      onTimeout: options.onTimeout,
    });
    return inTime.then((result) => {
      observed?.end();
      latencies.add(this.#clock.now() - startedAt);
      if (asksBreaker) breaker.succeeded();
      if (record.failing.size > 0) this.#recover(node, operation, record);
      if (record.refusals.size > 0) record.refusals.delete(operation);
      return result;
    }, fail);
  }

  /**
   * Reports what a node could not read although it has read the rest, such as the keys of a slot that it does not serve.
   * Does not count for its breaker.
   */
  #reportFailedReadings(names: readonly string[], readings: readonly Reading[]): void {
    const failed = readings.filter(isFailed);
    const [first] = failed;
    if (first === undefined) return;
    const node = this.nodeOf?.(names[0] as string) ?? "";
    const error = this.#failure(node, "read", first.error);
    // Not "read": the call itself succeeds, which is no recovery.
    this.#report({ node, operation: "read", nameCount: failed.length, error }, "part of a read");
  }

  #report(failure: Failure, failing: string): void {
    const { node, error } = failure;
    const record = this.#recordOf(node);
    const at = this.#clock.now();
    record.failures++;
    record.failing.set(failing, at);
    record.lastFailure = { at, message: error.message };
    if (failing === failure.operation && ask(() => this.#inner.isMissingRight?.(error.cause)) === true)
      record.refusals.set(failing, messageOf(error.cause));
    this.#channel.publish({ name: "store.failed", ...failure });
  }

  /**
   * Reports that a node has recovered, once what has failed works again. A server without memory refuses writes and
   * replies to reads: it has not recovered with each of them.
   */
  #recover(node: string, operation: string, { failing }: NodeRecord): void {
    failing.delete(operation);
    const now = this.#clock.now();
    for (const failedAt of failing.values()) if (now - failedAt < FAILING_MS) return;
    failing.clear();
    this.#channel.publish({ name: "store.recovered", node });
  }

  /** Measures and traces one call, which has not been made yet. */
  #observe(node: string, operation: string, nameCount: number): StoreTrace {
    const startedAt = this.#clock.now();
    const trace = this.#channel.tracing?.startStore({ operation, node, nameCount });
    return {
      run: (call) => (trace === undefined ? call() : trace.run(call)),
      end: (error) => {
        trace?.end(error);
        const storeMs = this.#clock.now() - startedAt;
        const failure = error === undefined ? {} : { error };
        this.#channel.finished({ name: "store.finished", node, operation, nameCount, storeMs, ...failure });
      },
    };
  }

  /** Runs a call on which nothing that is served depends: within a time budget, and beside the breakers. */
  #beside<T>(operation: string, run: () => Promise<T>): Promise<T> {
    return this.#inTime(operation, run, { budgets: BACKGROUND_BUDGETS }).catch((cause: unknown) => {
      throw this.#failure("", operation, cause);
    });
  }

  /**
   * Calls the store. Rejects if the call has not ended within its time budgets. They do not pass while this process is busy, or bytes
   * arrive from `node`.
   */
  #inTime<T>(
    operation: string,
    run: () => Promise<T>,
    {
      budgets = 1,
      node,
      onTimeout,
    }: {
      readonly budgets?: number;
      readonly node?: string;
      readonly onTimeout?: (() => void) | undefined;
    } = {},
  ): Promise<T> {
    const ms = this.#budgetMs * budgets;
    const otherwise = (): Promise<never> => {
      onTimeout?.();
      return Promise.reject(late(operation, ms));
    };
    let running: Promise<T>;
    try {
      running = promised(run());
    } catch (error) {
      running = Promise.reject(error as Error);
    }
    const inner = this.#inner;
    const progress =
      node === undefined || inner.receivedFrom === undefined
        ? undefined
        : (): unknown => {
            try {
              return inner.receivedFrom?.(node);
            } catch {
              return undefined;
            }
          };
    return withinParts(this.#clock, running, { ms, otherwise, maxMs: UNCOUNTED_BUDGETS * this.#budgetMs, progress });
  }

  #recordOf(node: string): NodeRecord {
    let record = this.#records.get(node);
    if (record === undefined) {
      record = {
        breaker: new Breaker(this.#clock, undefined, MAX_PAUSE_MS),
        latencies: new Latencies(),
        bytesPerKey: 0,
        failures: 0,
        lastFailure: undefined,
        failing: new Map(),
        refusals: new Map(),
      };
      this.#records.set(node, record);
    }
    return record;
  }

  /** Returns the error of an operation that has failed. While the store is not connected, it says why. */
  #failure(node: string, operation: string, cause: unknown): CachedError {
    const connectionError = ask(() => this.#inner.connectionError?.(node));
    if (connectionError !== undefined)
      this.#lastConnectionError = { at: this.#clock.now(), message: messageOf(connectionError) };
    if (connectionError === undefined && cause instanceof CachedError) return cause;
    const reason = connectionError === undefined ? "" : ` (connection: ${connectionError.message})`;
    const message = messageOf(cause);
    // A call that was given up begins in the same way.
    const prefix = unavailable(operation, "").message;
    const own = message.startsWith(prefix) ? message.slice(prefix.length) : message;
    return unavailable(operation, own + reason, cause);
  }

  /**
   * Releases leases that were granted after their caller gave up, so that other callers do not wait
   * for them.
   */
  #releaseLate(granting: Promise<readonly Grant[]>, requests: readonly AcquireRequest[]): void {
    const releaseGranted = async (): Promise<void> => {
      const releases = (await granting).flatMap((grant, index): Release[] => {
        const key = requests[index]?.key;
        if (grant.kind !== "granted" || key === undefined) return [];
        return [abandon({ key, token: grant.token })];
      });
      if (releases.length > 0) await this.#inner.release(releases);
    };
    // A lease that could not be released expires.
    releaseGranted().catch(() => undefined);
  }
}

/**
 * Number of time budgets that operations which must be confirmed, such as invalidations, may take.
 */
const CONFIRMED_BUDGETS = 10;
/** Number of time budgets for operations that no caller waits for. */
const BACKGROUND_BUDGETS = 10;
/**
 * Each further 100 keys of one node and tick give their batches one more time budget, up to five.
 * Slow is not away: if such a batch fails, all its keys are loaded without a lease.
 */
const KEYS_PER_BUDGET = 100;
const MAX_BUDGETS = 5;

/**
 * A batch is one call of the store for one node. It has a bounded size, so that a time budget suits
 * batches of any tick, and neither a server nor this process is blocked for long.
 */
const KEYS_PER_READ = 2_000;
/** The same for operations that a server runs as scripts, or as a read and a write for each key. */
const KEYS_PER_BATCH = 500;
/**
 * A batch ends before the value with which it would exceed this size. How large the values are that a read will get is not
 * known: those of the last read of the node say what to expect.
 */
const BYTES_PER_BATCH = 1024 * 1024;

/** For how many time budgets their time does not pass while replies arrive, or while this process is too busy to read them. */
const UNCOUNTED_BUDGETS = 10;

/** How long a node counts as failing if the operation that has failed is not called again. */
const FAILING_MS = 30_000;

/** How long a node that fails is not asked at most. A probe costs the requests of one tick a time budget. */
const MAX_PAUSE_MS = 1_000;

/** What failed on a node, of how many keys and tags. */
interface Failure {
  readonly node: string;
  readonly operation: string;
  readonly nameCount: number;
  readonly error: CachedError;
}

/** An operation on items that are spread over the nodes of a store. */
interface NodeOperation<Item, Result> {
  readonly operation: string;
  readonly items: readonly Item[];
  readonly nameOf: (item: Item) => string;
  /** Calls the store for some items of one node; `indexes` are their positions in `items`. */
  readonly run: (part: readonly Item[], indexes: readonly number[]) => Promise<readonly Result[]>;
  /** Returns the result of an item whose node has failed. Undefined: the operation rejects. */
  readonly onFailure?: (index: number, error: unknown) => Result;
  /** Called with a batch that exceeded its budget and may still succeed. */
  readonly onLate?: (running: Promise<readonly Result[]>, part: readonly Item[]) => void;
  /** Called with the number of items of a batch that exceeded its budget. */
  readonly onTimeout?: (node: string, count: number) => void;
  /** How many time budgets a batch may take. Default: depends on the number of items of the node. */
  readonly budgets?: number;
  readonly maxItems?: number;
  /** Returns how large an item of a node is, or is expected to be; `index` is its position in `items`. */
  readonly bytesOf?: (item: Item, index: number, node: string) => number;
  /** Whether an error that the store returns for one batch does not prevent the next ones. */
  readonly continuesAfterErrors?: boolean;
}

/** How one call of the store is made, and what comes of it. */
interface CallOptions<T> {
  /** How many time budgets it may take. Default: 1. */
  readonly budgets?: number;
  /** The number of keys and tags that get no result if it fails. Default: 1. */
  readonly nameCount?: number;
  /** Whether the breaker of the node decides about the call, and counts it. Default: true. */
  readonly asksBreaker?: boolean;
  /** Returns the result of a call that has failed. */
  readonly onFailure?: (error: unknown) => T;
  /** Called if it has exceeded its budget. */
  readonly onTimeout?: () => void;
}

/** What this process keeps of one node. */
interface NodeRecord {
  readonly breaker: Breaker;
  readonly latencies: Latencies;
  /** How large a stored value was on average, as the last read has shown. */
  bytesPerKey: number;
  failures: number;
  lastFailure: StoreFailure | undefined;
  /** When the operations failed that have not succeeded since. */
  readonly failing: Map<string, number>;
  /** Those of them that the server has refused this user, and in which words. */
  readonly refusals: Map<string, string>;
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

/** Whether a node has just replied to a read, and how long that took. */
export interface Probe {
  readonly node: string;
  readonly replyMs: number | undefined;
  readonly error: unknown;
}

const isFailed = <One extends { readonly kind: string }>(reading: One): reading is Extract<One, { kind: "failed" }> =>
  reading.kind === "failed";

/** Returns the position after the last item of the batch that begins with `items[from]`. */
function endOfBatch<Item, Result>(
  { bytesOf, maxItems = KEYS_PER_BATCH }: NodeOperation<Item, Result>,
  {
    node,
    items,
    indexes,
  }: { readonly node: string; readonly items: readonly Item[]; readonly indexes: readonly number[] },
  from: number,
): number {
  const end = Math.min(from + maxItems, items.length);
  if (bytesOf === undefined) return end;
  let bytes = 0;
  for (let at = from; at < end; at++) {
    bytes += bytesOf(items[at] as Item, indexes[at] as number, node);
    if (bytes > BYTES_PER_BATCH && at > from) return at;
  }
  return end;
}

/** Returns the number of time budgets for a batch to a node that is asked for `nameCount` names. */
const budgetsOf = (nameCount: number): number =>
  Math.max(1, Math.min(Math.ceil(nameCount / KEYS_PER_BUDGET), MAX_BUDGETS));

/** Returns what comes of a call that has failed with `error`. */
const afterFailure = <T>(error: CachedError, options: CallOptions<T>): T | Promise<T> =>
  options.onFailure === undefined ? Promise.reject(error) : options.onFailure(error);

/** Throws if a method of a store has returned something else. */
function promised<T>(running: Promise<T> | undefined): Promise<T> {
  if (typeof running?.then === "function") return running;
  throw new TypeError(`expected a promise, got ${typeof running}; ${CHECK_STORE}`);
}

const CHECK_STORE = "check the store with `storeConformance`";
const INCOMPLETE = new TypeError(`expected one result for each key, in their order; ${CHECK_STORE}`);

/** What a closed cache does not begin. It may still read, release what it was granted, and invalidate. */
const OF_REQUESTS = ["acquire", "storeValues"];

/** Returns whether the store itself reported the failure, rather than not replying in time. */
const isReply = (error: unknown): boolean =>
  error instanceof CachedError && error.cause !== undefined && !(error.cause instanceof CachedError);
const identity = (name: string): string => name;
const keyOf = ({ key }: { readonly key: string }): string => key;

const late = (operation: string, ms: number): CachedError =>
  unavailable(operation, `no reply within ${ms} ms; check the store, or raise \`storeTimeoutMs\``);

const unavailable = (operation: string, reason: string, cause?: unknown): CachedError =>
  new CachedError("CACHED_STORE_UNAVAILABLE", `store: \`${operation}\` failed: ${reason}`, { cause });

/** Asks a store for what makes a report, a time limit or the sending by node better. A store that throws does not know. */
function ask<T>(question: () => T): T | undefined {
  try {
    return question();
  } catch {
    return undefined;
  }
}
