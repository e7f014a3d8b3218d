import { randomInt } from "node:crypto";
import { asError } from "../../core/store/answers.js";
import {
  ClientEvents,
  type ClientPort,
  type ClientStatus,
  type ClusterNodes,
  type Command,
  type ConnectionEvents,
  type IoredisClient,
  type IoredisEvent,
  type OnMessage,
  type SubscriberConnection,
} from "./client-port.js";
import type { ScriptArgument } from "./define-script.js";

export class IoredisPort implements ClientPort {
  readonly events: ClientEvents;
  readonly cluster: ClusterNodes | undefined;
  readonly #client: IoredisClient;
  readonly #isAutoPipelined: boolean;

  constructor(client: IoredisClient) {
    this.#client = client;
    this.#isAutoPipelined = isAutoPipelined(client);
    this.cluster = isCluster(client) ? clusterNodes(client) : undefined;
    this.events = new ClientEvents((event, deliver) => {
      const name: IoredisEvent = event === "nodeError" ? "node error" : event;
      client.on(name, deliver);
      return () => client.off(name, deliver);
    });
  }

  get status(): ClientStatus {
    return this.#client.status as ClientStatus;
  }

  get place(): string {
    if (isCluster(this.#client)) return "the Cluster";
    const { path, sentinels, name } = this.#client.options as { path?: string; sentinels?: unknown; name?: string };
    return path ?? (sentinels ? `the master ${name} of Sentinel` : addressOf(this.#client));
  }

  async send(commands: readonly Command[]): Promise<readonly unknown[]> {
    const [only] = commands;
    if (only !== undefined && commands.length === 1 && !this.#isAutoPipelined) {
      // A single command costs less outside a pipeline.
      return [await this.#client.callBuffer(nameOf(only), ...only.args).catch(asError)];
    }
    const pipeline = this.#client.pipeline();
    for (const command of commands) pipeline.callBuffer(nameOf(command), command.args as ScriptArgument[]);
    try {
      const replies = await pipeline.exec();
      return commands.map((_, index) => {
        const [error, reply] = replies?.[index] ?? [
          new Error("expected a reply to each command of the pipeline, got none from the client"),
          undefined,
        ];
        return error ?? reply;
      });
    } catch (error) {
      return commands.map(() => asError(error));
    }
  }

  /** Unlike with several commands, the client follows a redirection of one. */
  async sendMoved(command: Command): Promise<unknown> {
    return (await this.send([command]))[0];
  }

  mget(keys: readonly string[]): Promise<unknown> {
    return this.#isAutoPipelined ? sendOne(this, { name: "MGET", args: keys }) : this.#client.mgetBuffer(...keys);
  }

  bytesReceivedFrom(node: string): number | undefined {
    const server = this.cluster === undefined ? this.#client : this.#serverOf(node);
    return server?.stream?.bytesRead;
  }

  openSubscriber(events: ConnectionEvents, onMessage: OnMessage, attempt: number): SubscriberConnection | undefined {
    const client = this.#client;
    const connection = isCluster(client) ? duplicateAnyNode(client, attempt) : duplicate(client);
    if (connection === undefined) return undefined;
    tell(connection, events);
    connection.on("messageBuffer", (channel, message) => onMessage(channel.toString(), message));
    return {
      subscribe: (channel) => connection.subscribe(channel),
      unsubscribe: (channel) => connection.unsubscribe(channel),
      close: () => connection.disconnect(),
    };
  }

  #serverOf(node: string): IoredisClient | undefined {
    return isCluster(this.#client) ? nodeAt(this.#client, node) : this.#client;
  }
}

/** ioredis before 5.9, and iovalkey, find the keys of a command by its name in lower case. Without keys, a Cluster client asks any node. */
const nameOf = ({ name }: Command): string => name.toLowerCase();

async function sendOne(port: ClientPort, command: Command): Promise<unknown> {
  const [reply] = await port.send([command]);
  if (reply instanceof Error) throw reply;
  return reply;
}

interface IoredisCluster extends IoredisClient {
  readonly isCluster: true;
  readonly slots: string[][];
  nodes(role: "master" | "all"): IoredisClient[];
}

interface IoredisDuplicate extends IoredisClient {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: "connect" | IoredisEvent, listener: (error: Error) => void): unknown;
  on(event: "messageBuffer", listener: (channel: Buffer, message: Buffer) => void): unknown;
  disconnect(): void;
}

const isCluster = (client: IoredisClient): client is IoredisCluster =>
  (client as { isCluster?: unknown }).isCluster === true;

/**
 * Whether the client sends the calls of a tick in one pipeline. ioredis then loses the name of a command that is passed to
 * `callBuffer`, so that only explicit pipelines can be used.
 */
const isAutoPipelined = ({ options }: IoredisClient): boolean =>
  (options as { readonly enableAutoPipelining?: boolean } | undefined)?.enableAutoPipelining === true;

const clusterNodes = (client: IoredisCluster): ClusterNodes => ({
  masterOf: (slot) => client.slots[slot]?.[0],
  isConnectedTo: (node) => nodeAt(client, node)?.status === "ready",
});

/** Returns the client of a master, which the Cluster client may have replaced since. */
const nodeAt = (cluster: IoredisCluster, address: string): IoredisClient | undefined =>
  cluster.nodes("master").find((master) => addressOf(master) === address);

function addressOf({ options }: IoredisClient): string {
  const { host, port } = options as { readonly host?: string; readonly port?: number };
  return `${host}:${port}`;
}

/**
 * Of connections that a store opens for itself. They never reconnect by themselves, since that would be with the credentials that the client had
 * when they were made, and have no options that change replies.
 */
const OWN_OPTIONS = {
  lazyConnect: false,
  enableOfflineQueue: true,
  enableReadyCheck: false,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: null,
  retryStrategy: null,
  sentinelRetryStrategy: null,
  reconnectOnError: null,
  failoverDetector: false,
  // Its commands would lose their names, see `isAutoPipelined`.
  enableAutoPipelining: false,
  stringNumbers: false,
  replyMapping: "legacy",
  commandTimeout: undefined,
  socketTimeout: undefined,
  blockingTimeout: undefined,
  himportFieldsets: undefined,
} as const;

function tell(connection: IoredisDuplicate, events: ConnectionEvents): void {
  connection.on("error", (error) => events.onError(error));
  connection.on("connect", () => events.onConnect());
  connection.on("ready", () => events.onReady());
  connection.on("end", () => events.onEnd());
}

/** Opens a connection to the server of a client that is no Cluster, with the options that the client has now. */
const duplicate = (client: IoredisClient, options: object = {}): IoredisDuplicate =>
  (client.duplicate as (options: object) => IoredisDuplicate).call(client, { ...OWN_OPTIONS, ...options });

function duplicateAnyNode(cluster: IoredisCluster, attempt: number): IoredisDuplicate | undefined {
  const masters = cluster.nodes("master");
  return masters.length === 0
    ? undefined
    : duplicateNode(cluster, masters[randomInt(masters.length)] as IoredisClient, attempt);
}

/**
 * Opens a connection to a node of a Cluster. Whoever replaces credentials may do so in the options of the nodes, or in those
 * that the Cluster gives to new ones, so attempts use the two in turn.
 */
function duplicateNode(cluster: IoredisCluster, node: IoredisClient, attempt: number): IoredisDuplicate {
  const { redisOptions } = cluster.options as { readonly redisOptions?: Credentials };
  const credentials =
    attempt % 2 === 0 || redisOptions?.password === undefined
      ? {}
      : { username: redisOptions.username, password: redisOptions.password };
  return duplicate(node, credentials);
}

interface Credentials {
  readonly username?: string;
  readonly password?: string;
}
