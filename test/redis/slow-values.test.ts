import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, expect, it } from "vitest";
import { until } from "../support/redis-lab.js";
import type { Address } from "../support/server-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { TcpProxy } from "../support/tcp-proxy.js";

interface Site {
  readonly name: string;
  readonly servers: readonly Address[];
  connect(networks: readonly TcpProxy[]): Redis | Cluster;
}

const clusterServers = await sharedServer("redisCluster");
const SITES: readonly Site[] = [
  {
    name: "Redis",
    servers: [await sharedServer("redisStandalone")],
    connect: ([network]) => new Redis({ host: network?.host as string, port: network?.port as number }),
  },
  {
    name: "a Cluster",
    servers: clusterServers,
    connect: (networks) =>
      new Cluster(networks.map(addressOf), {
        natMap: Object.fromEntries(
          clusterServers.map(({ host, port }, nth) => [`${host}:${port}`, addressOf(networks[nth] as TcpProxy)]),
        ),
      }),
  },
];
const addressOf = ({ host, port }: Address): Address => ({ host, port });

/** What the network delivers at a time, and how long it takes for that. */
const PORTION_BYTES = 64 * 1_024;
const PORTION_MS = 60;

const networks: TcpProxy[] = [];
afterAll(() => Promise.all(networks.map((network) => network.close())));

/** A network that delivers what a server replies in portions, one after the other, at most one in `delayMs()`. */
async function portioned(server: Address, delayMs: () => number, onPortion: () => void): Promise<TcpProxy> {
  const network = await TcpProxy.before(server, (send) => {
    let waiting = Buffer.alloc(0);
    let isDelivering = false;
    const deliver = (): void => {
      isDelivering = waiting.length > 0;
      if (!isDelivering) return;
      send.replies(waiting.subarray(0, PORTION_BYTES));
      waiting = waiting.subarray(PORTION_BYTES);
      onPortion();
      setTimeout(deliver, delayMs());
    };
    const replies = (bytes: Buffer): void => {
      waiting = Buffer.concat([waiting, bytes]);
      if (!isDelivering) deliver();
    };
    return { requests: send.requests, replies };
  });
  networks.push(network);
  return network;
}

it.each(SITES)(
  "are hits although they take longer than the time budget to arrive, and so are small values beside them: $name",
  async ({ servers, connect }) => {
    let portions = 0;
    let delayMs = 0;
    const client = connect(
      await Promise.all(
        servers.map((server) =>
          portioned(
            server,
            () => delayMs,
            () => void portions++,
          ),
        ),
      ),
    );
    const outcomes: string[] = [];
    let stored = 0;
    // Each server holds about twenty of them.
    const largeCount = 20 * servers.length;
    const ids = Array.from({ length: 2 * largeCount }, (_, id) => id);
    const batch = async (ids: readonly number[]) => ids.map((id) => (id < largeCount ? "x".repeat(100_000) : "small"));
    const start = (storeTimeoutMs: number) => {
      const cache = createCache({
        defaultScope: "PUBLIC",
        store: redisStore({ client }),
        memory: false,
        prefix: `slow-values-${process.pid}`,
        storage: { storeTimeoutMs },
        defaults: { earlyRefresh: 0 },
        onEvent: (event) => {
          if (event.name === "entry.served") outcomes.push(event.outcome);
          if (event.name === "resolver.bypassed") outcomes.push(event.reason);
          if (event.name === "write.finished" && event.isStored) stored++;
        },
      });
      const texts = cache.loader({ name: "Text", maxAge: 60, batch });
      return { load: () => texts({}).loadMany(ids), close: () => cache.close() };
    };
    // Stored, and each server connected to, with time for it: only the reads are to be short of it.
    const writer = start(30_000);
    await writer.load();
    await until("all are stored", () => stored === ids.length);
    await writer.close();
    delayMs = PORTION_MS;
    // What the reply takes, less its first part, is more than one budget and less than ten.
    const reader = start(750);
    for (let round = 0; round < 2; round++) {
      outcomes.length = 0;
      portions = 0;
      expect(await reader.load()).toHaveLength(ids.length);
      expect([new Set(outcomes), outcomes.length]).toEqual([new Set(["hit"]), ids.length]);
      expect(portions).toBeGreaterThanOrEqual((largeCount * 100_000) / PORTION_BYTES);
    }
    await reader.close();
    client.disconnect();
  },
);
