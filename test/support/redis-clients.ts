import type { RedisClient } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster, createSentinel } from "redis";
import type { Address, SentinelGroup } from "./redis-lab.js";

/** A client of a store, of whatever package. It connects by itself. */
export type StoreClient = RedisClient & {
  on(event: "error", listener: (error: Error) => void): unknown;
  disconnect(): unknown;
};

/** Returns whether a client is connected; that of a Cluster by node-redis, to all masters. */
export function isConnected(client: StoreClient): boolean {
  if ("masters" in client) {
    const masters = client.masters as readonly { readonly client?: { readonly isReady: boolean } }[];
    return masters.length > 0 && masters.every((master) => master.client?.isReady === true);
  }
  return "isReady" in client ? client.isReady === true : (client as { status?: unknown }).status === "ready";
}

/** How a test connects with a package. Its clients begin to connect at once, and connect again soon. */
export interface ClientPackage {
  readonly name: string;
  server(address: Address, options?: object): StoreClient;
  /** `options`: those of its nodes. */
  cluster(nodes: readonly Address[], options?: object): StoreClient;
  sentinel(group: Pick<SentinelGroup, "name" | "sentinels">): StoreClient;
}

export const IOREDIS: ClientPackage = {
  name: "ioredis",
  server: ({ host, port }, options = {}) => quiet(new Redis({ host, port, retryStrategy: () => 20, ...options })),
  cluster: (nodes, redisOptions = {}) =>
    quiet(
      new Cluster(
        nodes.map(({ host, port }) => ({ host, port })),
        { redisOptions },
      ),
    ),
  sentinel: ({ name, sentinels }) =>
    quiet(new Redis({ name, sentinels: [...sentinels], retryStrategy: () => 50, sentinelRetryStrategy: () => 50 })),
};

const SOCKET = { reconnectStrategy: () => 20 };

export const NODE_REDIS: ClientPackage = {
  name: "node-redis",
  server: ({ host, port }, options = {}) => connecting(createClient({ socket: { host, port, ...SOCKET }, ...options })),
  cluster: (nodes, options = {}) =>
    connecting(
      createCluster({
        rootNodes: nodes.map(({ host, port }) => ({ socket: { host, port } })),
        defaults: { disableOfflineQueue: true, socket: SOCKET, ...options },
      }),
    ),
  sentinel: ({ name, sentinels }) =>
    connecting(
      createSentinel({
        name,
        sentinelRootNodes: sentinels.map(({ host, port }) => ({ host, port })),
        nodeClientOptions: { socket: SOCKET },
      }),
    ),
};

export const PACKAGES: readonly ClientPackage[] = [IOREDIS, NODE_REDIS];

/** Those of slow tests: of node-redis only if `EVERY_CLIENT` is set, as by `npm run verify -- faults`. */
export const PACKAGES_OF_SLOW_TESTS = PACKAGES.filter(
  ({ name }) => name === "ioredis" || process.env.EVERY_CLIENT === "1",
);

function quiet<Client extends StoreClient>(client: Client): Client {
  client.on("error", () => undefined);
  return client;
}

type NodeRedis = RedisClient & {
  on(event: "error", listener: (error: Error) => void): unknown;
  connect(): Promise<unknown>;
  destroy(): unknown;
};

function connecting(client: NodeRedis): StoreClient {
  client.on("error", () => undefined);
  client.connect().catch(() => undefined);
  return Object.assign(client, { disconnect: () => client.destroy() });
}
