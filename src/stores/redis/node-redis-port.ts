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
  duplicate,
  mgetFrom,
  type NodeRedisServer,
  openSubscriberOf,
  optionsFor,
  placeOf,
  sendTo,
} from "./node-redis-connection.js";

/** A client of node-redis for one server: that of `createClient`. */
export class NodeRedisPort implements ClientPort {
  readonly cluster = undefined;
  readonly events: ClientEvents;
  readonly #client: NodeRedisServer;

  constructor(client: NodeRedisServer) {
    this.#client = client;
    this.events = new ClientEvents((event, deliver) => {
      switch (event) {
        case "error":
          return listen(client, "error", deliver as (error: Error) => void);
        case "connecting":
          return listen(client, "connect", deliver as () => void);
        case "ready":
          return listen(client, "ready", deliver as () => void);
        case "end": {
          // A client that gives up says so in no other way.
          const onError = (): void => {
            if (!client.isOpen) (deliver as () => void)();
          };
          const stops = [listen(client, "end", deliver as () => void), listen(client, "error", onError)];
          return () => {
            for (const stop of stops) stop();
          };
        }
        default:
          return () => undefined;
      }
    });
  }

  get status(): ClientStatus {
    return statusOf(this.#client);
  }

  get place(): string {
    return placeOf(this.#client);
  }

  send(commands: readonly Command[]): Promise<readonly unknown[]> {
    return sendTo(this.#client, commands);
  }

  async sendMoved(command: Command): Promise<unknown> {
    return (await this.send([command]))[0];
  }

  mget(keys: readonly string[]): Promise<unknown> {
    return mgetFrom(this.#client, keys);
  }

  ask(_node: string, command: Command): Promise<unknown> {
    return this.#client.sendCommand(argsOf(command), optionsFor(this.#client));
  }

  bytesReceivedFrom(): undefined {
    return undefined;
  }

  openSubscriber(events: ConnectionEvents, onMessage: OnMessage): SubscriberConnection {
    return openSubscriberOf(this.#client, events, onMessage);
  }

  openWriter(events: ConnectionEvents): WriterConnection {
    return openWriterOf(this.#client, events);
  }
}

/** Opens a connection for writes to the server of a client. */
export function openWriterOf(client: NodeRedisServer, events: ConnectionEvents): WriterConnection {
  const { connection, close } = duplicate(client, events);
  return { port: new NodeRedisPort(connection), close };
}

/** Returns what a client of one server is doing. */
export function statusOf({ isOpen, isReady, socketEpoch }: NodeRedisServer): ClientStatus {
  if (isReady) return "ready";
  if (!isOpen) return "end";
  return socketEpoch === 0 ? "connecting" : "reconnecting";
}

interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
}

/** Adds a listener to a client. Returns a function that removes it. */
export function listen(client: object, event: string, listener: (...args: never[]) => void): () => void {
  const emitter = client as Emitter;
  emitter.on(event, listener);
  return () => emitter.off(event, listener);
}
