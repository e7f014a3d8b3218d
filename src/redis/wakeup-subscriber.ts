import type { Cancel } from "../clock.js";
import { readEntry } from "../store/entry-layout.js";
import type { Wake } from "../store/store.js";
import { isCluster, type RedisClient, type RedisSubscriber } from "./redis-client.js";

/** The subscriber retries without limit: no operation depends on it, since waiters poll as well. */
const SUBSCRIBER_OPTIONS = {
  enableOfflineQueue: true,
  maxRetriesPerRequest: null,
  enableReadyCheck: false,
  lazyConnect: false,
  // The client would resubscribe by itself, and leave a rejection unhandled if the connection
  // breaks meanwhile.
  autoResubscribe: false,
};

/**
 * Receives the wake-up messages for contended keys on one connection and passes them to all
 * listeners. The connection is opened with the first listener and closed with the last.
 */
export class WakeupSubscriber {
  readonly #client: RedisClient;
  readonly #listeners = new Set<Wake>();
  #subscriber: RedisSubscriber | undefined;

  constructor(client: RedisClient) {
    this.#client = client;
  }

  /** Adds a listener. Returns a function that removes it. */
  listen(wakeChannel: string, wake: Wake): Cancel {
    this.#listeners.add(wake);
    this.#subscriber ??= this.#connect(wakeChannel);
    return () => {
      if (!this.#listeners.delete(wake) || this.#listeners.size > 0) return;
      this.#subscriber?.disconnect();
      this.#subscriber = undefined;
    };
  }

  #connect(wakeChannel: string): RedisSubscriber {
    const duplicate = this.#client.duplicate as (...args: unknown[]) => unknown;
    const subscriber = (
      isCluster(this.#client)
        ? duplicate.call(this.#client, [], { lazyConnect: false })
        : duplicate.call(this.#client, SUBSCRIBER_OPTIONS)
    ) as RedisSubscriber;
    subscriber.on("error", ignore);
    subscriber.on("messageBuffer", (_channel, message: Buffer) => {
      const event = readMessage(message);
      if (event !== undefined) this.#wake(...event);
    });
    const subscribe = (): Promise<void> =>
      subscriber
        .subscribe(wakeChannel)
        // Messages sent while the connection was down are lost, so every waiter has to check its
        // key.
        .then(() => this.#wake(undefined, undefined, undefined))
        .catch(ignore);
    subscriber.on("ready", () => void subscribe());
    // A Cluster client restores its subscriptions itself, on whichever node it uses for them.
    if (isCluster(this.#client)) void subscribe();
    return subscriber;
  }

  #wake(...event: Parameters<Wake>): void {
    for (const listener of this.#listeners) listener(...event);
  }
}

/** The bytes before the key: its length (u16, little endian) and the lease chain that has ended. */
const LENGTH_BYTES = 2;
const HEAD_BYTES = LENGTH_BYTES + 16;

/**
 * Parses a wake-up message, written by `wakeWaiters`. Returns undefined for any other message: every
 * client of the server may publish on the channel.
 */
function readMessage(message: Buffer): Parameters<Wake> | undefined {
  if (message.length < HEAD_BYTES) return undefined;
  const keyEnd = HEAD_BYTES + message.readUInt16LE(0);
  if (message.length < keyEnd) return undefined;
  const entry = message.length > keyEnd ? readEntry(message.subarray(keyEnd)) : undefined;
  return [message.toString("utf8", HEAD_BYTES, keyEnd), entry, message.toString("latin1", LENGTH_BYTES, HEAD_BYTES)];
}

const ignore = (): void => undefined;
