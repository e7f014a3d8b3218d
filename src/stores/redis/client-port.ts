import type { ClientEvents } from "./client-events.js";
import type { ScriptArgument } from "./define-script.js";

/**
 * What the store asks of a client. There is one implementation for ioredis and iovalkey (`ioredis-port.ts`), and those for
 * node-redis (`node-redis-port.ts`, `node-redis-cluster.ts`, `node-redis-sentinel.ts`). All strings in replies are buffers.
 */
export interface ClientPort {
  readonly status: ClientStatus;
  /** What the client connects to, for messages. */
  readonly place: string;
  readonly events: ClientEvents;
  /** The nodes of a Cluster. Undefined: the client has one server, whose name as a node is empty. */
  readonly cluster: ClusterNodes | undefined;
  /**
   * Sends commands to one server in one round trip: that which serves the first key among them. Resolves with a reply to each
   * command, in their order, and with an Error for each that failed. Never rejects.
   */
  send(commands: readonly Command[]): Promise<readonly unknown[]>;
  /**
   * Sends a command whose slot has moved, wherever that is now. Resolves with the reply or an Error. Never rejects.
   */
  sendMoved(command: Command): Promise<unknown>;
  /** Sends one MGET, what every hit waits for. Rejects if it fails. */
  mget(keys: readonly string[]): Promise<unknown>;
  /** Sends a command that has no key to a node. Rejects if it fails. */
  ask(node: string, command: Command): Promise<unknown>;
  /** Returns how many bytes have arrived from a node on its present connection. Undefined if the client does not say. */
  bytesReceivedFrom(node: string): number | undefined;
  /**
   * Opens a connection for messages, with the options that the client has now. `attempt`: since the last one that could be
   * used. Undefined: there is no server to connect to yet.
   */
  openSubscriber(events: ConnectionEvents, onMessage: OnMessage, attempt: number): SubscriberConnection | undefined;
  /** Opens a connection for writes, with the options that the client has now. Undefined: there is no server to connect to yet. */
  openWriter(events: ConnectionEvents): WriterConnection | undefined;
}

/**
 * What a client is doing. `wait`: nothing, until its first command connects it. `end`: it was closed, or has given up. Any
 * but `ready` means that it is not connected.
 */
export type ClientStatus =
  | "wait"
  | "connecting"
  | "connect"
  | "ready"
  | "close"
  | "reconnecting"
  | "disconnecting"
  | "end";

/** One command. Its first key is its first argument, that of EVAL and EVALSHA the third. */
export interface Command {
  readonly name: string;
  readonly args: readonly ScriptArgument[];
}

/** The masters of a Cluster, by address. */
export interface ClusterNodes {
  /** Returns all of them. Empty until the client knows them. */
  masters(): readonly string[];
  /** Returns that of a slot. Undefined if the client does not know it yet. */
  masterOf(slot: number): string | undefined;
  /** Returns whether the client is connected to one. */
  isConnectedTo(node: string): boolean;
}

/** Who opens a connection, and learns what becomes of it. Nothing is called before the connection was returned. */
export interface ConnectionEvents {
  /** The server has accepted it. */
  onConnect(): void;
  /** It can be used. */
  onReady(): void;
  /** `onEnd` follows if the connection has ended. */
  onError(error: Error): void;
  /** A node of a Cluster cannot be reached. The connection lasts. */
  onNodeError(error: Error): void;
  onEnd(): void;
}

export type OnMessage = (channel: string, message: Buffer) => void;

/** A connection that a store opens besides its client. */
export interface OwnConnectionPort {
  close(): void;
}

/** A connection for messages. */
export interface SubscriberConnection extends OwnConnectionPort {
  /** Rejects with what the server replies if it refuses. May be called again for a channel that is subscribed. */
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Resolves when the server has replied to anything. Undefined: `subscribe` asks it each time. */
  ping?(): Promise<unknown>;
}

/** A connection for writes. */
export interface WriterConnection extends OwnConnectionPort {
  readonly port: ClientPort;
}
