import { randomBytes } from "node:crypto";
import { type Cancel, type Clock, systemClock } from "../../core/base/clock.js";
import { CachedError } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { throwIfAnyFailed } from "../../core/store/answers.js";
import { splitAtOrigin, writeStoredEntry } from "../../core/store/entry-layout.js";
import type { History, HistoryLimits } from "../../core/store/history.js";
import { newTokens, TOKEN_BYTES } from "../../core/store/lease-token.js";
import type {
  AcquireRequest,
  ClockListener,
  ClockOrigin,
  ConnectionFailure,
  ConnectionListener,
  Grant,
  Hold,
  LeaseTimes,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreReport,
  StoreRequest,
  Wake,
} from "../../core/store/store.js";
import { newValue } from "../../core/store/transitions.js";
import type { ConnectionUse } from "../../core/telemetry/events.js";
import { checkReply } from "./check-reply.js";
import { type ClientConnections, connectionsOf } from "./client-connections.js";
import type { ClientPort } from "./client-port.js";
import { EntryReader } from "./entry-reader.js";
import { RedisHistory } from "./history.js";
import { integerOf } from "./integer-reply.js";
import { isClient, portOf, problemOfClient } from "./known-clients.js";
import { nodeOf } from "./pipeline.js";
import { readGrant } from "./read-grant.js";
import type { RedisClient } from "./redis-client.js";
import { RedisClock } from "./redis-clock.js";
import { RedisSettings } from "./redis-settings.js";
import { isMissingRight } from "./refusal.js";
import { type ReplicaWait, ReplicaWaitWriter } from "./replica-wait-writer.js";
import { RedisReports } from "./reports.js";
import { type RunArguments, runScript } from "./run-script.js";
import { acquire } from "./scripts/acquire.js";
import { release } from "./scripts/release.js";
import { remove } from "./scripts/remove.js";
import { renew } from "./scripts/renew.js";
import { softInvalidate } from "./scripts/soft-invalidate.js";
import { storeValues } from "./scripts/store-values.js";
import { readServerInfo } from "./server-info.js";
import { ServerTimes } from "./server-times.js";
import { readWakeup } from "./wakeup.js";

/** The outcomes of storing values, by the reply of the script; errors are no outcome. */
const STORE_OUTCOMES: ReadonlyMap<unknown, StoreOutcome> = new Map([
  [1, "stored"],
  [0, "refused"],
  [-1, "expired"],
]);

/** Options of `redisStore`. */
export interface RedisStoreOptions {
  /**
   * A client of ioredis (5.4 or newer), iovalkey or node-redis (5 or newer): standalone, behind Sentinel, or a Cluster. It is
   * never closed. One of node-redis has to be connected or connecting.
   */
  readonly client: RedisClient;
  /**
   * Makes each invalidation wait until `replicas` replicas have it, for at most `timeoutMs`
   * milliseconds. Such invalidations use a connection of their own. This makes it less likely that
   * a failover loses one.
   * Default: do not wait.
   */
  readonly waitForReplicas?: ReplicaWait;
  /** Source of time and timers. Default: the system clock. */
  readonly clock?: Clock;
}

/**
 * Creates a store on Redis 6.2 or newer, shared by all processes that use the same prefix. Each
 * entry is a single string, so the store works the same on a Cluster and on a single server. The
 * client is never closed; the connections that the store duplicates from it are closed with the
 * last cache that uses the store.
 * Throws `CACHED_OPTION_INVALID` if `client` is not a client that can be used, such as one with a `keyPrefix`, or if
 * `waitForReplicas` is invalid.
 */
export function redisStore(options: RedisStoreOptions): Store {
  if (isClient(options))
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      "redisStore: expected an object of options, got a client; pass redisStore({ client })",
    );
  checkOptionNames(options, "redisStore", ["client", "waitForReplicas", "clock"], {
    url: "`client: new Redis(url)`",
    redis: "`client`",
  });
  const { client, clock = systemClock, waitForReplicas } = options;
  const problem = problemOfClient(client);
  if (problem !== undefined) throw new CachedError("CACHED_OPTION_INVALID", `redisStore: \`client\`: ${problem}`);
  if ((client as { options?: { keyPrefix?: string } }).options?.keyPrefix)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      "redisStore: `client`: expected a client without `keyPrefix`, which ioredis applies to keys but not to messages; pass createCache({ prefix }) instead",
    );
  const port = portOf(client);
  const connections = connectionsOf(port, clock);
  return new RedisStore(port, clock, connections, new ReplicaWaitWriter(port, connections.writes, waitForReplicas));
}

class RedisStore implements Store {
  readonly name: string;
  readonly nodeOf: Store["nodeOf"];
  readonly read: Store["read"];
  readonly receivedFrom: NonNullable<Store["receivedFrom"]>;
  readonly nodes: Store["nodes"];
  readonly clockNode: Store["clockNode"];
  readonly reports: RedisReports;
  readonly #port: ClientPort;
  #wakeChannel = "";
  #clockChannel = "";
  readonly #settings: RedisSettings;
  readonly #invalidations: RedisClock;
  readonly #history: RedisHistory;
  readonly #connections: ClientConnections;
  readonly #writer: ReplicaWaitWriter;
  readonly #times: ServerTimes;
  readonly #watchers = new Set<ConnectionListener>();
  /** The connections that cannot be used, with the last report of each. */
  readonly #failures = new Map<string, ConnectionFailure>();

  constructor(port: ClientPort, clock: Clock, connections: ClientConnections, writer: ReplicaWaitWriter) {
    this.#connections = connections;
    this.#writer = writer;
    this.reports = new RedisReports(port);
    this.#settings = new RedisSettings(port, writer);
    this.#invalidations = new RedisClock(port, writer);
    this.#history = new RedisHistory(port);
    const { cluster } = port;
    this.name = cluster === undefined ? "redis" : "redis cluster";
    this.nodeOf = cluster && ((key) => nodeOf(cluster, key));
    this.nodes = cluster && (() => cluster.masters());
    this.clockNode = cluster && (() => nodeOf(cluster, this.#invalidations.logKey));
    this.#port = port;
    this.#times = new ServerTimes(clock);
    const reader = new EntryReader(port, clock, this.#times, this.#invalidations);
    this.read = reader.read.bind(reader);
    this.receivedFrom = port.bytesReceivedFrom.bind(port);
  }

  readSettings(): Promise<Uint8Array | undefined> {
    return this.#settings.read();
  }

  replaceSettings(expected: Uint8Array | undefined, content: Uint8Array): Promise<boolean> {
    return this.#settings.replace(expected, content);
  }

  appendClock(records: readonly Buffer[]): Promise<Buffer> {
    return this.#invalidations.append(records);
  }

  readClock(from: number): Promise<Buffer | undefined> {
    return this.#invalidations.read(from);
  }

  async acquire(
    requests: readonly AcquireRequest[],
    times: LeaseTimes,
    origin: ClockOrigin,
    holder?: string,
  ): Promise<Grant[]> {
    const clock = { epoch: Buffer.from(origin.epoch, "latin1"), position: doubleOf(origin.position) };
    const { leaseMs, graceMs, patienceMs } = times;
    const tokens = newTokens(requests.length, holder);
    const tokenOf = (index: number): Buffer => tokens.subarray(TOKEN_BYTES * index, TOKEN_BYTES * (index + 1));
    const replies = await this.#run(
      acquire,
      requests.map((request) => request.key),
      (node) => ({ leaseMs, graceMs, notAfter: this.#times.notAfter(node, patienceMs), ...clock }),
      (index) => {
        const { oldestPosition, supersededAt, endsFreshness } = requests[index] as AcquireRequest;
        const superseded = supersededAt === 0 ? "" : endsFreshness === true ? -supersededAt : supersededAt;
        return [doubleOf(oldestPosition), tokenOf(index), superseded];
      },
      this.#invalidations.key === undefined ? [] : [this.#invalidations.key],
    );
    return replies.map((reply, index) => readGrant(reply, tokenOf(index)));
  }

  async storeValues(storeRequests: readonly StoreRequest[]): Promise<StoreOutcome[]> {
    const replies = await this.#run(
      storeValues,
      storeRequests.map(({ key }) => key),
      () => ({ wakeChannel: this.#wakeChannel }),
      (index) => {
        const request = storeRequests[index] as StoreRequest;
        const { gen, grantedAt, ttlMs, body } = request;
        const [start, rest] = splitAtOrigin(writeStoredEntry(newValue(request)));
        const dropAt = ttlMs === undefined ? "never" : grantedAt + ttlMs;
        return [Buffer.from(gen, "latin1"), dropAt, body === undefined ? "kept" : start, rest];
      },
    );
    return replies.map((reply) => STORE_OUTCOMES.get(integerOf(reply)) ?? "unavailable");
  }

  async renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    const { leaseMs, graceMs } = times;
    const replies = await this.#run(
      renew,
      holds.map((hold) => hold.key),
      () => ({ leaseMs, graceMs }),
      (index) => [Buffer.from((holds[index] as Hold).token, "latin1")],
    );
    // A lease whose state is unknown counts as held; the next renewal tries again.
    return replies.map((reply) => reply instanceof Error || integerOf(reply) === 1);
  }

  async release(releases: readonly Release[]): Promise<boolean[]> {
    const replies = await this.#run(
      release,
      releases.map(({ key }) => key),
      () => ({ wakeChannel: this.#wakeChannel }),
      (index) => {
        const { token, outcome, holdMs, body } = releases[index] as Release;
        return [Buffer.from(token, "latin1"), outcome, Math.max(1, Math.round(holdMs)), Buffer.from(body)];
      },
    );
    return replies.map((reply) => integerOf(reply) === 1);
  }

  async remove(keys: readonly string[]): Promise<void> {
    throwIfAnyFailed(await this.#run(remove, keys, () => ({ wakeChannel: this.#wakeChannel })));
  }

  async softInvalidate(keys: readonly string[]): Promise<void> {
    const callerId = randomBytes(8);
    const replies = await this.#run(softInvalidate, keys, () => ({ wakeChannel: this.#wakeChannel, callerId }));
    throwIfAnyFailed(replies.map((reply) => checkReply(reply, callerId)));
  }

  appendHistory(content: Uint8Array, limits: HistoryLimits): Promise<void> {
    return this.#history.append(content, limits);
  }

  readHistory(): Promise<History> {
    return this.#history.read();
  }

  open(names: StoreNames, wake: Wake): Cancel {
    if (this.#wakeChannel !== "" && this.#wakeChannel !== names.wakeChannel)
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        "createCache: `store`: expected a store that no cache with another `prefix` uses, got one in use; create a redisStore for each prefix",
      );
    this.#wakeChannel = names.wakeChannel;
    this.#settings.open(names.settings);
    this.#invalidations.open(names.clock);
    this.#clockChannel = names.clock;
    this.#history.name = `${names.invalidationLog}:history`;
    this.reports.name = `${names.invalidationLog}:report`;
    const { errors, subscriber } = this.#connections;
    const onMessage = (message: Buffer | undefined): void => {
      const event = message === undefined ? LOST : readWakeup(message);
      if (event !== undefined) wake(...event);
    };
    const stops = [
      errors.watch(),
      subscriber.listen(names.wakeChannel, {
        onMessage,
        onFailure: (error) => this.#reportOwn("wake-ups", "", error),
      }),
      this.#writer.open((error) => this.#reportOwn("invalidations", "", error)),
    ];
    return () => {
      for (const stop of stops.splice(0)) stop();
    };
  }

  connectionError(node: string): Error | undefined {
    return this.#connections.errors.of(node);
  }

  isMissingRight(error: unknown): boolean {
    return isMissingRight(error);
  }

  watchConnections(listener: ConnectionListener): Cancel {
    // The client is listened to before anything else is, so that a cache knows first that the store is back.
    const stop = this.#port.events.listen("ready", () => listener.onReconnect());
    this.#watchers.add(listener);
    for (const failure of this.#failures.values()) listener.onOwn(failure);
    return () => {
      stop();
      this.#watchers.delete(listener);
    };
  }

  inspect(node: string): Promise<StoreReport> {
    return readServerInfo(this.#port, node);
  }

  watchClock(listener: ClockListener): Cancel {
    return this.#connections.subscriber.listen(this.#clockChannel, {
      onMessage: listener,
      onFailure: (error) => this.#reportOwn("near-cache", "", error),
    });
  }

  #reportOwn(use: ConnectionUse, node: string, error: Error | undefined): void {
    const id = `${use} ${node}`;
    if (error?.message === this.#failures.get(id)?.error?.message) return;
    const report = { use, node, error };
    if (error === undefined) this.#failures.delete(id);
    else this.#failures.set(id, report);
    for (const watcher of this.#watchers) watcher.onOwn(report);
  }

  #run<Args extends readonly string[]>(...run: RunArguments<Args>): Promise<readonly unknown[]> {
    return runScript(this.#port, [], ...run);
  }
}

/** The event that tells waiters that messages may have been lost. */
const LOST: Parameters<Wake> = [undefined, undefined, undefined];

/** Returns the bytes of a position, as scripts compare them. */
function doubleOf(number: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(number);
  return bytes;
}
