import type { Cancel } from "../../core/base/clock.js";
import { asError } from "../../core/store/answers.js";
import { ClientEvents } from "./client-events.js";
import type {
  ClientPort,
  ClientStatus,
  Command,
  ConnectionEvents,
  OnMessage,
  SubscriberConnection,
  WriterConnection,
} from "./client-port.js";
import {
  argsOf,
  mgetFrom,
  type NodeRedisServer,
  openSubscriberOf,
  optionsFor,
  sendTo,
} from "./node-redis-connection.js";
import { listen, openWriterOf } from "./node-redis-port.js";

/** What the store uses of a client of `createSentinel`. */
export interface NodeRedisSentinel {
  readonly isOpen: boolean;
  /** Calls a function with the client of the master, once there is one. */
  _execute<Result>(isReadonly: false, use: (master: NodeRedisServer) => Promise<Result>): Promise<Result>;
}

/**
 * A client of node-redis for the master that Sentinel names: that of `createSentinel`.
 *
 * The commands go to its client of the master itself. Otherwise the commands of a tick would wait for each other: each takes
 * a lease of that client, of which there is one by default.
 */
export class NodeRedisSentinelPort implements ClientPort {
  readonly place = "the master of Sentinel";
  readonly cluster = undefined;
  readonly events: ClientEvents;
  readonly #sentinel: NodeRedisSentinel;
  #master: NodeRedisServer | undefined;
  #finding: Promise<NodeRedisServer> | undefined;
  #stops: readonly Cancel[] = [];

  constructor(sentinel: NodeRedisSentinel) {
    this.#sentinel = sentinel;
    this.events = new ClientEvents((event, deliver) =>
      event === "error" ? listen(sentinel, "error", deliver as (error: Error) => void) : () => undefined,
    );
    this.#findAgain();
  }

  get status(): ClientStatus {
    if (!this.#sentinel.isOpen) return "end";
    if (this.#master === undefined) return "connecting";
    return this.#master.isReady ? "ready" : "reconnecting";
  }

  async send(commands: readonly Command[]): Promise<readonly unknown[]> {
    try {
      return await sendTo(this.#readyMaster() ?? (await this.#find()), commands);
    } catch (error) {
      return commands.map(() => asError(error));
    }
  }

  async sendMoved(command: Command): Promise<unknown> {
    return (await this.send([command]))[0];
  }

  async mget(keys: readonly string[]): Promise<unknown> {
    return mgetFrom(this.#readyMaster() ?? (await this.#find()), keys);
  }

  async ask(_node: string, command: Command): Promise<unknown> {
    const master = this.#readyMaster() ?? (await this.#find());
    return master.sendCommand(argsOf(command), optionsFor(master));
  }

  bytesReceivedFrom(): undefined {
    return undefined;
  }

  openSubscriber(events: ConnectionEvents, onMessage: OnMessage): SubscriberConnection | undefined {
    const master = this.#readyMaster();
    return master === undefined ? undefined : openSubscriberOf(master, events, onMessage);
  }

  openWriter(events: ConnectionEvents): WriterConnection | undefined {
    const master = this.#readyMaster();
    return master === undefined ? undefined : openWriterOf(master, events);
  }

  #readyMaster(): NodeRedisServer | undefined {
    return this.#master?.isReady === true ? this.#master : undefined;
  }

  #findAgain(): void {
    this.#find().catch(() => undefined);
  }

  /** Returns the client of the present master, once it is connected. */
  #find(): Promise<NodeRedisServer> {
    if (!this.#sentinel.isOpen) return Promise.reject(new Error("the client is closed"));
    // In an object, since a client that were thenable would be awaited.
    this.#finding ??= this.#sentinel
      ._execute(false, async (master) => ({ master }))
      .then(({ master }) => {
        this.#use(master);
        return master;
      })
      .finally(() => {
        this.#finding = undefined;
      });
    return this.#finding;
  }

  #use(master: NodeRedisServer): void {
    if (this.#master === master) return;
    for (const stop of this.#stops) stop();
    this.#master = master;
    this.#stops = [
      listen(master, "error", (error: Error) => this.events.emit("error", error)),
      listen(master, "connect", () => this.events.emit("connecting")),
      listen(master, "ready", () => this.events.emit("ready")),
      listen(master, "end", () => this.#onMasterEnd()),
    ];
    this.events.emit("connecting");
    this.events.emit("ready");
  }

  /** The Sentinel client has closed it: there is another master, or it was closed itself, which it says only later. */
  #onMasterEnd(): void {
    this.events.emit("end");
    this.#findAgain();
  }
}
