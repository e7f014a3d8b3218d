import type { Cancel, Clock } from "../../core/base/clock.js";
import { CachedError, describeSetting } from "../../core/base/errors.js";
import type { ClientPort, Command, WriterConnection } from "./client-port.js";
import { OwnConnection } from "./own-connection.js";

/**
 * Sends the writes that must not be lost in a failover. With `wait`, each is followed by WAIT.
 * Since WAIT delays every later command of its connection, these writes go through a connection of
 * their own, the same for all stores on a client.
 * This makes a loss less likely but does not rule it out: a write that too few replicas have
 * confirmed in time is not rolled back.
 * Source: redis.io, WAIT.
 */
export class ReplicaWaitWriter {
  readonly trailing: readonly Command[];
  readonly #port: ClientPort;
  readonly #connection: WriteConnection;

  /** Throws `CACHED_OPTION_INVALID` if `wait` is invalid. */
  constructor(port: ClientPort, connection: WriteConnection, wait: ReplicaWait | undefined) {
    this.#port = port;
    this.#connection = connection;
    const isPositive = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;
    if (wait !== undefined && !(isPositive(wait?.replicas) && isPositive(wait?.timeoutMs)))
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        `redisStore: \`waitForReplicas\`: expected { replicas, timeoutMs }, both integers of at least 1, got ${describeSetting(wait)}; pass { replicas: 1, timeoutMs: 50 } or omit it`,
      );
    this.trailing = wait === undefined ? [] : [{ name: "WAIT", args: [wait.replicas, wait.timeoutMs] }];
  }

  get port(): ClientPort {
    return this.trailing.length === 0 ? this.#port : (this.#connection.port ?? this.#port);
  }

  /** Opens the connection, if there is to be one. `onFailure` is told, at once and with each change, why it cannot be used. */
  open(onFailure: (error: Error | undefined) => void): Cancel {
    return this.trailing.length === 0 ? () => undefined : this.#connection.open(onFailure);
  }
}

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

type OnFailure = (error: Error | undefined) => void;

/** The connection for writes of all stores on a client, open while one of them uses it. */
export class WriteConnection {
  readonly #client: ClientPort;
  readonly #clock: Clock;
  readonly #users = new Set<OnFailure>();
  #own: OwnConnection<WriterConnection> | undefined;
  #failure: Error | undefined;
  /** The last connection that was opened; one that has ended rejects all commands. Undefined: none is used. */
  port: ClientPort | undefined;

  constructor(client: ClientPort, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  open(onFailure: OnFailure): Cancel {
    const user: OnFailure = (error) => onFailure(error);
    this.#users.add(user);
    user(this.#failure);
    this.#own ??= new OwnConnection(this.#client, this.#clock, {
      connect: (events) => {
        const connection = this.#client.openWriter(events);
        this.port = connection?.port;
        return connection;
      },
      onFailure: (error) => {
        this.#failure = error;
        for (const report of this.#users) report(error);
      },
    });
    return () => {
      if (!this.#users.delete(user) || this.#users.size > 0) return;
      this.#own?.close();
      this.#own = undefined;
      this.port = undefined;
    };
  }
}
