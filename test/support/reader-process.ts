/**
 * One server process of a test: a cache on a real server, and a source that counts its loads in Redis. It does what its parent's messages say.
 * PORT, PREFIX and LEASE_MS come from the environment; so does MEMCACHED_PORT, where the cache is to be there and not on Redis.
 */
import { createCache } from "graphql-cached";
import { memcachedStore } from "graphql-cached/memcached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { MemcacheClient } from "memcache-client";

export type Order =
  /** Ask for `key` so many times at once; the source takes `loadMs`. Answered with what came and how long the slowest took. */
  | { readonly do: "read"; readonly key: string; readonly times: number; readonly loadMs: number }
  | { readonly do: "invalidate"; readonly tag: string };

export interface Report {
  readonly values: readonly unknown[];
  readonly slowestMs: number;
}

const { PORT, PREFIX, LEASE_MS, MEMCACHED_PORT } = process.env;
const client = new Redis(Number(PORT), "127.0.0.1");
const cache = createCache({
  store:
    MEMCACHED_PORT === undefined
      ? redisStore({ client })
      : memcachedStore({ client: new MemcacheClient({ server: `127.0.0.1:${MEMCACHED_PORT}`, noDelay: true }) }),
  prefix: PREFIX ?? "",
  leaseMs: Number(LEASE_MS),
  storeTimeoutMs: 1_000,
});

async function read({ key, times, loadMs }: Extract<Order, { do: "read" }>): Promise<Report> {
  const load = cache.loader<string, string>({
    name: "Key",
    maxAge: 60,
    tags: (id) => [id],
    batch: async (ids) => {
      const version = await client.get(`${PREFIX}:version`);
      await client.multi().incr(`${PREFIX}:loads`).pexpire(`${PREFIX}:loads`, 60_000).exec();
      process.send?.("loading");
      await new Promise((resolve) => setTimeout(resolve, loadMs));
      return ids.map(() => `version ${version}`);
    },
  });
  const startedAt = performance.now();
  // A request each: nothing is remembered from one to the next.
  const values = await Promise.all(Array.from({ length: times }, () => load({}).load(key)));
  return { values: [...new Set(values)], slowestMs: performance.now() - startedAt };
}

process.on("message", async (order: Order) => {
  if (order.do === "read") process.send?.(await read(order));
  else process.send?.(await cache.invalidateTags([order.tag]).then(() => ({ values: [], slowestMs: 0 })));
});
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
