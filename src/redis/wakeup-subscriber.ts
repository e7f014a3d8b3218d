import type { Cancel } from "../clock.js";
import { readEntry } from "../store/entry-layout.js";
import type { Wake } from "../store/store.js";
import { isCluster, type RedisClient, type RedisSubscriber } from "./redis-client.js";

/** A subscriber waits for its server for as long as it takes: nothing depends on it, waiters poll besides. */
const SUBSCRIBER_OPTIONS = {
  enableOfflineQueue: true,
  maxRetriesPerRequest: null,
  enableReadyCheck: false,
  lazyConnect: false,
  // The client would subscribe again by itself, and leave the rejection unhandled if the connection breaks meanwhile.
  autoResubscribe: false,
};

/** One connection that hears which contended keys have changed, and tells the listeners. Decoded with the first listener. */
export class WakeupSubscriber {
  readonly #client: RedisClient;
  readonly #listeners = new Set<Wake>();
  #subscriber: RedisSubscriber | undefined;

  constructor(client: RedisClient) {
    this.#client = client;
  }

  /** Answers what ends the listening; with the last listener the connection goes. */
  listen(wakeChannel: string, wake: Wake): Cancel {
    // Without a listener the client would print its errors, or end the process; ours reach the operations that fail.
    if (this.#listeners.size === 0) this.#client.on("error", ignore);
    this.#listeners.add(wake);
    this.#subscriber ??= this.#open(wakeChannel);
    return () => {
      if (!this.#listeners.delete(wake) || this.#listeners.size > 0) return;
      this.#subscriber?.disconnect();
      this.#subscriber = undefined;
      this.#client.off("error", ignore);
    };
  }

  #open(wakeChannel: string): RedisSubscriber {
    const duplicate = this.#client.duplicate as (...args: unknown[]) => unknown;
    const subscriber = (
      isCluster(this.#client)
        ? duplicate.call(this.#client, [], { lazyConnect: false })
        : duplicate.call(this.#client, SUBSCRIBER_OPTIONS)
    ) as RedisSubscriber;
    subscriber.on("error", ignore);
    subscriber.on("messageBuffer", (_lane, message: Buffer) => {
      const keyEnd = 2 + message.readUInt16LE(0);
      const entry = message.length > keyEnd ? readEntry(message.subarray(keyEnd)) : undefined;
      this.#wake(message.toString("utf8", 2, keyEnd), entry);
    });
    const subscribe = (): Promise<void> =>
      subscriber
        .subscribe(wakeChannel)
        // Whatever was said while the connection was away is lost: everybody looks for himself.
        .then(() => this.#wake(undefined, undefined))
        .catch(ignore);
    subscriber.on("ready", () => void subscribe());
    // A Cluster keeps its subscriptions itself, on whichever node it listens to.
    if (isCluster(this.#client)) void subscribe();
    return subscriber;
  }

  #wake(...event: Parameters<Wake>): void {
    for (const listener of this.#listeners) listener(...event);
  }
}

const ignore = (): void => undefined;
