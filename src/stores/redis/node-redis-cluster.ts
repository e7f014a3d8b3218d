import { randomInt } from "node:crypto";
import { asError } from "../../core/store/answers.js";
import { ClientEvents } from "./client-events.js";
import type {
  ClientPort,
  ClientStatus,
  ClusterNodes,
  Command,
  ConnectionEvents,
  OnMessage,
  SubscriberConnection,
  WriterConnection,
} from "./client-port.js";
import { slotOfKey } from "./key-slot.js";
import {
  argsOf,
  COMMAND_OPTIONS,
  destroyQuietly,
  type NodeRedisServer,
  openSubscriberOf,
  optionsFor,
  sendTo,
} from "./node-redis-connection.js";
import { listen } from "./node-redis-port.js";

/** What the store uses of a client of `createCluster`. */
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

/** A client of node-redis for a Cluster: that of `createCluster`. */
export class NodeRedisClusterPort implements ClientPort {
  readonly place = "the Cluster";
  readonly events: ClientEvents;
  readonly cluster: ClusterNodes;
  readonly #client: NodeRedisCluster;
  readonly #connecting: Promise<unknown> | undefined;

  /** `connecting`: what commands wait for until the client knows the nodes. Undefined: they fail until then. */
  constructor(client: NodeRedisCluster, connecting?: Promise<unknown>) {
    this.#client = client;
    this.#connecting = connecting;
    this.cluster = {
      masters: () => client.masters.map(({ address }) => address),
      masterOf: (slot) => client.slots[slot]?.master.address,
      isConnectedTo: (node) => this.#nodeAt(node)?.client?.isReady === true,
    };
    this.events = new ClientEvents((event, deliver) => {
      const tell = deliver as () => void;
      switch (event) {
        case "error":
          return listen(client, "error", deliver as (error: Error) => void);
        case "connecting":
          return listen(client, "node-connect", () => tell());
        case "ready":
          return listen(client, "node-ready", () => tell());
        case "end":
          return listen(client, "disconnect", tell);
        case "nodeError":
          return listen(client, "node-error", (error: Error, { host, port }: Place) =>
            (deliver as (error: Error, node: string) => void)(error, `${host}:${port}`),
          );
        default:
          return () => undefined;
      }
    });
  }

  get status(): ClientStatus {
    if (!this.#client.isOpen) return "end";
    return this.#client.masters.length > 0 ? "ready" : "connecting";
  }

  async send(commands: readonly Command[]): Promise<readonly unknown[]> {
    const key = firstKeyOf(commands);
    try {
      if (this.status === "connecting") await this.#connecting;
      const master = key === undefined ? this.#anyMaster() : this.#client.slots[slotOfKey(key)]?.master;
      return await sendTo(await this.#serverOf(master), commands);
    } catch (error) {
      return commands.map(() => asError(error));
    }
  }

  /** The Cluster client follows the redirection, and learns from it. */
  async sendMoved(command: Command): Promise<unknown> {
    const key = firstKeyOf([command]) ?? "";
    return this.#client.sendCommand(key, false, argsOf(command), COMMAND_OPTIONS).catch(asError);
  }

  async mget(keys: readonly string[]): Promise<unknown> {
    const [reply] = await this.send([{ name: "MGET", args: keys }]);
    if (reply instanceof Error) throw reply;
    return reply;
  }

  async ask(node: string, command: Command): Promise<unknown> {
    const server = await this.#serverOf(this.#nodeAt(node));
    return server.sendCommand(argsOf(command), optionsFor(server));
  }

  bytesReceivedFrom(): undefined {
    return undefined;
  }

  openSubscriber(events: ConnectionEvents, onMessage: OnMessage): SubscriberConnection | undefined {
    const client = this.#anyMaster()?.client;
    return client === undefined ? undefined : openSubscriberOf(client, events, onMessage);
  }

  /** Its connections to nodes reconnect by themselves, since their options cannot be changed. */
  openWriter(events: ConnectionEvents): WriterConnection {
    const cluster = this.#client.duplicate();
    listen(cluster, "error", (error: Error) => events.onError(error));
    listen(cluster, "node-error", (error: Error) => events.onNodeError(error));
    const connecting = cluster.connect();
    connecting.then(
      () => {
        events.onConnect();
        events.onReady();
      },
      (error: unknown) => {
        events.onError(asError(error));
        events.onEnd();
      },
    );
    return { port: new NodeRedisClusterPort(cluster, connecting), close: () => destroyQuietly(cluster) };
  }

  #serverOf(master: Node | undefined): NodeRedisServer | Promise<NodeRedisServer> {
    if (master === undefined) throw new Error("the client has no connection to this node");
    return this.#client.nodeClient(master);
  }

  #nodeAt(address: string): Node | undefined {
    return this.#client.masters.find((master) => master.address === address);
  }

  #anyMaster(): Node | undefined {
    const { masters } = this.#client;
    return masters[randomInt(Math.max(1, masters.length))];
  }
}

interface Place {
  readonly host: string;
  readonly port: number;
}

/** Returns the first key among commands, see `Command`. */
function firstKeyOf(commands: readonly Command[]): string | undefined {
  for (const { name, args } of commands) {
    const key = args[name.startsWith("EVAL") ? 2 : 0];
    if (typeof key === "string") return key;
  }
  return undefined;
}
