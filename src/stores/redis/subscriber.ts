import type { Cancel, Clock } from "../../core/base/clock.js";
import { getOrMake } from "../../core/base/multimap.js";
import type { ClientPort, SubscriberConnection } from "./client-port.js";
import { OwnConnection } from "./own-connection.js";
import { isRefusal } from "./replies.js";

/**
 * Receives the messages of all channels of a client on one connection, and passes them to listeners. The connection is opened with the first
 * listener and closed with the last. On a Cluster it leads to one node, to which the others forward all messages.
 */
export class Subscriber {
  readonly #port: ClientPort;
  readonly #clock: Clock;
  readonly #channels = new Map<string, Channel>();
  #own: OwnConnection | undefined;
  /** The connection, while channels can be subscribed on it. */
  #connection: SubscriberConnection | undefined;
  #failure: Error | undefined;

  constructor(port: ClientPort, clock: Clock) {
    this.#port = port;
    this.#clock = clock;
  }

  listen(name: string, listener: ChannelListener): Cancel {
    const made = (): Channel => ({ listeners: new Set(), isSubscribed: false, refusal: undefined });
    const channel = getOrMake(this.#channels, name, made);
    const { listeners } = channel;
    listeners.add(listener);
    listener.onFailure(this.#failure ?? channel.refusal);
    if (this.#own === undefined) this.#open();
    else if (this.#connection !== undefined && !channel.isSubscribed)
      this.#subscribe(this.#connection, name, channel).catch(ignore);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || !this.#channels.delete(name)) return;
      if (this.#channels.size > 0) this.#connection?.unsubscribe(name).catch(ignore);
      else this.#close();
    };
  }

  #open(): void {
    this.#own = new OwnConnection(this.#port, this.#clock, {
      connect: (events, attempt) =>
        this.#port.openSubscriber(events, (name, message) => this.#pass(this.#channels.get(name), message), attempt),
      prepare: (connection) => {
        for (const channel of this.#channels.values()) channel.isSubscribed = false;
        this.#connection = connection;
        return this.#subscribeAll(connection);
      },
      onEnd: () => {
        this.#connection = undefined;
      },
      onFailure: (error) => {
        this.#failure = error;
        for (const channel of this.#channels.values()) report(channel, error);
      },
      // Replied to without a right that the store needs for nothing else, and tries again what the server has refused.
      ask: (connection) => Promise.all([this.#subscribeAll(connection), connection.ping?.()]),
    });
  }

  #close(): void {
    this.#own?.close();
    this.#own = undefined;
  }

  /** Resolves when the server has replied to all. Rejects if the connection breaks. */
  async #subscribeAll(connection: SubscriberConnection): Promise<void> {
    await Promise.all([...this.#channels].map(([name, channel]) => this.#subscribe(connection, name, channel)));
  }

  async #subscribe(connection: SubscriberConnection, name: string, channel: Channel): Promise<void> {
    let refusal: Error | undefined;
    try {
      await connection.subscribe(name);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      refusal = error;
    }
    if (connection !== this.#connection) return;
    const wasSubscribed = channel.isSubscribed;
    channel.isSubscribed = refusal === undefined;
    if (refusal?.message !== channel.refusal?.message) report(channel, refusal);
    channel.refusal = refusal;
    // Messages sent while the connection was down are lost.
    if (channel.isSubscribed && !wasSubscribed) this.#pass(channel, undefined);
  }

  #pass(channel: Channel | undefined, message: Buffer | undefined): void {
    for (const listener of channel?.listeners ?? []) listener.onMessage(message);
  }
}

export interface ChannelListener {
  /** Undefined: messages may have been lost. Any client of the server may publish on the channel. */
  onMessage(message: Buffer | undefined): void;
  /** No messages arrive because of `error`; undefined: that is over, or was not so. Called at once, and with each change. */
  onFailure(error: Error | undefined): void;
}

interface Channel {
  readonly listeners: Set<ChannelListener>;
  isSubscribed: boolean;
  refusal: Error | undefined;
}

function report({ listeners }: Channel, error: Error | undefined): void {
  for (const listener of listeners) listener.onFailure(error);
}

const ignore = (): void => undefined;
