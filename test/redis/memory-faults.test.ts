import { randomUUID } from "node:crypto";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Address, RedisLab, until } from "../support/redis-lab.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    byKey: Int @cached(maxAge: 60)
    byTag: Int @cached(maxAge: 60, tags: ["T"])
  }
`;
/** The documented bound. It is one of the clock of the process, so it holds however busy the machine is. */
const BOUND_MS = 2_000;

describe("Memory that counts for two seconds, during a fault", () => {
  const lab = new RedisLab();
  const clients: Redis[] = [];
  let address: Address;
  let admin: Redis;
  let proxy: TcpProxy;
  const connect = (to: Address): Redis => {
    const client = new Redis(to.port, to.host, { retryStrategy: () => 20, maxRetriesPerRequest: 1 });
    client.on("error", () => undefined);
    clients.push(client);
    return client;
  };
  beforeAll(async () => {
    address = await lab.standalone();
    admin = connect(address);
    proxy = await TcpProxy.before(address);
  });
  afterEach(async () => {
    await admin.config("SET", "maxmemory", "0");
    await admin.config("SET", "client-output-buffer-limit", "pubsub 33554432 8388608 60");
    await admin.flushall();
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await proxy.close();
    await lab.stop();
  });

  /** Two processes: the memory of `one` counts for two seconds, and it is connected through the proxy. */
  function startProcesses() {
    let version = 1;
    let reads = 0;
    const prefix = randomUUID();
    const load = (): number => version;
    const start = (to: Address, options: object) => {
      const store = redisStore({ client: connect(to) });
      const read = store.read.bind(store);
      store.read = (keys) => (reads--, read(keys));
      return memoryWorld(() => store).process(
        typeDefs,
        { Query: { byKey: load, byTag: load } },
        { prefix, storage: { storeTimeoutMs: 300 }, ...options },
      );
    };
    const one = start(proxy, { memory: { maxStalenessMs: 2_000 } });
    const other = start(address, {});
    const ask = async (): Promise<number> => {
      const { byKey, byTag } = (await dataOf(one.ask("{ byKey byTag }"))) as { byKey: number; byTag: number };
      return Math.min(byKey, byTag);
    };
    return {
      prefix,
      /** Resolves when both values are served from memory. */
      warmUp: () =>
        until("both are served from memory", async () => {
          reads = 0;
          return (await ask()) === version && reads === 0;
        }),
      /** Writes to the source and invalidates both values by another process. Returns when that was confirmed. */
      write: async (): Promise<number> => {
        version++;
        await other.cache.invalidate({ coordinate: "Query.byKey", args: {} });
        await other.cache.invalidateTags(["T"]);
        return performance.now();
      },
      /**
       * Reads until both values are new. Returns how long after `confirmedAt` the last request began
       * that was answered with an old one.
       */
      staleUntil: async (confirmedAt: number): Promise<number> => {
        let staleMs = 0;
        await until("both values are new", async () => {
          const beganAt = performance.now();
          if ((await ask()) === version) return true;
          staleMs = beganAt - confirmedAt;
          return false;
        });
        return staleMs;
      },
    };
  }

  /** The connections that are subscribed to both channels. */
  const subscriberIds = async (): Promise<string[]> => {
    const list = String(await admin.client("LIST"));
    return [...list.matchAll(/^id=(\d+) .* sub=2 /gm)].map(([, id]) => id as string);
  };
  const killSubscribers = async (): Promise<void> => {
    for (const id of await subscriberIds()) await admin.client("KILL", "ID", id).catch(() => undefined);
  };

  it("serves nothing beyond two seconds after an invalidation when the connection for messages is killed", async () => {
    const { warmUp, write, staleUntil } = startProcesses();
    for (let round = 0; round < 5; round++) {
      await warmUp();
      await killSubscribers();
      expect(await staleUntil(await write())).toBeLessThan(BOUND_MS);
    }
  });

  it("serves nothing beyond two seconds after an invalidation when each connection for messages is killed as soon as it is there", async () => {
    const { warmUp, write, staleUntil } = startProcesses();
    await warmUp();
    let isOver = false;
    const killing = (async () => {
      while (!isOver) await killSubscribers();
    })();
    for (let round = 0; round < 5; round++) expect(await staleUntil(await write())).toBeLessThan(BOUND_MS);
    isOver = true;
    await killing;
    await warmUp();
  });

  it("serves nothing beyond two seconds after an invalidation when the network is frozen in both directions", async () => {
    const { warmUp, write, staleUntil } = startProcesses();
    await warmUp();
    // Starts with the next question, message or read.
    for (const direction of ["requests", "replies"] as const) proxy.hold(direction, "");
    expect(await staleUntil(await write())).toBeLessThan(BOUND_MS);
    for (const direction of ["requests", "replies"] as const) proxy.deliver(direction);
    await warmUp();
  });

  it("serves nothing beyond two seconds after an invalidation when Redis is full", async () => {
    const { warmUp, write, staleUntil } = startProcesses();
    await warmUp();
    await admin.config("SET", "maxmemory-policy", "noeviction");
    await admin.config("SET", "maxmemory", "1");
    expect(await staleUntil(await write())).toBeLessThan(BOUND_MS);
    await killSubscribers();
    expect(await staleUntil(await write())).toBeLessThan(BOUND_MS);
  });

  it("serves nothing beyond two seconds after an invalidation when its connection exceeds the output buffer", async () => {
    const { prefix, warmUp, write, staleUntil } = startProcesses();
    await warmUp();
    const [before] = await subscriberIds();
    await admin.config("SET", "client-output-buffer-limit", "pubsub 20000 0 0");
    const noise = Buffer.alloc(10_000);
    const flood = admin.pipeline();
    for (let nth = 0; nth < 1_000; nth++) flood.publish(`${prefix}:#clock`, noise);
    await flood.exec();
    expect(await staleUntil(await write())).toBeLessThan(BOUND_MS);
    await until(
      "the server has closed the connection",
      async () => !(await subscriberIds()).includes(before as string),
    );
    await admin.config("SET", "client-output-buffer-limit", "pubsub 33554432 8388608 60");
    await warmUp();
  });
});
