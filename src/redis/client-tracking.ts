import type { Cancel, Clock } from "../clock.js";
import type { ChangeListener } from "../store/store.js";
import { isCluster, type RedisClient, type RedisSubscriber } from "./redis-client.js";

/** Interval between pings of a connection. */
const PING_MS = 500;
/** A connection that has not replied to a ping for this long is opened again. */
const PING_TIMEOUT_MS = 1_000;
const RETRY_MS = 500;
const CHANNEL = "__redis__:invalidate";

/**
 * RESP2, in which tracking sends its messages through pub/sub. The client must not resubscribe or
 * resend commands by itself after a reconnect, since tracking has to be enabled first, with the id
 * of the new connection.
 */
const CONNECTION_OPTIONS = {
  // Its commands would lose their names, see `isAutoPipelined`.
  enableAutoPipelining: false,
  protocol: 2,
  lazyConnect: false,
  enableOfflineQueue: true,
  enableReadyCheck: false,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: null,
  retryStrategy: () => RETRY_MS,
};

/**
 * Reports every change of a key under `prefix`, whichever client makes it, except keys whose names
 * begin with `ignored`. Opens one connection to each master and enables Redis' client tracking in
 * broadcasting mode on it. A change is reported around the time at which its writer receives the
 * reply, shortly before or after. A connection that closes, or does not respond, is reported as a
 * loss: everything derived from earlier reports must then be discarded.
 *
 * Messages and the replies to pings share the connection, in order: when the reply to a ping arrives,
 * every change from before the ping was sent has been reported. Only this, not a timer, decides what
 * `confirmed` says, so a frozen network or a busy process cannot hide a change for longer.
 * Source: redis.io, "Client-side caching in Redis", broadcasting mode.
 */
export class ClientTracking {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #prefix: string;
  readonly #ignored: string;
  readonly #listener: ChangeListener;
  #connections: readonly TrackingConnection[] = [];
  #masters = "";
  #cancelRetry: Cancel = () => undefined;
  #isComplete = false;

  constructor(client: RedisClient, clock: Clock, prefix: string, ignored: string, listener: ChangeListener) {
    this.#client = client;
    this.#clock = clock;
    this.#prefix = prefix;
    this.#ignored = ignored;
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
      (master) =>
        new TrackingConnection(master, this.#clock, this.#prefix, {
          onKeys: (keys) => this.#report(keys),
          onStatus: () => this.#update(),
          onConfirmed: () => this.#confirm(),
        }),
    );
  }

  #disconnect(): void {
    for (const connection of this.#connections) connection.close();
    this.#connections = [];
    this.#update();
  }

  #report(keys: readonly string[] | undefined): void {
    if (keys === undefined) this.#listener.changed(undefined);
    else
      for (const key of keys) if (this.#ignored === "" || !key.startsWith(this.#ignored)) this.#listener.changed(key);
  }

  /**
   * Tracking is complete only while every master is tracked: a change on any other master would be
   * missed.
   */
  #update(): void {
    const isComplete = this.#connections.length > 0 && this.#connections.every(({ isLive }) => isLive);
    if (isComplete === this.#isComplete) return;
    this.#isComplete = isComplete;
    if (isComplete) {
      this.#listener.began();
      this.#confirm();
    } else this.#listener.lost();
  }

  #confirm(): void {
    if (!this.#isComplete) return;
    const confirmedAt = Math.min(...this.#connections.map((connection) => connection.confirmedAt));
    this.#listener.confirmed(this.#clock.now() - confirmedAt);
  }
}

interface ConnectionListener {
  /** Undefined: any key may have changed. */
  onKeys(keys: readonly string[] | undefined): void;
  onStatus(): void;
  onConfirmed(): void;
}

/** The connection to one master. */
class TrackingConnection {
  isLive = false;
  /** Every change up to this time has been reported. */
  confirmedAt = Number.NEGATIVE_INFINITY;
  readonly #redis: RedisSubscriber;
  readonly #clock: Clock;
  readonly #listener: ConnectionListener;
  /** Counts connections and their ends: what an earlier one was asked concerns no later one. */
  #generation = 0;
  #cancelTimer: Cancel = () => undefined;

  constructor(master: RedisClient, clock: Clock, prefix: string, listener: ConnectionListener) {
    this.#clock = clock;
    this.#listener = listener;
    this.#redis = (master.duplicate as (options: object) => RedisSubscriber).call(master, CONNECTION_OPTIONS);
    this.#redis.on("error", () => undefined);
    this.#redis.on("close", () => this.#end());
    this.#redis.on("ready", () => void this.#startTracking(prefix));
    this.#redis.on("messageBuffer", (_channel, message: unknown) => {
      // Null means all keys: the server was flushed.
      listener.onKeys(Array.isArray(message) ? (message as Buffer[]).map((key) => key.toString("utf8")) : undefined);
    });
  }

  close(): void {
    this.#generation++;
    this.#cancelTimer();
    this.isLive = false;
    this.#redis.disconnect();
  }

  async #startTracking(prefix: string): Promise<void> {
    this.#end();
    const generation = this.#generation;
    this.#cancelTimer = this.#clock.after(2 * PING_TIMEOUT_MS, () => this.#reconnect());
    try {
      const id = String(await this.#redis.call("CLIENT", "ID"));
      if (generation !== this.#generation) return;
      await this.#redis.call("CLIENT", "TRACKING", "ON", "REDIRECT", id, "BCAST", "PREFIX", prefix);
      if (generation !== this.#generation) return;
      const subscribedAt = this.#clock.now();
      await this.#redis.subscribe(CHANNEL);
      if (generation !== this.#generation) return;
      this.#cancelTimer();
      this.confirmedAt = subscribedAt;
      this.isLive = true;
      this.#listener.onStatus();
      this.#pingLater();
    } catch {
      // The next connection tries again.
      if (generation === this.#generation) this.#reconnect();
    }
  }

  #pingLater(): void {
    this.#cancelTimer = this.#clock.after(PING_MS, () => this.#ping());
  }

  /** A connection can break without a close event, so it is pinged. */
  #ping(): void {
    const generation = this.#generation;
    const sentAt = this.#clock.now();
    this.#cancelTimer = this.#clock.after(PING_TIMEOUT_MS, () => this.#reconnect());
    this.#redis.ping().then(
      () => {
        if (generation !== this.#generation) return;
        this.#cancelTimer();
        this.confirmedAt = sentAt;
        this.#listener.onConfirmed();
        this.#pingLater();
      },
      () => undefined,
    );
  }

  #reconnect(): void {
    this.#end();
    this.#redis.disconnect(true);
  }

  #end(): void {
    this.#generation++;
    this.#cancelTimer();
    if (!this.isLive) return;
    this.isLive = false;
    this.#listener.onStatus();
  }
}
