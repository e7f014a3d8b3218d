import type { Cancel, Clock } from "../clock.js";
import type { ChangeListener } from "../store/store.js";
import type { ClientEvents } from "./client-events.js";
import { duplicate, duplicateNode, OwnConnection } from "./own-connection.js";
import { isCluster, type RedisClient, type RedisSubscriber } from "./redis-client.js";
import { addressOf, nodeAt } from "./server-info.js";

/** Interval between pings of a connection. One that has not replied to a ping in time is opened again. */
const PING = { everyMs: 500, timeoutMs: 1_000 };
const RETRY_MS = 500;
const CHANNEL = "__redis__:invalidate";
/** RESP2, in which tracking sends its messages through pub/sub. */
const PROTOCOL = { protocol: 2 };

/** What `ClientTracking` needs besides the client. */
export interface TrackingOptions {
  readonly events: ClientEvents;
  readonly clock: Clock;
  readonly prefix: string;
  /** Keys whose names begin like this are not reported. Empty: all are. */
  readonly ignored: string;
  readonly listener: ChangeListener;
  /** Called when the connection to a master cannot be opened or used; without an error, when it can again. */
  onFailure(node: string, error: Error | undefined): void;
}

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
  readonly #options: TrackingOptions;
  #connections: readonly TrackingConnection[] = [];
  #masters = "";
  #cancelRetry: Cancel = () => undefined;
  #isComplete = false;

  constructor(client: RedisClient, options: TrackingOptions) {
    this.#client = client;
    this.#options = options;
  }

  start(): Cancel {
    this.#connect();
    const stopListening = this.#options.events.listen("refresh", () => this.#connect());
    return () => {
      stopListening();
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
    const names = masters.map(addressOf).sort().join();
    if (masters.length === 0) {
      this.#cancelRetry = this.#options.clock.after(RETRY_MS, () => this.#connect());
      return;
    }
    if (names === this.#masters) return;
    this.#disconnect();
    this.#masters = names;
    this.#connections = masters.map(
      (master) =>
        new TrackingConnection(this.#client, master, this.#options, {
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
    const { listener, ignored } = this.#options;
    if (keys === undefined) listener.changed(undefined);
    else for (const key of keys) if (ignored === "" || !key.startsWith(ignored)) listener.changed(key);
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
      this.#options.listener.began();
      this.#confirm();
    } else this.#options.listener.lost();
  }

  #confirm(): void {
    if (!this.#isComplete) return;
    const confirmedAt = Math.min(...this.#connections.map((connection) => connection.confirmedAt));
    this.#options.listener.confirmed(this.#options.clock.now() - confirmedAt);
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
  readonly #own: OwnConnection<RedisSubscriber>;

  constructor(
    client: RedisClient,
    master: RedisClient,
    { events, clock, prefix, onFailure }: TrackingOptions,
    listener: ConnectionListener,
  ) {
    const address = addressOf(master);
    const node = isCluster(client) ? address : "";
    this.#own = new OwnConnection<RedisSubscriber>(client, events, clock, {
      connect: (attempt) => {
        const connection = isCluster(client)
          ? duplicateNode(client, nodeAt(client, address) ?? master, attempt, PROTOCOL)
          : duplicate(client, PROTOCOL);
        connection.on("messageBuffer", (_channel, message: unknown) => {
          // Null means all keys: the server was flushed.
          listener.onKeys(
            Array.isArray(message) ? (message as Buffer[]).map((key) => key.toString("utf8")) : undefined,
          );
        });
        return connection;
      },
      prepare: async (connection) => {
        await startTracking(connection, prefix);
        const sentAt = clock.now();
        await connection.ping();
        this.confirmedAt = sentAt;
      },
      onLive: () => {
        this.isLive = true;
        listener.onStatus();
      },
      onEnd: () => {
        this.isLive = false;
        listener.onStatus();
      },
      onFailure: (error) => onFailure(node, error),
      check: {
        ...PING,
        ask: (connection) => connection.ping(),
        onReply: (sentAt) => {
          this.confirmedAt = sentAt;
          listener.onConfirmed();
        },
      },
    });
  }

  close(): void {
    this.#own.close();
  }
}

/** Enables tracking before it subscribes: what changes between the two is reported with the reply. */
async function startTracking(connection: RedisSubscriber, prefix: string): Promise<void> {
  const id = String(await connection.call("CLIENT", "ID"));
  await connection.call("CLIENT", "TRACKING", "ON", "REDIRECT", id, "BCAST", "PREFIX", prefix);
  await connection.subscribe(CHANNEL);
}
