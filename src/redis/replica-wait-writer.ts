import { CachedError, describeSetting } from "../errors.js";
import type { Command } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";

/** How many copies are to have an invalidation before it is done, and how long that is waited for. */
export interface ReplicaWait {
  readonly replicas: number;
  readonly timeoutMs: number;
}

type OwnClient = RedisClient & { disconnect(): void };

const CONNECTION_OPTIONS = { lazyConnect: false, enableOfflineQueue: true };

/**
 * Where writes go that must not get lost in a failover: with `wait`, to a connection of their own, and each is followed by WAIT, which holds
 * up all that comes after it there. It makes a loss less likely and does not rule it out: what too few copies have heard of in time stands as it is.
 * Source: redis.io, WAIT.
 */
export class ReplicaWaitWriter {
  /** What is sent after each write. */
  readonly trailing: readonly Command[];
  readonly #client: RedisClient;
  #own: OwnClient | undefined;
  #uses = 0;

  /** Errors: `CACHED_OPTION_INVALID`. */
  constructor(client: RedisClient, wait: ReplicaWait | undefined) {
    this.#client = client;
    this.trailing = wait === undefined ? [] : [{ name: "WAIT", args: [wait.replicas, wait.timeoutMs] }];
    const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;
    if (wait !== undefined && !(isCount(wait?.replicas) && isCount(wait?.timeoutMs)))
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        `redisStore: \`waitForReplicas\` must be { replicas, timeoutMs }, whole numbers, 1 or more, ${describeSetting(wait)} came`,
      );
  }

  get client(): RedisClient {
    return this.#own ?? this.#client;
  }

  open(): void {
    this.#uses++;
    if (this.trailing.length === 0 || this.#own !== undefined) return;
    const duplicate = this.#client.duplicate as (...args: unknown[]) => unknown;
    const args = isCluster(this.#client) ? [[], CONNECTION_OPTIONS] : [CONNECTION_OPTIONS];
    this.#own = duplicate.call(this.#client, ...args) as OwnClient;
    // What fails there fails the write that was sent.
    this.#own.on("error", () => undefined);
  }

  close(): void {
    this.#uses--;
    if (this.#uses > 0) return;
    this.#own?.disconnect();
    this.#own = undefined;
  }
}
