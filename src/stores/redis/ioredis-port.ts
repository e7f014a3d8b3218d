import { asError } from "../../core/store/answers.js";
import {
  anyOf,
  type ClientEvent,
  ClientEvents,
  type ClientPort,
  type Command,
  type IoredisClient,
  type IoredisEvent,
  listen,
} from "./client-port.js";
import type { ScriptArgument } from "./define-script.js";

export function ioredisPort(client: IoredisClient): ClientPort {
  const cluster = isCluster(client) ? client : undefined;
  // ioredis loses the name of a command in `callBuffer` then: only pipelines can be used.
  const isAutoPipelined =
    (client.options as { enableAutoPipelining?: boolean } | undefined)?.enableAutoPipelining === true;

  async function send(commands: readonly Command[]): Promise<readonly unknown[]> {
    const [only] = commands;
    // A single command costs less outside a pipeline.
    if (only !== undefined && commands.length === 1 && !isAutoPipelined)
      return [await client.callBuffer(nameOf(only), ...only.args).catch(asError)];
    const pipeline = client.pipeline();
    for (const command of commands) pipeline.callBuffer(nameOf(command), command.args as ScriptArgument[]);
    try {
      const replies = await pipeline.exec();
      return commands.map((_, index) => {
        const [error, reply] = replies?.[index] ?? [new Error(NO_REPLY)];
        return error ?? reply;
      });
    } catch (error) {
      return commands.map(() => asError(error));
    }
  }

  return {
    status: () => client.status,
    connect: () => void client.connect?.().catch(() => undefined),
    place() {
      if (cluster !== undefined) return "the Cluster";
      const { path, sentinels, name } = client.options as { path?: string; sentinels?: unknown; name?: string };
      return path ?? (sentinels ? `the master ${name} of Sentinel` : addressOf(client));
    },
    events: new ClientEvents((event, deliver) => listen(client, NAMES.get(event) ?? event, deliver)),
    cluster: cluster && {
      masterOf: (slot) => cluster.slots[slot]?.[0],
      isConnectedTo: (node) => nodeAt(cluster, node)?.status === "ready",
    },
    send,
    mget: (keys) => (isAutoPipelined ? send([{ name: "MGET", args: keys }]).then(onlyOf) : client.mgetBuffer(...keys)),
    bytesReceivedFrom: (node) => (cluster === undefined ? client : nodeAt(cluster, node))?.stream?.bytesRead,
    openSubscriber(onEvent, onMessage, attempt) {
      const server = cluster === undefined ? client : anyOf(cluster.nodes("master"));
      if (server === undefined) return undefined;
      const options = { ...OWN_OPTIONS, ...(cluster && credentialsOf(cluster, attempt)) };
      const connection = server.duplicate(...([options] as never[])) as IoredisDuplicate;
      for (const event of ["connect", "ready", "error", "end"] as const)
        connection.on(event, (error) => onEvent(event, error));
      connection.on("messageBuffer", (channel, message) => onMessage(channel.toString(), message));
      return {
        subscribe: (channel) => connection.subscribe(channel),
        unsubscribe: (channel) => connection.unsubscribe(channel),
        close: () => connection.disconnect(),
      };
    },
  };
}

/** Of the events that ioredis calls otherwise. */
const NAMES = new Map<keyof ClientEvent, IoredisEvent>([
  ["nodeError", "node error"],
  ["closed", "close"],
]);

const NO_REPLY = "expected a reply to each command of the pipeline, got none from the client";

/** ioredis before 5.9, and iovalkey, find the keys of a command only by its name in lower case. */
const nameOf = ({ name }: Command): string => name.toLowerCase();

function onlyOf([reply]: readonly unknown[]): unknown {
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

/** Returns the client of a master, which the Cluster client may have replaced since. */
const nodeAt = (cluster: IoredisCluster, address: string): IoredisClient | undefined =>
  cluster.nodes("master").find((master) => addressOf(master) === address);

function addressOf({ options }: IoredisClient): string {
  const { host, port } = options as { readonly host?: string; readonly port?: number };
  return `${host}:${port}`;
}

/** Never reconnects, which would use old credentials, and has no options that change replies. */
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
  // Its commands would lose their names.
  enableAutoPipelining: false,
  stringNumbers: false,
  replyMapping: "legacy",
  commandTimeout: undefined,
  socketTimeout: undefined,
  blockingTimeout: undefined,
  himportFieldsets: undefined,
} as const;

/** A Cluster keeps replaced credentials in its nodes' options or its own: attempts alternate. */
function credentialsOf({ options }: IoredisCluster, attempt: number): object {
  const { redisOptions = {} } = options as { redisOptions?: { username?: string; password?: string } };
  const { username, password } = redisOptions;
  return attempt % 2 === 0 || password === undefined ? {} : { username, password };
}
