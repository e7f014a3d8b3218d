import type { Cancel } from "../../core/base/clock.js";
import { asError } from "../../core/store/answers.js";
import { anyOf, ClientEvents, type ClientPort, type Command, listen, type NodeRedisClient } from "./client-port.js";
import { slotOfKey } from "./pipeline.js";
import { isMissingRight } from "./replies.js";

/** Returns the port of a client of `createClient`, `createCluster` or `createSentinel`. */
export function nodeRedisPort(client: NodeRedisClient): ClientPort {
  const { serverFor, original, ...kind } = kindOf(client);
  return {
    ...kind,
    async send(commands) {
      try {
        const server = await serverFor(firstKeyOf(commands));
        return await Promise.all(commands.map((command) => sendTo(server, command).catch(asError)));
      } catch (error) {
        return commands.map(() => asError(error));
      }
    },
    mget: async (keys) => sendTo(await serverFor(keys[0]), { name: "MGET", args: keys }),
    openSubscriber(onEvent, onMessage) {
      const server = original();
      if (server === undefined) return undefined;
      // Closing does not end a socket that is still being opened: it would become ready, and stay.
      const closing = new AbortController();
      const socket = { ...server.options?.socket, ...OWN_SOCKET, signal: closing.signal };
      const connection = server.duplicate({ ...OWN_OPTIONS, socket });
      for (const event of ["connect", "ready", "end"] as const) connection.on(event, () => onEvent(event));
      connection.on("error", (error) => {
        onEvent("error", error);
        // A connection that ends without being closed says so in no other way.
        if (!connection.isOpen) onEvent("end");
      });
      connection.connect().catch((error: unknown) => {
        onEvent("error", asError(error));
        onEvent("end");
      });
      const listener: MessageListener = (message, channel) => onMessage(channel.toString(), message);
      return {
        subscribe: (channel) => connection.subscribe(channel, listener, true),
        unsubscribe: (channel) => connection.unsubscribe(channel, listener, true),
        // Nothing is sent for a channel that is subscribed. A refusal is a reply as well.
        ping: () => connection.sendCommand(["PING"], {}).catch(ignoreMissingRight),
        close() {
          // node-redis 5 throws if it has ended, and some clients do so later.
          new Promise((resolve) => resolve(connection.destroy())).catch(() => undefined);
          closing.abort();
        },
      };
    },
  };
}

interface NodeRedisKind extends Pick<ClientPort, "status" | "connect" | "place" | "events" | "cluster" | "sendMoved"> {
  /** Returns the client of the server that a key is on; without a key, of any. */
  readonly serverFor: (key: string | undefined) => NodeRedisServer | Promise<NodeRedisServer>;
  /** Returns what connections for messages are duplicated from, if there is a server yet. */
  readonly original: () => NodeRedisServer | undefined;
}

function kindOf(client: unknown): NodeRedisKind {
  const kind = client as object;
  if ("nodeClient" in kind) return clusterKind(client as NodeRedisCluster);
  return "getSentinelNode" in kind ? sentinelKind(client as NodeRedisSentinel) : serverKind(client as NodeRedisServer);
}

function serverKind(client: NodeRedisServer): NodeRedisKind {
  const names = { error: "error", connecting: "connect", ready: "ready", closed: "end", end: "end" } as const;
  return {
    place() {
      const { path, host = "localhost", port = 6_379 } = client.options?.socket ?? {};
      return path ?? `${host}:${port}`;
    },
    status() {
      if (client.isReady) return "ready";
      if (!client.isOpen) return "end";
      return client.socketEpoch === 0 ? "connecting" : "reconnecting";
    },
    events: new ClientEvents((event, deliver) => {
      if (event === "nodeError") return () => undefined;
      const stop = listen(client, names[event], deliver);
      // A client that gives up says so in no other way.
      const onError = (): void => void (client.isOpen || deliver());
      return event === "end" ? both(stop, listen(client, "error", onError)) : stop;
    }),
    serverFor: () => client,
    original: () => client,
  };
}

function clusterKind(client: NodeRedisCluster): NodeRedisKind {
  const names = {
    ...{ error: "error", connecting: "node-connect", ready: "node-ready" },
    ...{ closed: "disconnect", end: "disconnect" },
  } as const;
  return {
    place: () => "the Cluster",
    status() {
      if (!client.isOpen) return "end";
      return client.masters.length > 0 ? "ready" : "connecting";
    },
    events: new ClientEvents((event, deliver) => {
      if (event === "nodeError")
        return listen(client, "node-error", (error: Error, { host, port }: { host: string; port: number }) =>
          deliver(error, `${host}:${port}`),
        );
      const stop = listen(client, names[event], deliver);
      // With `minimizeConnections`, it has no connections to nodes then.
      return event === "ready" ? both(stop, listen(client, "connect", deliver)) : stop;
    }),
    cluster: {
      masterOf: (slot) => client.slots[slot]?.master.address,
      isConnectedTo: (node) => client.masters.find(({ address }) => address === node)?.client?.isReady === true,
    },
    serverFor(key) {
      const master = key === undefined ? anyOf(client.masters) : client.slots[slotOfKey(key)]?.master;
      if (master === undefined) throw new Error("the client has no connection to this node");
      return client.nodeClient(master);
    },
    original: () => anyOf(client.masters)?.client,
    // The Cluster client follows the redirection, and learns from it.
    sendMoved: (command) => client.sendCommand(firstKeyOf([command]) ?? "", false, argsOf(command), COMMAND_OPTIONS),
  };
}

const both = (one: Cancel, other: Cancel) => (): void => {
  one();
  other();
};

/** Uses the master's client: commands would wait for each other's lease of it by the Sentinel's. */
function sentinelKind(sentinel: NodeRedisSentinel): NodeRedisKind {
  let master: NodeRedisServer | undefined;
  let finding: Promise<NodeRedisServer> | undefined;
  let stops: readonly Cancel[] = [];
  const events = new ClientEvents((event, deliver) =>
    event === "error" ? listen(sentinel, "error", deliver) : () => undefined,
  );

  function use(found: NodeRedisServer): NodeRedisServer {
    if (master === found) return found;
    for (const stop of stops) stop();
    master = found;
    stops = [
      listen(found, "error", (error: Error) => events.emit("error", error)),
      listen(found, "connect", () => events.emit("connecting")),
      listen(found, "ready", () => events.emit("ready")),
      // The Sentinel client has closed it: there is another master, or it was closed itself.
      listen(found, "end", () => {
        events.emit("end");
        find().catch(() => undefined);
      }),
    ];
    events.emit("connecting");
    events.emit("ready");
    return found;
  }

  function find(): Promise<NodeRedisServer> {
    if (!sentinel.isOpen) return Promise.reject(new Error("the client is closed"));
    // In an object, since a client that were thenable would be awaited.
    finding ??= sentinel
      ._execute(false, async (found) => ({ found }))
      .then(({ found }) => use(found))
      .finally(() => {
        finding = undefined;
      });
    return finding;
  }

  const readyMaster = (): NodeRedisServer | undefined => (master?.isReady === true ? master : undefined);
  // What waits for the first connection learns of it in no other way.
  const connect = (): void => void find().catch((error: unknown) => events.emit("error", asError(error)));
  connect();
  return {
    connect,
    place: () => "the master of Sentinel",
    status() {
      if (!sentinel.isOpen) return "end";
      // It was opened again after it had given up.
      if (master === undefined) return finding === undefined ? "wait" : "connecting";
      return master.isReady ? "ready" : "reconnecting";
    },
    events,
    serverFor: () => readyMaster() ?? find(),
    original: readyMaster,
  };
}

/** node-redis writes all commands of a turn of the event loop at once: they need no pipeline. */
const sendTo = (server: NodeRedisServer, command: Command): Promise<unknown> =>
  server.sendCommand(argsOf(command), server.isReady ? READY_OPTIONS : COMMAND_OPTIONS);

const argsOf = ({ name, args }: Command): (string | Buffer)[] => [
  name,
  ...args.map((arg) => (typeof arg === "number" ? String(arg) : arg)),
];

function firstKeyOf(commands: readonly Command[]): string | undefined {
  for (const { name, args } of commands) {
    const key = args[name.startsWith("EVAL") ? 2 : 0];
    if (typeof key === "string") return key;
  }
  return undefined;
}

function ignoreMissingRight(error: unknown): void {
  if (!isMissingRight(error)) throw error;
}

/** Simple, blob and verbatim strings of RESP, by the byte with which they begin. */
const BUFFERS = Object.fromEntries(["+", "$", "="].map((type) => [type.charCodeAt(0), Buffer]));
/** In the place of the command options of the client, except its time limit and its signal. */
const COMMAND_OPTIONS = { typeMapping: BUFFERS, asap: false } as const;
/** The time limit of the client is for commands that wait for a connection, and costs as much. */
const READY_OPTIONS = { ...COMMAND_OPTIONS, timeout: undefined } as const;

/** Of connections that a store opens for itself. They do not reconnect, and have no cache. */
const OWN_OPTIONS = {
  disableOfflineQueue: false,
  commandsQueueMaxLength: undefined,
  commandOptions: undefined,
  clientSideCache: undefined,
  emitInvalidate: false,
  pingInterval: undefined,
} as const;
const OWN_SOCKET = { reconnectStrategy: false, socketTimeout: undefined } as const;

/** A client of one server: that of `createClient`, or of a node of a Cluster or Sentinel. */
interface NodeRedisServer {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly socketEpoch: number;
  readonly options?: NodeRedisOptions | undefined;
  sendCommand(args: readonly (string | Buffer)[], options: object): Promise<unknown>;
  subscribe(channel: string, listener: MessageListener, isBuffer: true): Promise<unknown>;
  unsubscribe(channel: string, listener: MessageListener, isBuffer: true): Promise<unknown>;
  duplicate(options: object): NodeRedisServer;
  connect(): Promise<unknown>;
  destroy(): unknown;
  on(event: string, listener: (error: Error) => void): unknown;
}

type MessageListener = (message: Buffer, channel: Buffer) => void;

export interface NodeRedisOptions {
  readonly socket?: { readonly host?: string; readonly port?: number; readonly path?: string } | undefined;
  readonly readonly?: boolean | undefined;
}

interface NodeRedisCluster {
  readonly isOpen: boolean;
  readonly slots: readonly ({ readonly master: Node } | undefined)[];
  readonly masters: readonly Node[];
  nodeClient(node: Node): NodeRedisServer | Promise<NodeRedisServer>;
  sendCommand(key: string, isReadonly: false, args: readonly (string | Buffer)[], options: object): Promise<unknown>;
}

interface Node {
  readonly address: string;
  readonly client?: NodeRedisServer | undefined;
}

interface NodeRedisSentinel {
  readonly isOpen: boolean;
  /** Calls a function with the client of the master, once there is one. */
  _execute<Result>(isReadonly: false, use: (master: NodeRedisServer) => Promise<Result>): Promise<Result>;
}
