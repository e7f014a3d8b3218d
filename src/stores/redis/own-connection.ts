import type { Cancel, Clock } from "../../core/base/clock.js";
import { messageOf } from "../../core/base/errors.js";
import { asError } from "../../core/store/answers.js";
import type { ClientPort, ClientStatus, ConnectionEvents, SubscriberConnection } from "./client-port.js";
import { isRefusal } from "./replies.js";

/**
 * A connection that a store opens besides its client, as long as the client is not closed. Whenever it has ended, another one
 * is duplicated from the client, after a pause, or at once when the client itself has connected again. A connection that
 * cannot be opened while the client has none either is the client's trouble, and not reported here.
 */
export class OwnConnection {
  readonly #port: ClientPort;
  readonly #clock: Clock;
  readonly #purpose: ConnectionPurpose;
  readonly #stops: Cancel[];
  #open: SubscriberConnection | undefined;
  #liveAt: number | undefined;
  /** Since the last connection that could be used for a while. */
  #failedAttempts = 0;
  #failure: Error | undefined;
  #retryTimer: Cancel | undefined;
  #timer: Cancel = () => undefined;

  constructor(port: ClientPort, clock: Clock, purpose: ConnectionPurpose) {
    this.#port = port;
    this.#clock = clock;
    this.#purpose = purpose;
    this.#stops = [
      // A client that was closed may be connected again.
      port.events.listen("connecting", () => this.#connectUnlessTrying()),
      port.events.listen("ready", () => this.#retryNow()),
      port.events.listen("end", () => this.#stop()),
    ];
    if (port.status !== "wait" && port.status !== "end") this.#connect();
  }

  close(): void {
    for (const stop of this.#stops) stop();
    this.#stop();
    this.#report(undefined);
  }

  #connectUnlessTrying(): void {
    if (this.#open === undefined && this.#retryTimer === undefined) this.#connect();
  }

  /** Also gives up an attempt that began before the client was connected again: it may wait for a lost packet. */
  #retryNow(): void {
    if (this.#liveAt !== undefined || this.#failedAttempts === 0) return;
    this.#stop();
    this.#connect();
  }

  #connect(): void {
    this.#retryTimer = undefined;
    let lastError = new Error("the connection was closed");
    const connection: SubscriberConnection | undefined = this.#purpose.connect(
      {
        onError: (error) => {
          lastError = withoutNesting(error);
        },
        onConnect: () => {
          if (this.#open === connection)
            this.#timer = this.#clock.after(READY_MS, () => this.#drop(connection, new Error(UNANSWERED)));
        },
        onReady: () => {
          if (connection !== undefined)
            this.#prepare(connection).catch((error: unknown) => this.#drop(connection, asError(error)));
        },
        onEnd: () => this.#drop(connection, lastError),
      },
      this.#failedAttempts,
    );
    this.#open = connection;
    if (connection === undefined) this.#retryLater();
  }

  async #prepare(connection: SubscriberConnection): Promise<void> {
    await this.#purpose.prepare(connection);
    if (this.#open !== connection) return;
    this.#timer();
    this.#liveAt = this.#clock.now();
    this.#checkLater(connection);
  }

  #checkLater(connection: SubscriberConnection): void {
    this.#timer = this.#clock.after(CHECK_EVERY_MS, () => {
      this.#timer = this.#clock.after(CHECK_TIMEOUT_MS, () => this.#drop(connection, new Error(UNANSWERED)));
      this.#purpose.ask(connection).then(
        () => {
          if (this.#open !== connection) return;
          this.#timer();
          this.#report(undefined);
          this.#checkLater(connection);
        },
        (error: unknown) => this.#drop(connection, asError(error)),
      );
    });
  }

  /** Gives up a connection that has ended, or is of no use, and opens another one later. */
  #drop(connection: SubscriberConnection | undefined, error: Error): void {
    if (connection === undefined || this.#open !== connection) return;
    const liveAt = this.#liveAt;
    this.#release();
    this.#failedAttempts =
      liveAt !== undefined && this.#clock.now() - liveAt >= MAX_RETRY_MS ? 0 : this.#failedAttempts + 1;
    // Anything else may be over with the next attempt.
    const isReported = isRefusal(error) || this.#failedAttempts >= REPORTED_ATTEMPTS;
    if (isReported && this.#port.status === "ready") this.#report(error);
    this.#retryLater();
  }

  #report(error: Error | undefined): void {
    if (error?.message === this.#failure?.message) return;
    this.#failure = error;
    this.#purpose.onFailure(error);
  }

  #retryLater(): void {
    const delayMs = Math.min(FIRST_RETRY_MS * 2 ** Math.min(this.#failedAttempts, 10), MAX_RETRY_MS);
    this.#retryTimer = this.#clock.after(delayMs, () => this.#connect());
  }

  #stop(): void {
    this.#retryTimer?.();
    this.#retryTimer = undefined;
    this.#release();
  }

  #release(): void {
    const connection = this.#open;
    this.#timer();
    this.#open = undefined;
    this.#liveAt = undefined;
    if (connection === undefined) return;
    connection.close();
    this.#purpose.onEnd();
  }
}

/** Pauses between attempts to connect. Each failed attempt doubles the pause. */
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 2_000;
/** After how many failed attempts in a row one is reported, unless the server has refused it. */
const REPORTED_ATTEMPTS = 3;
/** How long a server that has accepted a connection may take until the connection can be used. */
const READY_MS = 5_000;

/** All who listen poll as well, so it is enough to notice a broken connection after a while. */
const CHECK_EVERY_MS = 1_000;
const CHECK_TIMEOUT_MS = 2_000;

export interface ConnectionPurpose {
  /** Opens a connection with the options that the client has now. Undefined: there is no server to connect to yet. */
  connect(events: ConnectionEvents, attempt: number): SubscriberConnection | undefined;
  /** Makes a new connection usable. If it rejects, the connection is closed. */
  prepare(connection: SubscriberConnection): Promise<unknown>;
  onEnd(): void;
  /** Attempts fail although the client is connected; undefined: no more. Called once for each change of the message. */
  onFailure(error: Error | undefined): void;
  /** Asks the server something, to see whether it replies: a connection can break without an event. */
  ask(connection: SubscriberConnection): Promise<unknown>;
}

const UNANSWERED = "the server does not reply";

/** Why the client is not connected: commands that fail meanwhile do not say it, but an event of the client does. */
export class ConnectionErrors {
  readonly #port: ClientPort;
  #last: Error | undefined;
  readonly #ofNodes = new Map<string, Error>();

  constructor(port: ClientPort) {
    this.#port = port;
  }

  /** Returns why there is no connection to `node`, as far as that is known; undefined if there is one. */
  of(node: string): Error | undefined {
    if (this.#last !== undefined) return this.#last;
    const doing = STATUSES.get(this.#port.status);
    if (doing !== undefined) return new Error(`not connected to ${this.#port.place}: ${doing}`);
    if (this.#port.cluster?.isConnectedTo(node) === true) this.#ofNodes.delete(node);
    return this.#ofNodes.get(node);
  }

  /** Without a listener for errors, the client would log them or end the process. Returns a function that ends this use. */
  watch(): Cancel {
    const { events, cluster } = this.#port;
    const stops = [
      events.listen("error", (error) => {
        this.#last = withoutNesting(error);
      }),
      events.listen("ready", () => {
        this.#last = undefined;
        for (const node of this.#ofNodes.keys()) if (cluster?.isConnectedTo(node) === true) this.#ofNodes.delete(node);
      }),
      events.listen("nodeError", (error, node) => {
        this.#ofNodes.set(node, withoutNesting(error));
      }),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  }
}

/** What a client is doing if it is not connected, by its status. Commands that fail then do not say it. */
const STATUSES: ReadonlyMap<ClientStatus, string> = new Map([
  ["connecting", "the client is connecting"],
  ["connect", "the client is connecting"],
  ["close", "the connection was closed"],
  ["reconnecting", "the connection was closed, and the client is reconnecting"],
  ["disconnecting", "the client is being closed"],
  ["end", "the client was closed, or does not reconnect"],
]);

/** Returns an error with the message of the innermost error: Node reports one error per address, a Cluster client one per node. */
export const withoutNesting = (error: Error): Error => new Error(innermostMessage(error), { cause: error });

function innermostMessage(error: unknown): string {
  const { lastNodeError, errors } = error as { lastNodeError?: unknown; errors?: readonly unknown[] };
  if (lastNodeError !== undefined) return innermostMessage(lastNodeError);
  if (Array.isArray(errors) && errors.length > 0) return errors.map(innermostMessage).join(", ");
  return messageOf(error);
}
