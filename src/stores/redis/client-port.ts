import { randomInt } from "node:crypto";
import { EventEmitter } from "node:events";
import type { Cancel } from "../../core/base/clock.js";
import { getOrMake } from "../../core/base/multimap.js";
import type { ScriptArgument } from "./define-script.js";

/** What the store asks of a client. All strings in replies are buffers. */
export interface ClientPort {
  /**
   * What the client is doing, in the words of ioredis. `wait`: nothing, until its first command
   * connects it. `end`: it was closed, or has given up. Only `ready` means that it is connected.
   */
  status(): string;
  /** What commands wait for, see `firstConnection`. Undefined: none was sent yet. */
  opened?: Promise<void>;
  /** Has a client connect that would wait for its first command. */
  connect?(): void;
  place(): string;
  readonly events: ClientEvents;
  /** Undefined: the client has one server, whose name as a node is empty. */
  readonly cluster?: ClusterNodes | undefined;
  /** Sends to the server of the first key, in one round trip. Resolves to replies or Errors. */
  send(commands: readonly Command[]): Promise<readonly unknown[]>;
  /** Sends a command whose slot has moved. Rejects if it fails. Default: as any other. */
  sendMoved?(command: Command): Promise<unknown>;
  /** Sends one MGET, what every hit waits for. Rejects if it fails. */
  mget(keys: readonly string[]): Promise<unknown>;
  /** On the present connection. Undefined if the client does not say. */
  bytesReceivedFrom?(node: string): number | undefined;
  /**
   * Opens a connection for messages, with the options that the client has now. `attempt`: since the
   * last one that could be used. Undefined: there is no server to connect to yet.
   */
  openSubscriber(onEvent: OnConnectionEvent, onMessage: OnMessage, attempt: number): SubscriberConnection | undefined;
}

/** The first key is the first argument, of EVAL and EVALSHA the third. */
export interface Command {
  readonly name: string;
  readonly args: readonly ScriptArgument[];
}

/** The masters of a Cluster, by address. */
export interface ClusterNodes {
  masterOf(slot: number): string | undefined;
  isConnectedTo(node: string): boolean;
}

/** Called after the connection was returned. `end` may come twice, and follows a fatal `error`. */
export type OnConnectionEvent = (name: "connect" | "ready" | "error" | "end", error?: unknown) => void;

export type OnMessage = (channel: string, message: Buffer) => void;

/** A connection for messages, which a store opens besides its client. */
export interface SubscriberConnection {
  close(): void;
  /** Rejects with the reply of a server that refuses. May be called again for the same channel. */
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Resolves when the server has replied to anything. Undefined: `subscribe` asks it each time. */
  ping?(): Promise<unknown>;
}

export interface ClientEvent {
  error: [error: Error];
  /** It begins to connect, for the first time or again. */
  connecting: [];
  ready: [];
  /** It has no connection any more, or could not get one. It may try again. */
  closed: [];
  /** It was closed, or has given up. */
  end: [];
  /** A node of a Cluster cannot be reached. */
  nodeError: [error: Error, node: string];
}

/** Has the client deliver an event, until what it returns is called. */
export type StartEvent = (event: keyof ClientEvent, deliver: (...event: unknown[]) => void) => Cancel;

/** One listener on the client for each event: its EventEmitter warns about more than ten. */
export class ClientEvents {
  readonly #emitter = new EventEmitter().setMaxListeners(0);
  readonly #stops = new Map<keyof ClientEvent, Cancel>();

  constructor(private readonly start: StartEvent) {}

  /** `listener` must not listen already. */
  listen<Event extends keyof ClientEvent>(event: Event, listener: (...event: ClientEvent[Event]) => void): Cancel {
    getOrMake(this.#stops, event, () =>
      this.start(event, (...args) => this.emit(event, ...(args as ClientEvent[Event]))),
    );
    this.#emitter.on(event, listener as () => void);
    return () => {
      this.#emitter.off(event, listener as () => void);
      if (this.#emitter.listenerCount(event) > 0) return;
      this.#stops.get(event)?.();
      this.#stops.delete(event);
    };
  }

  emit<Event extends keyof ClientEvent>(event: Event, ...args: ClientEvent[Event]): void {
    // Nobody has to listen for errors.
    if (this.#stops.has(event)) this.#emitter.emit(event, ...args);
  }
}

export function listen(client: object, event: string, listener: (...args: never[]) => void): Cancel {
  const emitter = client as EventEmitter;
  emitter.on(event, listener as () => void);
  return () => emitter.off(event, listener as () => void);
}

export const anyOf = <Item>(items: readonly Item[]): Item | undefined => items[randomInt(Math.max(1, items.length))];

/** A client that `redisStore` takes. Nothing is imported from any of them, not even types. */
export type RedisClient = IoredisClient | NodeRedisClient;

/**
 * The part of a client of ioredis 5.4 or newer, ioredis 6 and iovalkey that the store uses:
 * standalone, behind Sentinel and as a Cluster.
 */
export interface IoredisClient {
  readonly options: object;
  readonly status: string;
  /** The present connection, once there is one. */
  readonly stream?: { readonly bytesRead: number } | undefined;
  pipeline(): RedisPipeline;
  callBuffer(command: string, ...args: (string | Buffer | number)[]): Promise<unknown>;
  mgetBuffer(...keys: string[]): Promise<unknown>;
  /** Called if it has `lazyConnect`. */
  connect?(): Promise<unknown>;
  duplicate(...args: never[]): unknown;
  on(event: IoredisEvent, listener: (error: Error) => void): unknown;
  off(event: IoredisEvent, listener: (error: Error) => void): unknown;
}

/** The events of ioredis that the store listens to. Only Cluster clients emit `node error`. */
export type IoredisEvent = "error" | "connecting" | "ready" | "close" | "end" | "node error";

/** Commands that are sent together. Replies are raw bytes. */
export interface RedisPipeline {
  callBuffer(command: string, args: (string | Buffer | number)[]): RedisPipeline;
  exec(): Promise<[error: Error | null, reply: unknown][] | null>;
}

/**
 * What the clients of node-redis (the packages `redis` and `@redis/client`) 5 or newer have in
 * common: those of `createClient`, `createCluster` and `createSentinel`.
 */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  withTypeMapping(...args: never[]): unknown;
  sendCommand(...args: never[]): Promise<unknown>;
}
