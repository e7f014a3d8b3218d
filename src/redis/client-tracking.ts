import type { Cancel, Clock } from "../clock.js";
import type { ChangeListener } from "../store/store.js";
import { isCluster, type RedisClient, type RedisSubscriber } from "./redis-client.js";

/** Interval between pings of a connection, and the time each ping may take. */
const PING_MS = 1_000;
const RETRY_MS = 500;
const CHANNEL = "__redis__:invalidate";

/**
 * RESP2, in which tracking sends its messages through pub/sub. The client must not resubscribe by
 * itself after a reconnect, since tracking has to be enabled before the subscription.
 */
const CONNECTION_OPTIONS = {
  protocol: 2,
  lazyConnect: false,
  enableOfflineQueue: true,
  enableReadyCheck: false,
  autoResubscribe: false,
  maxRetriesPerRequest: null,
  retryStrategy: () => RETRY_MS,
};

/**
 * Reports every change of a key under `prefix`, whichever client makes it. Opens one connection to
 * each master and enables Redis' client tracking in broadcasting mode on it. A change is reported
 * around the time at which its writer receives the reply, shortly before or after. A connection
 * that closes, or does not respond for two seconds, is reported as a loss: everything derived from
 * earlier reports must then be discarded.
 * Source: redis.io, "Client-side caching in Redis", broadcasting mode.
 */
export class ClientTracking {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #prefix: string;
  readonly #listener: ChangeListener;
  #connections: readonly TrackingConnection[] = [];
  #masters = "";
  #cancelRetry: Cancel = () => undefined;
  #isComplete = false;

  constructor(client: RedisClient, clock: Clock, prefix: string, listener: ChangeListener) {
    this.#client = client;
    this.#clock = clock;
    this.#prefix = prefix;
    this.#listener = listener;
  }

  start(): Cancel {
    this.#connect();
    const onRefresh = (): void => this.#connect();
    if (isCluster(this.#client)) this.#client.on("refresh", onRefresh);
    return () => {
      this.#client.off("refresh", onRefresh);
      this.#cancelRetry();
      this.#disconnect();
    };
  }

  /**
   * Opens one connection to each master, and reopens all of them if the set of masters has changed.
   */
  #connect(): void {
    this.#cancelRetry();
    const masters = isCluster(this.#client) ? this.#client.nodes("master") : [this.#client];
    const names = masters
      .map(({ options }) => JSON.stringify(options, ["host", "port"]))
      .sort()
      .join();
    if (masters.length === 0) {
      this.#cancelRetry = this.#clock.after(RETRY_MS, () => this.#connect());
      return;
    }
    if (names === this.#masters) return;
    this.#disconnect();
    this.#masters = names;
    this.#connections = masters.map(
      (master) => new TrackingConnection(master, this.#clock, this.#prefix, this.#listener, () => this.#update()),
    );
  }

  #disconnect(): void {
    for (const connection of this.#connections) connection.close();
    this.#connections = [];
    this.#update();
  }

  /**
   * Tracking is complete only while every master is tracked: a change on any other master would be
   * missed.
   */
  #update(): void {
    const isComplete = this.#connections.length > 0 && this.#connections.every(({ isLive }) => isLive);
    if (isComplete === this.#isComplete) return;
    this.#isComplete = isComplete;
    if (isComplete) this.#listener.began();
    else this.#listener.lost();
  }
}

/** The connection to one master. */
class TrackingConnection {
  isLive = false;
  readonly #redis: RedisSubscriber;
  readonly #clock: Clock;
  readonly #onStatusChange: () => void;
  #cancelPing: Cancel = () => undefined;

  constructor(master: RedisClient, clock: Clock, prefix: string, listener: ChangeListener, onStatusChange: () => void) {
    this.#clock = clock;
    this.#onStatusChange = onStatusChange;
    this.#redis = (master.duplicate as (options: object) => RedisSubscriber).call(master, CONNECTION_OPTIONS);
    this.#redis.on("error", () => undefined);
    this.#redis.on("close", () => this.#setLive(false));
    this.#redis.on("ready", () => void this.#startTracking(prefix));
    this.#redis.on("messageBuffer", (_channel, message: unknown) => {
      // Null means all keys: the server was flushed.
      if (Array.isArray(message)) for (const key of message as Buffer[]) listener.changed(key.toString("utf8"));
      else listener.changed(undefined);
    });
  }

  close(): void {
    this.#cancelPing();
    this.isLive = false;
    this.#redis.disconnect();
  }

  async #startTracking(prefix: string): Promise<void> {
    try {
      const id = String(await this.#redis.call("CLIENT", "ID"));
      await this.#redis.call("CLIENT", "TRACKING", "ON", "REDIRECT", id, "BCAST", "PREFIX", prefix);
      await this.#redis.subscribe(CHANNEL);
      this.#setLive(true);
      this.#schedulePing();
    } catch {
      // The next connection tries again.
      this.#redis.disconnect(true);
    }
  }

  /** A connection can break without a close event, so it is pinged. */
  #schedulePing(): void {
    this.#cancelPing();
    this.#cancelPing = this.#clock.after(PING_MS, () => {
      const cancelTimeout = this.#clock.after(PING_MS, () => {
        this.#setLive(false);
        this.#redis.disconnect(true);
      });
      this.#cancelPing = cancelTimeout;
      this.#redis.ping().then(
        () => {
          cancelTimeout();
          if (this.isLive) this.#schedulePing();
        },
        () => undefined,
      );
    });
  }

  #setLive(isLive: boolean): void {
    if (!isLive) this.#cancelPing();
    if (isLive === this.isLive) return;
    this.isLive = isLive;
    this.#onStatusChange();
  }
}
