import type { Cancel, Clock } from "../../core/base/clock.js";
import { getOrMake } from "../../core/base/multimap.js";
import { asError } from "../../core/store/answers.js";
import type { ClientPort, SubscriberConnection } from "./client-port.js";
import { withoutNesting } from "./connection-errors.js";
import { isRefusal } from "./replies.js";

/**
 * Receives the messages of all channels of a client, and passes them to listeners. The connection
 * that it opens besides the client is there while anybody listens and the client is not closed. On
 * a Cluster it leads to one node, to which the others forward all messages. Whenever it has ended,
 * another one is duplicated from the client, after a pause, or at once when the client itself has
 * connected again. A connection that cannot be opened while the client has none either is the
 * client's trouble, and not reported here.
 */
export class Subscriber {
  readonly #channels = new Map<string, Channel>();
  /** Empty: nobody listens to a channel. */
  #stops: readonly Cancel[] = [];
  #connection: SubscriberConnection | undefined;
  /** Channels can be subscribed on the connection. */
  #isReady = false;
  #liveAt: number | undefined;
  /** Since the last connection that could be used for a while. */
  #failedAttempts = 0;
  #failure: Error | undefined;
  #retryTimer: Cancel | undefined;
  #timer: Cancel = () => undefined;

  constructor(
    private readonly port: ClientPort,
    private readonly clock: Clock,
  ) {}

  listen(name: string, listener: ChannelListener): Cancel {
    const made = (): Channel => ({ listeners: new Set(), isSubscribed: false, refusal: undefined });
    const channel = getOrMake(this.#channels, name, made);
    const { listeners } = channel;
    listeners.add(listener);
    listener.onFailure(this.#failure ?? channel.refusal);
    if (this.#stops.length === 0) this.#open();
    else if (this.#connection !== undefined && this.#isReady && !channel.isSubscribed)
      this.#subscribe(this.#connection, name, channel).catch(ignore);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || !this.#channels.delete(name)) return;
      if (this.#isReady && this.#channels.size > 0) this.#connection?.unsubscribe(name).catch(ignore);
      if (this.#channels.size > 0) return;
      for (const stop of this.#stops) stop();
      this.#stops = [];
      this.#failedAttempts = 0;
      this.#failure = undefined;
      this.#stop();
    };
  }

  #open(): void {
    const { events } = this.port;
    this.#stops = [
      // A client that was closed may be connected again.
      events.listen("connecting", () => {
        if (this.#connection === undefined && this.#retryTimer === undefined) this.#connect();
      }),
      events.listen("ready", () => {
        // Also ends an attempt from before the client was connected: it may wait for a lost packet.
        if (this.#liveAt !== undefined || this.#failedAttempts === 0) return;
        this.#stop();
        this.#connect();
      }),
      events.listen("end", () => this.#stop()),
    ];
    const status = this.port.status();
    if (status !== "wait" && status !== "end") this.#connect();
  }

  #connect(): void {
    this.#retryTimer = undefined;
    let lastError = new Error("the connection was closed");
    const connection: SubscriberConnection | undefined = this.port.openSubscriber(
      (event, error) => {
        if (connection === undefined || connection !== this.#connection) return;
        if (event === "connect") this.#timer = this.clock.after(READY_MS, () => this.#drop(connection, UNANSWERED()));
        else if (event === "ready")
          this.#prepare(connection).catch((reason: unknown) => this.#drop(connection, asError(reason)));
        else if (event === "error") lastError = withoutNesting(asError(error));
        else this.#drop(connection, lastError);
      },
      (name, message) => pass(this.#channels.get(name), message),
      this.#failedAttempts,
    );
    this.#connection = connection;
    if (connection === undefined) this.#retryLater();
  }

  async #prepare(connection: SubscriberConnection): Promise<void> {
    for (const channel of this.#channels.values()) channel.isSubscribed = false;
    this.#isReady = true;
    await this.#subscribeAll(connection);
    if (this.#connection !== connection) return;
    this.#timer();
    this.#liveAt = this.clock.now();
    this.#checkLater(connection);
  }

  /** A connection can break without an event. */
  #checkLater(connection: SubscriberConnection): void {
    this.#timer = this.clock.after(CHECK_EVERY_MS, () => {
      this.#timer = this.clock.after(CHECK_TIMEOUT_MS, () => this.#drop(connection, UNANSWERED()));
      // Needs no right of its own, and tries again what the server has refused.
      Promise.all([this.#subscribeAll(connection), connection.ping?.()]).then(
        () => {
          if (this.#connection !== connection) return;
          this.#timer();
          this.#report(undefined);
          this.#checkLater(connection);
        },
        (error: unknown) => this.#drop(connection, asError(error)),
      );
    });
  }

  /** Gives up a connection that has ended, or is of no use, and opens another one later. */
  #drop(connection: SubscriberConnection, error: Error): void {
    if (this.#connection !== connection) return;
    const wasOfUse = this.#liveAt !== undefined && this.clock.now() - this.#liveAt >= MAX_RETRY_MS;
    this.#failedAttempts = wasOfUse ? 0 : this.#failedAttempts + 1;
    this.#release();
    // Anything else may be over with the next attempt.
    const isReported = isRefusal(error) || this.#failedAttempts >= REPORTED_ATTEMPTS;
    if (isReported && this.port.status() === "ready") this.#report(error);
    this.#retryLater();
  }

  /** Once for each change of the message. */
  #report(error: Error | undefined): void {
    if (error?.message === this.#failure?.message) return;
    this.#failure = error;
    for (const channel of this.#channels.values()) report(channel, error);
  }

  #retryLater(): void {
    const delayMs = Math.min(FIRST_RETRY_MS * 2 ** Math.min(this.#failedAttempts, 10), MAX_RETRY_MS);
    this.#retryTimer = this.clock.after(delayMs, () => this.#connect());
  }

  #stop(): void {
    this.#retryTimer?.();
    this.#retryTimer = undefined;
    this.#release();
  }

  #release(): void {
    const connection = this.#connection;
    this.#timer();
    this.#connection = undefined;
    this.#isReady = false;
    this.#liveAt = undefined;
    connection?.close();
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
    if (channel.isSubscribed && !wasSubscribed) pass(channel, undefined);
  }
}

export interface ChannelListener {
  /** Undefined: messages may have been lost. Any client may publish on the channel. */
  onMessage(message: Buffer | undefined): void;
  /** Why no messages arrive; undefined: they do. Called at once, and with each change. */
  onFailure(error: Error | undefined): void;
}

interface Channel {
  readonly listeners: Set<ChannelListener>;
  isSubscribed: boolean;
  refusal: Error | undefined;
}

function pass(channel: Channel | undefined, message: Buffer | undefined): void {
  for (const listener of channel?.listeners ?? []) listener.onMessage(message);
}

function report({ listeners }: Channel, error: Error | undefined): void {
  for (const listener of listeners) listener.onFailure(error);
}

/** Each failed attempt doubles the pause. */
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 2_000;
/** In a row. What the server has refused is reported at once. */
const REPORTED_ATTEMPTS = 3;
/** From when the server has accepted the connection. */
const READY_MS = 5_000;

/** All who listen poll as well, so it is enough to notice a broken connection after a while. */
const CHECK_EVERY_MS = 1_000;
const CHECK_TIMEOUT_MS = 2_000;

const UNANSWERED = (): Error => new Error("the server does not reply");

const ignore = (): void => undefined;
