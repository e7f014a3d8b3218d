import type { Cancel, Clock } from "../clock.js";
import type { ChangeListener } from "../store/store.js";
import { isCluster, type RedisClient, type RedisSubscriber } from "./redis-client.js";

/** A connection that has said nothing for this long is asked whether it still stands, and has as long to answer. */
const PING_MS = 1_000;
const RETRY_MS = 500;
const CHANNEL = "__redis__:invalidate";

/**
 * A connection that speaks the older protocol, in which changes come as messages, and that does nothing by itself when it is back: it has to
 * ask for the changes before it listens.
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
 * Hears of every change of a key under `prefix`, whoever makes it, on a connection of its own to each master: Redis' client tracking in broadcasting
 * mode. A change is told once its writer has been answered, or a moment before or after. A connection that breaks, or is silent for two
 * seconds, is told as a loss, at which everything that was heard before is worth nothing.
 * Source: redis.io, "Client-side caching", broadcasting mode.
 */
export class ClientTracking {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #prefix: string;
  readonly #listener: ChangeListener;
  #connections: readonly Connection[] = [];
  #masters = "";
  #retry: Cancel = () => undefined;
  #isWhole = false;

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
      this.#retry();
      this.#end();
    };
  }

  /** One connection to each master; anew where the masters have changed. */
  #connect(): void {
    this.#retry();
    const masters = isCluster(this.#client) ? this.#client.nodes("master") : [this.#client];
    const names = masters
      .map(({ options }) => JSON.stringify(options, ["host", "port"]))
      .sort()
      .join();
    if (masters.length === 0) {
      this.#retry = this.#clock.after(RETRY_MS, () => this.#connect());
      return;
    }
    if (names === this.#masters) return;
    this.#end();
    this.#masters = names;
    this.#connections = masters.map(
      (master) => new Connection(master, this.#clock, this.#prefix, this.#listener, () => this.#evaluateFreshness()),
    );
  }

  #end(): void {
    for (const connection of this.#connections) connection.end();
    this.#connections = [];
    this.#evaluateFreshness();
  }

  /** All masters are heard, or what is heard is worth nothing. */
  #evaluateFreshness(): void {
    const isWhole = this.#connections.length > 0 && this.#connections.every(({ isLive }) => isLive);
    if (isWhole === this.#isWhole) return;
    this.#isWhole = isWhole;
    if (isWhole) this.#listener.began();
    else this.#listener.lost();
  }
}

/** The listening to one master. */
class Connection {
  isLive = false;
  readonly #redis: RedisSubscriber;
  readonly #clock: Clock;
  readonly #evaluateFreshness: () => void;
  #ping: Cancel = () => undefined;

  constructor(
    master: RedisClient,
    clock: Clock,
    prefix: string,
    listener: ChangeListener,
    evaluateFreshness: () => void,
  ) {
    this.#clock = clock;
    this.#evaluateFreshness = evaluateFreshness;
    this.#redis = (master.duplicate as (options: object) => RedisSubscriber).call(master, CONNECTION_OPTIONS);
    this.#redis.on("error", () => undefined);
    this.#redis.on("close", () => this.#set(false));
    this.#redis.on("ready", () => void this.#listen(prefix));
    this.#redis.on("messageBuffer", (_channel, message: unknown) => {
      // Null stands for all keys: the server was flushed.
      if (Array.isArray(message)) for (const key of message as Buffer[]) listener.changed(key.toString("utf8"));
      else listener.changed(undefined);
    });
  }

  end(): void {
    this.#ping();
    this.isLive = false;
    this.#redis.disconnect();
  }

  async #listen(prefix: string): Promise<void> {
    try {
      const id = String(await this.#redis.call("CLIENT", "ID"));
      await this.#redis.call("CLIENT", "TRACKING", "ON", "REDIRECT", id, "BCAST", "PREFIX", prefix);
      await this.#redis.subscribe(CHANNEL);
      this.#set(true);
      this.#watch();
    } catch {
      // It is tried again with the next connection.
      this.#redis.disconnect(true);
    }
  }

  /** A connection can be gone without a word, so it is asked. */
  #watch(): void {
    this.#ping();
    this.#ping = this.#clock.after(PING_MS, () => {
      const giveUp = this.#clock.after(PING_MS, () => {
        this.#set(false);
        this.#redis.disconnect(true);
      });
      this.#ping = giveUp;
      this.#redis.ping().then(
        () => {
          giveUp();
          if (this.isLive) this.#watch();
        },
        () => undefined,
      );
    });
  }

  #set(isLive: boolean): void {
    if (!isLive) this.#ping();
    if (isLive === this.isLive) return;
    this.isLive = isLive;
    this.#evaluateFreshness();
  }
}
