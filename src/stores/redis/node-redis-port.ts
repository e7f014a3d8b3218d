import { randomInt } from "node:crypto";
import type { Cancel } from "../../core/base/clock.js";
import { asError } from "../../core/store/answers.js";
import { ClientEvents, type ClientPort, type ClientStatus, type ClusterNodes, type Command } from "./client-port.js";
import {
  argsOf,
  COMMAND_OPTIONS,
  listen,
  type NodeRedisServer,
  openSubscriberOf,
  sendTo,
} from "./node-redis-connection.js";
import { slotOfKey } from "./pipeline.js";

/** Returns the port of a client of node-redis. */
function portOf(kind: NodeRedisKind): ClientPort {
  const { serverFor, original } = kind;
  const send = async (commands: readonly Command[]): Promise<readonly unknown[]> => {
    try {
      const server = await serverFor(firstKeyOf(commands));
      return await Promise.all(commands.map((command) => sendTo(server, command).catch(asError)));
    } catch (error) {
      return commands.map(() => asError(error));
    }
  };
  return {
    events: kind.events,
    cluster: kind.cluster,
    get status() {
      return kind.status();
    },
    get place() {
      return kind.place();
    },
    send,
    sendMoved: kind.sendMoved ?? (async (command) => (await send([command]))[0]),
    mget: async (keys) => sendTo(await serverFor(keys[0]), { name: "MGET", args: keys }),
    bytesReceivedFrom: () => undefined,
    openSubscriber(events, onMessage) {
      const client = original();
      return client && openSubscriberOf(client, events, onMessage);
    },
  };
}

export interface NodeRedisCluster {
  readonly isOpen: boolean;
  readonly slots: readonly ({ readonly master: Node } | undefined)[];
  readonly masters: readonly Node[];
  nodeClient(node: Node): NodeRedisServer | Promise<NodeRedisServer>;
  sendCommand(
    firstKey: string,
    isReadonly: false,
    args: readonly (string | Buffer)[],
    options: object,
  ): Promise<unknown>;
  duplicate(): NodeRedisCluster;
  connect(): Promise<unknown>;
  destroy(): unknown;
}

interface Node {
  readonly address: string;
  readonly client?: NodeRedisServer | undefined;
}

export interface NodeRedisSentinel {
  readonly isOpen: boolean;
  /** Calls a function with the client of the master, once there is one. */
  _execute<Result>(isReadonly: false, use: (master: NodeRedisServer) => Promise<Result>): Promise<Result>;
}

/** What differs between the clients of node-redis: which client of one server is used. */
interface NodeRedisKind {
  readonly place: () => string;
  readonly status: () => ClientStatus;
  readonly events: ClientEvents;
  readonly cluster?: ClusterNodes;
  /** Returns the client of the server that a key is on; without a key, of any. */
  readonly serverFor: (key: string | undefined) => NodeRedisServer | Promise<NodeRedisServer>;
  /** Returns what connections for messages are duplicated from. Undefined: there is no server to connect to yet. */
  readonly original: () => NodeRedisServer | undefined;
  readonly sendMoved?: (command: Command) => Promise<unknown>;
}

/** For a client of one server: that of `createClient`. */
export function serverPort(client: NodeRedisServer): ClientPort {
  const names = { error: "error", connecting: "connect", ready: "ready", end: "end" } as const;
  return portOf({
    place: () => {
      const { path, host = "localhost", port = 6_379 } = client.options?.socket ?? {};
      return path ?? `${host}:${port}`;
    },
    status: () => {
      if (client.isReady) return "ready";
      if (!client.isOpen) return "end";
      return client.socketEpoch === 0 ? "connecting" : "reconnecting";
    },
    events: new ClientEvents((event, deliver) => {
      if (event === "nodeError") return () => undefined;
      const stop = listen(client, names[event], deliver);
      if (event !== "end") return stop;
      // A client that gives up says so in no other way.
      const stopErrors = listen(client, "error", () => {
        if (!client.isOpen) deliver();
      });
      return () => {
        stop();
        stopErrors();
      };
    }),
    serverFor: () => client,
    original: () => client,
  });
}

/**
 * For a client of a Cluster: that of `createCluster`. `connecting`: what commands wait for until it knows the nodes.
 * Undefined: they fail until then.
 */
export function clusterPort(client: NodeRedisCluster, connecting?: Promise<unknown>): ClientPort {
  const nodeAt = (address: string): Node | undefined => client.masters.find((master) => master.address === address);
  const anyMaster = (): Node | undefined => client.masters[randomInt(Math.max(1, client.masters.length))];
  const status = (): ClientStatus => {
    if (!client.isOpen) return "end";
    return client.masters.length > 0 ? "ready" : "connecting";
  };
  function serverOf(master: Node | undefined): NodeRedisServer | Promise<NodeRedisServer> {
    if (master === undefined) throw new Error("the client has no connection to this node");
    return client.nodeClient(master);
  }
  const names = { error: "error", connecting: "node-connect", ready: "node-ready", end: "disconnect" } as const;
  return portOf({
    place: () => "the Cluster",
    status,
    events: new ClientEvents((event, deliver) => {
      if (event !== "nodeError") return listen(client, names[event], deliver);
      return listen(client, "node-error", (error: Error, { host, port }: Place) => deliver(error, `${host}:${port}`));
    }),
    cluster: {
      masterOf: (slot) => client.slots[slot]?.master.address,
      isConnectedTo: (node) => nodeAt(node)?.client?.isReady === true,
    },
    serverFor: async (key) => {
      if (status() === "connecting") await connecting;
      return serverOf(key === undefined ? anyMaster() : client.slots[slotOfKey(key)]?.master);
    },
    original: () => anyMaster()?.client,
    // The Cluster client follows the redirection, and learns from it.
    sendMoved: (command) =>
      client.sendCommand(firstKeyOf([command]) ?? "", false, argsOf(command), COMMAND_OPTIONS).catch(asError),
  });
}

/**
 * For the master that Sentinel names, of a client of `createSentinel`. The commands go to its client of the master itself.
 * Otherwise the commands of a tick would wait for each other: each takes a lease of that client, of which there is one by default.
 */
export function sentinelPort(sentinel: NodeRedisSentinel): ClientPort {
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
      // The Sentinel client has closed it: there is another master, or it was closed itself, which it says only later.
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
  find().catch(() => undefined);
  return portOf({
    place: () => "the master of Sentinel",
    status: () => {
      if (!sentinel.isOpen) return "end";
      if (master === undefined) return "connecting";
      return master.isReady ? "ready" : "reconnecting";
    },
    events,
    serverFor: () => readyMaster() ?? find(),
    original: readyMaster,
  });
}

interface Place {
  readonly host: string;
  readonly port: number;
}

function firstKeyOf(commands: readonly Command[]): string | undefined {
  for (const { name, args } of commands) {
    const key = args[name.startsWith("EVAL") ? 2 : 0];
    if (typeof key === "string") return key;
  }
  return undefined;
}
