import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { createCache } from "graphql-cached";
import { type RedisClient, redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { Redis as Valkey, Cluster as ValkeyCluster } from "iovalkey";
import { createClient, createCluster, createSentinel } from "redis";
import * as redis5 from "redis-5";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Address, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { TcpProxy } from "../support/tcp-proxy.js";

const server = await sharedServer("redisStandalone");
const nodes = await sharedServer("redisCluster");
const { name, sentinels } = await sharedServer("redisSentinel");

type Client = RedisClient & {
  on(event: "error", listener: () => void): unknown;
  disconnect?(): unknown;
  destroy?(): unknown;
  connect?(): Promise<unknown>;
  readonly isOpen?: boolean;
  readonly isReady?: boolean;
  readonly status?: string;
};

/** Begins to connect a client of node-redis. */
function connecting<NodeRedis extends { connect(): Promise<unknown> }>(client: NodeRedis): NodeRedis {
  client.connect().catch(() => undefined);
  return client;
}

const OFFLINE = { enableOfflineQueue: false, maxRetriesPerRequest: 0 };
const LAZY = { ...OFFLINE, lazyConnect: true };
const rootNodes = nodes.map((socket) => ({ socket }));
const defaults = { disableOfflineQueue: true };
const sentinel = { name, sentinelRootNodes: [...sentinels], nodeClientOptions: defaults };

/** Clients that have begun to connect, with the recommended options: without an offline queue, they refuse commands until then. */
const CLIENTS: Readonly<Record<string, () => unknown>> = {
  ioredis: () => new Redis({ ...server, ...OFFLINE }),
  "ioredis that connects with its first command": () => new Redis({ ...server, ...LAZY }),
  "a Cluster of ioredis": () => new Cluster([...nodes], OFFLINE),
  "a Cluster of ioredis that connects with its first command": () => new Cluster([...nodes], LAZY),
  "ioredis behind Sentinel": () => new Redis({ name, sentinels: [...sentinels], ...OFFLINE }),
  iovalkey: () => new Valkey({ ...server, ...OFFLINE }),
  "a Cluster of iovalkey": () => new ValkeyCluster([...nodes], OFFLINE),
  "node-redis": () => connecting(createClient({ socket: server, ...defaults })),
  "a Cluster of node-redis": () => connecting(createCluster({ rootNodes, defaults })),
  "a Cluster of node-redis with few connections": () =>
    connecting(createCluster({ rootNodes, defaults, minimizeConnections: true })),
  "node-redis behind Sentinel": () => connecting(createSentinel(sentinel)),
  "node-redis 5": () => connecting(redis5.createClient({ socket: server, ...defaults })),
  "a Cluster of node-redis 5": () => connecting(redis5.createCluster({ rootNodes, defaults })),
  "node-redis 5 behind Sentinel": () => connecting(redis5.createSentinel(sentinel)),
};

/** Clients of a server at a port that may refuse them, or never reply. */
const CLIENTS_OF: Readonly<Record<string, (port: number) => unknown>> = {
  ioredis: (port) => new Redis({ port, ...OFFLINE }),
  "a Cluster of ioredis": (port) => new Cluster([{ port }], OFFLINE),
  "ioredis behind Sentinel": (port) => new Redis({ name, sentinels: [{ port }], ...OFFLINE }),
  "node-redis": (port) => connecting(createClient({ socket: { port }, ...defaults })),
  "a Cluster of node-redis": (port) => connecting(createCluster({ rootNodes: [{ socket: { port } }], defaults })),
  "node-redis behind Sentinel": (port) =>
    connecting(
      createSentinel({ ...sentinel, sentinelRootNodes: [{ host: "127.0.0.1", port }], maxCommandRediscovers: 0 }),
    ),
};

/** Clients of servers whose names do not resolve: a Cluster then emits no error. */
const UNRESOLVED: typeof CLIENTS_OF = Object.fromEntries(
  Object.entries({ ioredis: Cluster, iovalkey: ValkeyCluster }).map(([name, Cluster]) => [
    `a Cluster of ${name} whose names do not resolve`,
    (port) =>
      new Cluster([{ host: "redis-headless", port }], { ...OFFLINE, dnsLookup: (_host, found) => found(UNKNOWN, "") }),
  ]),
);
const UNKNOWN = Object.assign(new Error("getaddrinfo ENOTFOUND redis-headless"), { code: "ENOTFOUND" });

/** Starts a process on a client. */
function start(connect: () => unknown, prefix: string = randomUUID(), storeTimeoutMs = 2_000) {
  const client = connect() as Client;
  client.on("error", () => undefined);
  const failures: string[] = [];
  const logged: string[] = [];
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: redisStore({ client }),
    prefix,
    storage: { storeTimeoutMs },
    logger: { info: (line) => logged.push(line), warn: (line) => logged.push(line) },
    onEvent: (event) => event.name === "store.failed" && failures.push(String(event.error)),
  });
  onTestFinished(async () => {
    await cache.close();
    if (client.destroy === undefined) await client.disconnect?.();
    else client.destroy();
  });
  let loads = 0;
  const films = cache.loader({
    name: "Film",
    maxAge: 60,
    batch: async (ids: readonly number[]) => ids.map(() => ++loads),
  });
  return {
    client,
    cache,
    failures,
    logged,
    read: () => films({}).load(7),
    readMany: (ids: readonly number[]) => films({}).loadMany(ids),
  };
}

describe.each(Object.entries(CLIENTS))("a process that starts on %s", (_name, connect) => {
  it("invalidates before its client is connected", async () => {
    const { cache, failures } = start(connect);
    await Promise.all([cache.clear(), cache.invalidateTags(["Film:7"]), cache.invalidate({ loader: "Film" })]);
    expect(failures).toEqual([]);
  });

  it("reads what others have stored before its client is connected", async () => {
    const prefix = randomUUID();
    const one = start(connect, prefix);
    expect(await one.read()).toBe(1);
    await one.cache.close();
    const other = start(connect, prefix);
    expect(await other.read()).toBe(1);
    expect([...one.failures, ...other.failures]).toEqual([]);
  });
});

describe.each(Object.entries({ ...CLIENTS_OF, ...UNRESOLVED }))("a process that starts on %s", (_name, connect) => {
  it("does not wait for a server that refuses its connection", async () => {
    // Otherwise the test would exceed its own time limit.
    const { cache, read } = start(() => connect(1), undefined, 600_000);
    await expect(cache.clear()).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
      // A resolver that waits for an invalidation throws it, and servers send it to clients.
      message: expect.not.stringContaining("127.0.0.1") as unknown,
      cause: { message: expect.stringContaining("`appendClock` failed: ") as unknown },
    });
    expect(await read()).toBe(1);
  });

  it("logs once that no server can be reached, and has one breaker for all keys", async () => {
    const { cache, logged, readMany } = start(() => connect(1));
    const ids = Array.from({ length: 200 }, (_, id) => id);
    for (let nth = 0; nth < 5; nth++) await readMany(ids.map((id) => 1_000 * nth + id));
    expect(logged).toEqual([expect.stringContaining("the store is unavailable, requests continue uncached")]);
    const { reasons } = await cache.health();
    expect(reasons).toEqual([expect.objectContaining({ code: "STORE_UNREACHABLE" })]);
    expect(reasons[0]).toMatchObject({ message: expect.stringContaining("breaker") as unknown });
  });
});

describe.each(Object.entries(CLIENTS_OF))("a process that starts on %s", (title, connect) => {
  it.each([
    { wasAsked: true, lines: ["the store is unavailable", "the store is available again"] },
    { wasAsked: false, lines: [] },
  ])("uses the server once it can be reached, asked before: $wasAsked", async ({ wasAsked, lines }) => {
    const [node, watcher] = [nodes[0], sentinels[0]] as [Address, Address];
    const proxy = await TcpProxy.before(
      title.includes("Cluster") ? node : title.includes("Sentinel") ? watcher : server,
    );
    onTestFinished(() => proxy.close());
    proxy.isUp = false;
    const { client, logged, read, readMany } = start(() => connect(proxy.port));
    let hasFailed = false;
    client.on("error", () => {
      hasFailed = true;
    });
    // Some do not try again, and are closed.
    const isFinal = /Cluster of node-redis|node-redis behind/.test(title);
    await until("the client has failed to connect", () => (isFinal ? client.isOpen === false : hasFailed));
    if (wasAsked) await readMany([1, 2, 3]);
    proxy.isUp = true;
    await until("the client is connected", async () => {
      if (client.isOpen === false) await client.connect?.().catch(() => undefined);
      return client.isReady ?? client.isOpen ?? client.status === "ready";
    });
    const first = await read();
    expect(await read()).toBe(first);
    expect(logged).toEqual(lines.map((line) => expect.stringContaining(line) as unknown));
  });

  it("waits for a server that does not reply within the time limit only", async () => {
    const silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    onTestFinished(async () => void silent.close());
    const { cache, read } = start(() => connect((silent.address() as AddressInfo).port), undefined, 10);
    await expect(cache.clear()).rejects.toMatchObject({
      cause: { message: expect.stringContaining("`appendClock` failed: no reply within 100 ms") as unknown },
    });
    expect(await read()).toBe(1);
  });
});
