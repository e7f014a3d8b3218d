import { CachedError, describeSetting } from "../errors.js";
import type { Command } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";

/** How long an invalidation waits for replicas. */
export interface ReplicaWait {
  /** Number of replicas that should have the invalidation before it resolves. At least 1. */
  readonly replicas: number;
  /**
   * Maximum wait in milliseconds. At least 1. When it is over, the invalidation resolves all the
   * same.
   */
  readonly timeoutMs: number;
}

type OwnClient = RedisClient & { disconnect(): void };

const CONNECTION_OPTIONS = { lazyConnect: false, enableOfflineQueue: true };

/**
 * Sends the writes that must not be lost in a failover. With `wait`, each is followed by WAIT.
 * Since WAIT delays every later command of its connection, these writes go through a connection of
 * their own.
 * This makes a loss less likely but does not rule it out: a write that too few replicas have
 * confirmed in time is not rolled back.
 * Source: redis.io, WAIT.
 */
export class ReplicaWaitWriter {
  /** Commands to send after each write. */
  readonly trailing: readonly Command[];
  readonly #client: RedisClient;
  #ownClient: OwnClient | undefined;
  #uses = 0;

  /** Throws `CACHED_OPTION_INVALID` if `wait` is invalid. */
  constructor(client: RedisClient, wait: ReplicaWait | undefined) {
    this.#client = client;
    const isPositive = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;
    if (wait !== undefined && !(isPositive(wait?.replicas) && isPositive(wait?.timeoutMs)))
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        `redisStore: \`waitForReplicas\`: expected { replicas, timeoutMs }, both integers of at least 1, got ${describeSetting(wait)}; pass { replicas: 1, timeoutMs: 50 } or omit it`,
      );
    this.trailing = wait === undefined ? [] : [{ name: "WAIT", args: [wait.replicas, wait.timeoutMs] }];
  }

  get client(): RedisClient {
    return this.#ownClient ?? this.#client;
  }

  open(): void {
    this.#uses++;
    if (this.trailing.length === 0 || this.#ownClient !== undefined) return;
    const duplicate = this.#client.duplicate as (...args: unknown[]) => unknown;
    const args = isCluster(this.#client) ? [[], CONNECTION_OPTIONS] : [CONNECTION_OPTIONS];
    this.#ownClient = duplicate.call(this.#client, ...args) as OwnClient;
    // A failed connection is reported by the write that uses it.
    this.#ownClient.on("error", () => undefined);
  }

  close(): void {
    this.#uses--;
    if (this.#uses > 0) return;
    this.#ownClient?.disconnect();
    this.#ownClient = undefined;
  }
}
