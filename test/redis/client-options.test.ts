import { randomUUID } from "node:crypto";
import { bloomGuard } from "@graphql-cached/redis-bloom";
import { gate } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis, type RedisOptions } from "ioredis";
import { describe, expect, it, vi } from "vitest";
import { sharedServer } from "../support/shared-servers.js";
import { afterCaches, dataOf, memoryWorld, type Process, waitForStores } from "../support/world.js";

const clusterServers = await sharedServer("redisCluster");
const sentinelServer = await sharedServer("redisSentinel");
const standaloneServer = await sharedServer("redisStandalone");

const typeDefs = /* GraphQL */ `
  type Query {
    plain(id: ID!): Int @cached(maxAge: 60)
    tagged(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}", "Director:{$result.director}"])
    slow: Int @cached(maxAge: 60)
  }
  type Movie {
    director: Int
  }
`;

type Connect = (options: RedisOptions) => Redis | Cluster;

const standalone: Connect = (options) => new Redis({ ...standaloneServer, ...options } as never);
const cluster: Connect = ({ enableOfflineQueue, lazyConnect, enableAutoPipelining, ...redisOptions }) =>
  new Cluster([...clusterServers], {
    redisOptions: redisOptions as never,
    enableOfflineQueue,
    lazyConnect,
    enableAutoPipelining,
  });
const sentinel: Connect = (options) => {
  const { name, sentinels } = sentinelServer;
  return new Redis({ name, sentinels: [...sentinels], ...options } as never);
};

/** Options of ioredis that change replies, or when commands are sent. */
const REPLIES: Readonly<Record<string, RedisOptions>> = {
  defaults: {},
  "the recommended options": { maxRetriesPerRequest: 0, enableOfflineQueue: false, connectTimeout: 1_000 },
  stringNumbers: { stringNumbers: true },
  showFriendlyErrorStack: { showFriendlyErrorStack: true },
  enableAutoPipelining: { enableAutoPipelining: true },
  "protocol 2": { protocol: 2 },
  "replyMapping resp3": { protocol: 3, replyMapping: "resp3" },
  "replyMapping resp3 and stringNumbers": { protocol: 3, replyMapping: "resp3", stringNumbers: true },
  lazyConnect: { lazyConnect: true },
  "lazyConnect without an offline queue": { lazyConnect: true, enableOfflineQueue: false },
};
/** Options that change what becomes of the connection, of each server in the same way, or the database, which a Cluster has not. */
const CONNECTION: Readonly<Record<string, RedisOptions>> = {
  "maxRetriesPerRequest null": { maxRetriesPerRequest: null },
  "autoResubscribe and autoResendUnfulfilledCommands off": {
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
  },
  "enableReadyCheck off": { enableReadyCheck: false },
  timeouts: { commandTimeout: 5_000, socketTimeout: 5_000, blockingTimeout: 5_000 },
  reconnectOnError: { reconnectOnError: () => false },
  retryStrategy: { retryStrategy: () => null },
  connectionName: { connectionName: "shop", disableClientInfo: true },
  db: { db: 3 },
};
const SERVERS: Readonly<Record<string, Connect>> = {
  "a single server": standalone,
  "a Cluster": cluster,
  Sentinel: sentinel,
};
const countOf = (process: Process, name: string): number =>
  process.events.filter((event) => event.name === name).length;

/** Two processes on one prefix, each with a client of its own. */
function startPair(connect: Connect, options: RedisOptions) {
  const prefix = `options-${randomUUID()}`;
  const source = { loads: [] as string[], hold: undefined as Promise<void> | undefined };
  const load = async (what: string): Promise<number> => {
    source.loads.push(what);
    await source.hold;
    return source.loads.length;
  };
  const start = () => {
    const client = connect(options);
    client.on("error", () => undefined);
    afterCaches(async () => client.disconnect());
    const store = redisStore({ client });
    const lines: string[] = [];
    const log = (line: string): void => void lines.push(line);
    const process = memoryWorld(() => store).process(
      typeDefs,
      {
        Query: {
          plain: (_: unknown, { id }: { id: string }) => load(`plain ${id}`),
          tagged: async (_: unknown, { id }: { id: string }) => ({ director: await load(`tagged ${id}`) }),
          slow: () => load("slow"),
        },
      },
      {
        prefix,
        memory: { maxStalenessMs: 2_000 },
        leases: { leaseMs: 300 },
        storage: { storeTimeoutMs: 2_000 },
        logger: { info: log, warn: log },
      },
    );
    return { client, store, lines, ...process };
  };
  return { source, prefix, one: start(), other: start() };
}

const matrix = Object.entries(SERVERS).flatMap(([server, connect]) =>
  Object.entries({ ...REPLIES, ...(connect === standalone ? CONNECTION : {}) }).map(
    ([name, options]) => [name, server, connect, options] as const,
  ),
);

describe.each(matrix)("a client with %s, on %s", (_name, _server, connect, options) => {
  it("stores, serves, renews, wakes and invalidates, as with the options of ioredis", async () => {
    const { source, one, other } = startPair(connect, options);
    const ask = async (process: Process, field: string): Promise<unknown> => {
      const selection = field.startsWith("tagged") ? " { director }" : "";
      return ((await dataOf(process.ask(`{ value: ${field}${selection} }`))) as { value: unknown }).value;
    };

    // Values are stored and served, in both processes.
    expect(await ask(one, 'plain(id: "1")')).toBe(1);
    await waitForStores(one);
    expect(one.events).toContainEqual(expect.objectContaining({ name: "write.finished", isStored: true }));
    expect(await ask(other, 'plain(id: "1")')).toBe(1);
    expect(source.loads).toEqual(["plain 1"]);

    // A lease is renewed while its load runs, and who waits for it in another process is woken.
    const loading = gate();
    source.hold = loading.passed;
    const first = ask(one, "slow");
    await vi.waitFor(() => expect(source.loads).toContain("slow"));
    const waiting = ask(other, "slow");
    await vi.waitFor(
      () =>
        expect(
          one.events.filter((event) => event.name === "store.finished" && event.operation === "renew").length,
        ).toBeGreaterThan(2),
      { timeout: 5_000 },
    );
    loading.open();
    source.hold = undefined;
    expect([await first, await waiting]).toEqual([2, 2]);
    expect(countOf(one, "lease.lost")).toBe(0);

    // Tags, also those of results, are invalidated for both, softly as well.
    const tagged = 'tagged(id: "7")';
    expect(await ask(one, tagged)).toEqual({ director: 3 });
    await waitForStores(one, 3);
    expect(await ask(other, tagged)).toEqual({ director: 3 });
    await other.cache.invalidateTags(["Director:3"]);
    expect(await ask(other, tagged)).toEqual({ director: 4 });
    await waitForStores(other, 1);
    await vi.waitFor(async () => expect(await ask(one, tagged)).toEqual({ director: 4 }));
    await one.cache.invalidateTags(["Movie:7"], { soft: true });
    await vi.waitFor(async () => expect(await ask(one, tagged)).toEqual({ director: 5 }));

    // Whole fields, single entries, and writes.
    await one.cache.invalidate({ coordinate: "Query.plain", args: { id: "1" } });
    expect(await ask(one, 'plain(id: "1")')).toBe(6);
    await one.cache.invalidate({ coordinate: "Query.plain" });
    expect(await ask(one, 'plain(id: "1")')).toBe(7);
    await one.cache.mutate({ tags: ["Movie:7"] }, () => undefined);
    expect(await ask(one, tagged)).toEqual({ director: 8 });
    expect(source.loads).toHaveLength(8);

    for (const process of [one, other]) {
      expect(await process.cache.health()).toMatchObject({
        status: "ok",
        reasons: [],
        memory: { confirmedAt: expect.any(String) },
      });
      expect(process.lines).toEqual([]);
      expect(countOf(process, "store.failed")).toBe(0);
    }
  });

  it("reports the process, and tells which ids exist", async () => {
    const { prefix, one } = startPair(connect, options);
    expect(await one.store.writeReport?.("one", Buffer.from("its report"), 60_000)).toBe(false);
    expect(await one.store.readReports?.()).toEqual([Buffer.from("its report")]);
    expect(await one.store.writeReport?.("one", Buffer.from("another"), 60_000)).toBe(true);

    const guard = bloomGuard<number>({ client: one.client, name: "Movie", prefix, capacity: 100, timeoutMs: 5_000 });
    expect(await guard.has([1, 2])).toEqual([true, true]);
    expect(await guard.rebuild([1])).toBe(1);
    expect(await guard.has([1, 2])).toEqual([true, false]);
    await guard.add([2]);
    expect(await guard.has([1, 2])).toEqual([true, true]);
  });
});

describe("redisStore", () => {
  const nodes = [{ host: "127.0.0.1", port: 1 }];
  const offline = { lazyConnect: true };
  const sentinels = { sentinels: nodes, name: "shop", ...offline };

  it.each([
    [
      "a key prefix",
      () => new Redis({ keyPrefix: "shop:", ...offline }),
      "expected a client without `keyPrefix`, which ioredis applies to keys but not to messages; pass createCache({ prefix }) instead",
    ],
    [
      "a key prefix of the nodes",
      () => new Cluster(nodes, { redisOptions: { keyPrefix: "shop:" }, ...offline }),
      "expected a client without `keyPrefix`",
    ],
    [
      "reads from replicas",
      () => new Cluster(nodes, { scaleReads: "slave", ...offline }),
      'expected `scaleReads: "master"`, since a replica may not have received an invalidation yet, got "slave"; remove the option',
    ],
    [
      "reads from all nodes",
      () => new Cluster(nodes, { scaleReads: "all", ...offline }),
      'expected `scaleReads: "master"`, since a replica may not have received an invalidation yet, got "all"',
    ],
    [
      "reads from nodes that a function chooses",
      () => new Cluster(nodes, { scaleReads: () => undefined as never, ...offline }),
      'expected `scaleReads: "master"`, since a replica may not have received an invalidation yet, got a function',
    ],
    [
      "reads from a replica of a Cluster",
      () => new Redis({ readOnly: true, ...offline }),
      "expected a client without `readOnly`, since a replica may not have received an invalidation yet; remove the option",
    ],
    [
      "a replica that Sentinel chooses",
      () => new Redis({ role: "slave", ...sentinels } as never),
      'expected `role: "master"`, since a replica may not have received an invalidation yet, got "slave"; remove the option',
    ],
    [
      "a monitor",
      () => new Redis({ monitor: true, ...offline } as never),
      "expected a client without `monitor`, which runs no commands; pass another client",
    ],
  ])("refuses a client with %s", (_what, connect, expected) => {
    const client = connect();
    expect(() => redisStore({ client })).toThrow(
      expect.objectContaining({
        code: "CACHED_OPTION_INVALID",
        message: expect.stringContaining(`redisStore: \`client\`: ${expected}`),
      }),
    );
    client.disconnect();
  });

  it.each([
    // As ioredis-mock 8 has them.
    ["ioredis-mock", { options: {}, duplicate: () => undefined, pipeline: () => ({}), on: () => undefined }],
  ])("refuses %s, and says what to use instead", (_what, client) => {
    for (const create of [
      () => redisStore({ client } as never),
      () => bloomGuard({ client, name: "Movie", prefix: "shop", capacity: 1 } as never),
    ])
      expect(create).toThrow(
        expect.objectContaining({
          code: "CACHED_OPTION_INVALID",
          message: expect.stringMatching(
            /`client`: expected an ioredis client, got one without `callBuffer`, such as ioredis-mock, which cannot run the scripts; use memoryStore\(\) in tests, or a real server/,
          ),
        }),
      );
  });

  it("accepts the role and the reads that are the default", () => {
    for (const client of [
      new Redis({ role: "master", ...sentinels }),
      new Cluster(nodes, { scaleReads: "master", ...offline }),
      new Redis({ readOnly: false, ...offline }),
    ]) {
      expect(() => redisStore({ client })).not.toThrow();
      client.disconnect();
    }
  });
});
