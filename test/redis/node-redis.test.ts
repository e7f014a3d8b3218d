import { randomUUID } from "node:crypto";
import { bloomGuard } from "@graphql-cached/redis-bloom";
import { type RedisClient, redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { createClient, createClientPool, createCluster, createSentinel, type RedisClientType } from "redis";
import * as redis5 from "redis-5";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { nodeRedisPort } from "../../src/stores/redis/node-redis-port.js";
import { isConnected, NODE_REDIS } from "../support/redis-clients.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { afterCaches, dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    value(id: ID!): Int @cached(maxAge: 60, tags: ["Value:{$args.id}"])
  }
`;

/** Starts a process on a client. */
function startProcess(client: RedisClient, prefix: string, options: object = {}) {
  const state = { loads: 0 };
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const process = memoryWorld(() => redisStore({ client })).process(
    typeDefs,
    { Query: { value: () => ++state.loads } },
    { prefix, logger: { info: log, warn: log }, ...options },
  );
  const ask = (id: string): Promise<unknown> => dataOf(process.ask(`{ value(id: "${id}") }`));
  const untilHit = (id: string): Promise<void> =>
    until(`${id} is a hit`, async () => {
      const before = process.outcomes().hit ?? 0;
      await ask(id);
      return (process.outcomes().hit ?? 0) > before;
    });
  return { ...process, ask, untilHit, lines, state };
}

const lab = new RedisLab();
let node: LabNode;
let admin: Redis;
beforeAll(async () => {
  node = await lab.standalone();
  admin = new Redis(node.port, node.host, { retryStrategy: () => 20 });
});
afterAll(async () => {
  admin.disconnect();
  await lab.stop();
});

/** Creates a client that begins to connect, and that ends with the caches. */
function connecting(options: object = {}): RedisClientType {
  const client = createClient({
    ...options,
    socket: { host: node.host, port: node.port, reconnectStrategy: () => 20 },
  }) as RedisClientType;
  client.on("error", () => undefined);
  client.connect().catch(() => undefined);
  afterCaches(async () => client.destroy());
  return client;
}

describe("redisStore with a client of node-redis", () => {
  const messageOf = (client: unknown): string => {
    try {
      redisStore({ client: client as RedisClient });
    } catch (error) {
      return (error as Error).message;
    }
    return "none";
  };

  it("refuses a client that is not connected, and one that was closed", async () => {
    const expected =
      "redisStore: `client`: expected a node-redis client that is connected or connecting, got a closed one; call `await client.connect()` first";
    expect(messageOf(createClient())).toBe(expected);
    expect(messageOf(createCluster({ rootNodes: [] }))).toBe(expected);
    expect(messageOf(createSentinel({ name: "m", sentinelRootNodes: [] }))).toBe(expected);
    const client = await createClient({ socket: { port: node.port } }).connect();
    expect(messageOf(client)).toBe("none");
    client.destroy();
    expect(messageOf(client)).toBe(expected);
    expect(() => bloomGuard({ client, name: "Movie", prefix: "shop", capacity: 1 })).toThrow(
      "bloomGuard: `client`: expected a node-redis client that is connected",
    );
  });

  it("says what to pass in the place of a pool, a client in legacy mode and one of an older version", () => {
    const client = connecting();
    expect(messageOf(client.legacy())).toBe(
      "redisStore: `client`: expected an ioredis, iovalkey or node-redis client, got a client in the legacy mode of node-redis; pass the client whose method legacy() was called",
    );
    expect(messageOf(createClientPool())).toContain(
      "got a pool of node-redis, whose connections belong to one caller at a time; pass the client of createClient()",
    );
    const three = { sendCommand: () => 0, multi: () => 0, duplicate: () => 0 };
    for (const older of [three, { ...three, connect: () => 0 }])
      expect(messageOf(older)).toContain(
        "got a node-redis client of a version before 5; update the package redis, or pass a client of ioredis",
      );
  });

  it("refuses options with which keys have other names, or values come from a replica", () => {
    expect(messageOf(connecting({ keyPrefix: "x:" }))).toContain(
      "expected a client without `keyPrefix`, which node-redis does not apply to the commands of the store; pass createCache({ prefix }) instead",
    );
    expect(messageOf(connecting({ readonly: true }))).toContain("expected a client without `readonly`");
  });

  it.each<[string, object]>([
    [
      "a type mapping, asap and a time limit",
      { commandOptions: { typeMapping: { 36: String }, asap: true, timeout: 900 } },
    ],
    ["RESP 2", { RESP: 2 }],
    ["a client-side cache", { clientSideCache: { ttl: 60_000, maxEntries: 100, evictPolicy: "LRU" } }],
    ["emitInvalidate", { emitInvalidate: true }],
    ["no offline queue", { disableOfflineQueue: true }],
    ["a short queue", { commandsQueueMaxLength: 100 }],
    ["a name and an interval for pings", { name: "shop", pingInterval: 50 }],
    ["a database", { database: 3 }],
  ])("works alike with %s", async (_name, options) => {
    const prefix = randomUUID();
    const [one, two] = [startProcess(connecting(options), prefix), startProcess(connecting(options), prefix)];
    for (const process of [one, two]) await process.untilHit("a");
    await one.cache.invalidateTags(["Value:a"]);
    const before = one.state.loads + two.state.loads;
    await two.ask("a");
    expect(one.state.loads + two.state.loads).toBe(before + 1);
    expect((await one.cache.health()).status).toBe("ok");
  });

  it("writes and reads reports and a Bloom filter", async () => {
    const client = await createClient({ socket: { port: node.port } }).connect();
    afterCaches(async () => client.destroy());
    const store = redisStore({ client });
    await store.writeReport?.("one", Buffer.from("its report"), 60_000);
    expect(await store.readReports?.()).toEqual([Buffer.from("its report")]);
    const guard = bloomGuard({ client, name: "Movie", prefix: randomUUID(), capacity: 100 });
    expect(await guard.rebuild([1, 2])).toBe(2);
    expect(await guard.has([1, 2, 777])).toEqual([true, true, false]);
  });
});

describe("A connection of node-redis", () => {
  it("may be killed at any time: requests go on, and waiters and memory get messages again", async () => {
    const prefix = randomUUID();
    const [one, two] = [
      startProcess(connecting(), prefix, { memory: { maxStalenessMs: 2_000 } }),
      startProcess(connecting(), prefix, { memory: { maxStalenessMs: 2_000 } }),
    ];
    const subscribers = async (): Promise<number> => Number((await admin.pubsub("NUMSUB", `${prefix}:#clock`))[1]);
    for (const process of [one, two]) await process.untilHit("a");
    await until("both have subscribed", async () => (await subscribers()) === 2);
    for (const type of ["normal", "pubsub"]) {
      await admin.call("CLIENT", "KILL", "TYPE", type, "SKIPME", "YES");
      for (const process of [one, two]) await process.ask("a");
      for (const process of [one, two]) await process.untilHit("a");
      await until("both have subscribed again", async () => (await subscribers()) === 2);
    }
    await until("the invalidation is confirmed", () =>
      one.cache.invalidateTags(["Value:a"]).then(
        () => true,
        () => false,
      ),
    );
    const before = one.state.loads + two.state.loads;
    await until("the other process has heard of it", async () => {
      await two.ask("a");
      return one.state.loads + two.state.loads > before;
    });
  });

  it("need not be there when the application starts, nor with a wrong password, which the log names", async () => {
    const prefix = randomUUID();
    await admin.call("ACL", "SETUSER", "late", "on", ">one", "~*", "&*", "+@all");
    // Otherwise a command that is sent before the server has refused the password runs as this user.
    await admin.call("ACL", "SETUSER", "default", "off");
    onTestFinished(async () => void (await admin.call("ACL", "SETUSER", "default", "on")));
    const passwords = ["wrong"];
    const client = connecting({
      credentialsProvider: {
        type: "async-credentials-provider",
        credentials: async () => ({ username: "late", password: passwords.at(-1) as string }),
      },
    });
    const process = startProcess(client, prefix, { memory: { maxStalenessMs: 2_000 } });
    expect(await process.ask("a")).toEqual({ value: 1 });
    await until("the log says why", async () => {
      await process.ask("a");
      return process.lines.some((line) => line.includes("WRONGPASS"));
    });
    passwords.push("one");
    await process.untilHit("a");
    await until("all connections work", async () => (await process.cache.health()).status === "ok");
    // The connections of the store ask for the credentials as well, each time that they are opened.
    await admin.call("ACL", "SETUSER", "late", "resetpass", ">two");
    passwords.push("two");
    await admin.call("CLIENT", "KILL", "USER", "late");
    await until("the store is back", async () => {
      await process.ask("a").catch(() => undefined);
      const { status } = await process.cache.health();
      return status === "ok" && Number((await admin.pubsub("NUMSUB", `${prefix}:#clock`))[1]) === 1;
    });
    await process.cache.invalidateTags(["Value:a"]);
  });

  it("needs no right besides those that are documented", async () => {
    const [prefix, username] = [randomUUID(), `user-${randomUUID()}`];
    const commands =
      "+mget +time +evalsha +eval +subscribe +unsubscribe +get +set +del +unlink +append +getrange +setrange +strlen +exists +pexpire +persist +pttl +publish +zadd +zrange +zremrangebyscore +hello";
    const channels = ["resetchannels", `&${prefix}:#wake`, `&${prefix}:#clock`];
    await admin.call(
      "ACL",
      "SETUSER",
      username,
      "on",
      ">one",
      `~${prefix}:*`,
      ...channels,
      "-@all",
      ...commands.split(" "),
    );
    const process = startProcess(connecting({ username, password: "one" }), prefix, {
      memory: { maxStalenessMs: 2_000 },
    });
    await process.untilHit("a");
    await until(
      "the channel is subscribed",
      async () => Number((await admin.pubsub("NUMSUB", `${prefix}:#clock`))[1]) === 1,
    );
    await process.cache.invalidateTags(["Value:a"]);
    await process.untilHit("a");
    // Longer than the interval of the checks, after which the connection for messages would be given up.
    await until("the connections were checked", async () =>
      String(await admin.info("commandstats")).includes("cmdstat_ping:"),
    );
    expect((await process.cache.health()).status).toBe("ok");
    expect(process.lines.filter((line) => line.includes("NOPERM"))).toEqual([]);
  });

  it.each(["close", "destroy"] as const)("ends its others with %s(), also if the caches go on", async (method) => {
    const prefix = randomUUID();
    const client = connecting();
    const process = startProcess(client, prefix, { memory: { maxStalenessMs: 2_000 } });
    await process.untilHit("a");
    const subscribers = async (): Promise<number> => Number((await admin.pubsub("NUMSUB", `${prefix}:#clock`))[1]);
    await until("the channel is subscribed", async () => (await subscribers()) === 1);
    await client[method]();
    await until("nothing is subscribed", async () => (await subscribers()) === 0);
    expect(typeof (await process.ask("a"))).toBe("object");
  });
});

describe("Clients of node-redis", () => {
  const CLIENTS: readonly [string, () => Promise<RedisClient & { connect(): Promise<unknown>; destroy(): unknown }>][] =
    [
      [
        "a Cluster",
        async () => createCluster({ rootNodes: (await sharedServer("redisCluster")).map((socket) => ({ socket })) }),
      ],
      [
        "a Cluster, of version 5",
        async () =>
          redis5.createCluster({ rootNodes: (await sharedServer("redisCluster")).map((socket) => ({ socket })) }),
      ],
      ["Sentinel", async () => createSentinel(await sentinelOptions())],
      ["Sentinel, of version 5", async () => redis5.createSentinel(await sentinelOptions())],
      [
        "Sentinel, with a reserved client",
        async () => createSentinel({ ...(await sentinelOptions()), reserveClient: true }),
      ],
    ];
  const sentinelOptions = async () => {
    const { name, sentinels } = await sharedServer("redisSentinel");
    return { name, sentinelRootNodes: [...sentinels] };
  };

  it.each(CLIENTS)("of %s share values, messages and invalidations", async (_name, create) => {
    const prefix = randomUUID();
    const clients = [await create(), await create()] as const;
    for (const client of clients) {
      (client as unknown as RedisClientType).on("error", () => undefined);
      await client.connect();
      afterCaches(async () => client.destroy());
    }
    const options = { memory: { maxStalenessMs: 2_000 }, storage: { storeTimeoutMs: 1_000 } };
    const [one, two] = clients.map((client) => startProcess(client, prefix, options)) as [
      ReturnType<typeof startProcess>,
      ReturnType<typeof startProcess>,
    ];
    const ids = Array.from({ length: 20 }, (_, nth) => `id ${nth}`);
    await Promise.all(ids.map((id) => one.ask(id)));
    await Promise.all(ids.map((id) => two.ask(id)));
    expect(one.state.loads + two.state.loads).toBe(20);
    await one.cache.invalidateTags(ids.map((id) => `Value:${id}`));
    await until("the other process has heard of it", async () => {
      await Promise.all(ids.map((id) => two.ask(id)));
      return one.state.loads + two.state.loads === 40;
    });
    expect((await one.cache.health()).status).toBe("ok");
  });
});

describe("A client of node-redis and one of ioredis", () => {
  it("share values, waits and invalidations", async () => {
    const prefix = randomUUID();
    const other = new Redis(node.port, node.host);
    afterCaches(async () => other.disconnect());
    const client = NODE_REDIS.server(node);
    afterCaches(async () => client.disconnect());
    await until("the client is connected", () => isConnected(client));
    const [one, two] = [startProcess(client, prefix), startProcess(other, prefix)];
    await Promise.all([one.ask("a"), two.ask("a")]);
    expect(one.state.loads + two.state.loads).toBe(1);
    await one.cache.invalidateTags(["Value:a"]);
    expect([await two.ask("a"), one.state.loads + two.state.loads]).toEqual([expect.anything(), 2]);
  });
});

it.each<[string, (options: object) => unknown]>([
  ["6", createClient],
  ["5", redis5.createClient],
])(
  "A connection of the store by node-redis %s that is closed while it connects never becomes ready",
  async (_, create) => {
    const client = create({ socket: await sharedServer("redisStandalone") }) as Parameters<typeof nodeRedisPort>[0];
    const outcome = await new Promise((resolve) => {
      const port = nodeRedisPort(client);
      const onEvent = (event: string, error?: unknown): void => {
        if (event === "error") resolve((error as Error).message);
        if (event === "ready") resolve(event);
      };
      port.openSubscriber(onEvent, () => undefined, 0)?.close();
    });
    expect(outcome).toMatch(/abort/);
  },
);
