import type { Cancel } from "../../core/base/clock.js";
import { asError } from "../../core/store/answers.js";
import type { Command, ConnectionEvents, OnMessage, SubscriberConnection } from "./client-port.js";
import type { ScriptArgument } from "./define-script.js";
import { isMissingRight } from "./replies.js";

/** Sends one command. node-redis writes all commands of a turn of the event loop at once, so they need no pipeline. */
export const sendTo = (server: NodeRedisServer, command: Command): Promise<unknown> =>
  server.sendCommand(argsOf(command), server.isReady ? READY_OPTIONS : COMMAND_OPTIONS);

/** What the store uses of a node-redis client of one server: that of `createClient`, or of a node of a Cluster or Sentinel. */
export interface NodeRedisServer {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly socketEpoch: number;
  readonly options?: ServerOptions | undefined;
  sendCommand(args: readonly (string | Buffer)[], options: object): Promise<unknown>;
  subscribe(channel: string, listener: MessageListener, isBuffer: true): Promise<unknown>;
  unsubscribe(channel: string, listener: MessageListener, isBuffer: true): Promise<unknown>;
  duplicate(options: object): NodeRedisServer;
  connect(): Promise<unknown>;
  destroy(): unknown;
  on(event: string, listener: (error: Error) => void): unknown;
  off(event: string, listener: (error: Error) => void): unknown;
}

type MessageListener = (message: Buffer, channel: Buffer) => void;

export interface ServerOptions {
  readonly socket?: { readonly host?: string; readonly port?: number; readonly path?: string } | undefined;
  readonly keyPrefix?: string | undefined;
  readonly readonly?: boolean | undefined;
}

/** The types of RESP whose values are to be buffers: simple, blob and verbatim strings. Their keys are the bytes with which they begin. */
const BUFFERS = Object.fromEntries(["+", "$", "="].map((type) => [type.charCodeAt(0), Buffer]));
/** In the place of the command options of the client, except its time limit and its signal. */
export const COMMAND_OPTIONS = { typeMapping: BUFFERS, asap: false } as const;
/** While the client is connected. The time limit of the client is for commands that wait until it is, and costs as much as they do. */
const READY_OPTIONS = { ...COMMAND_OPTIONS, timeout: undefined } as const;

export const argsOf = ({ name, args }: Command): (string | Buffer)[] => [
  name,
  ...args.map((arg: ScriptArgument) => (typeof arg === "number" ? String(arg) : arg)),
];

/** They do not reconnect, since their owner has to know when one has ended, and have no client-side cache of their own. */
const OWN_OPTIONS = {
  disableOfflineQueue: false,
  commandsQueueMaxLength: undefined,
  commandOptions: undefined,
  clientSideCache: undefined,
  emitInvalidate: false,
  pingInterval: undefined,
} as const;
const OWN_SOCKET = { reconnectStrategy: false, socketTimeout: undefined } as const;

/** Opens a connection to the server of a client, with the options that the client has now. */
export function duplicate(client: NodeRedisServer, events: ConnectionEvents): NodeRedisDuplicate {
  // Closing a client of node-redis does not end a socket that is still being opened: it would become ready, and stay.
  const closing = new AbortController();
  const socket = { ...client.options?.socket, ...OWN_SOCKET, signal: closing.signal };
  const connection = client.duplicate({ ...OWN_OPTIONS, socket });
  connection.on("connect", () => events.onConnect());
  connection.on("ready", () => events.onReady());
  connection.on("error", (error) => {
    events.onError(error);
    // A connection that ends without being closed says so in no other way.
    if (!connection.isOpen) events.onEnd();
  });
  connection.on("end", () => events.onEnd());
  connection.connect().catch((error: unknown) => {
    events.onError(asError(error));
    events.onEnd();
  });
  const close = (): void => {
    destroyQuietly(connection);
    closing.abort();
  };
  return { connection, close };
}

interface NodeRedisDuplicate {
  readonly connection: NodeRedisServer;
  close(): void;
}

/** Closes a client, whether or not it has ended: node-redis 5 throws if it has, and some clients do so later. */
function destroyQuietly(client: { destroy(): unknown }): void {
  new Promise((resolve) => resolve(client.destroy())).catch(() => undefined);
}

export function openSubscriberOf(
  client: NodeRedisServer,
  events: ConnectionEvents,
  onMessage: OnMessage,
): SubscriberConnection {
  const { connection, close } = duplicate(client, events);
  const listener: MessageListener = (message, channel) => onMessage(channel.toString(), message);
  return {
    subscribe: (channel) => connection.subscribe(channel, listener, true),
    unsubscribe: (channel) => connection.unsubscribe(channel, listener, true),
    // Nothing is sent for a channel that is subscribed. A refusal is a reply as well.
    ping: () => connection.sendCommand(["PING"], {}).catch(ignoreMissingRight),
    close,
  };
}

function ignoreMissingRight(error: unknown): void {
  if (!isMissingRight(error)) throw error;
}

interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
}

export function listen(client: object, event: string, listener: (...args: never[]) => void): Cancel {
  const emitter = client as Emitter;
  emitter.on(event, listener);
  return () => emitter.off(event, listener);
}
