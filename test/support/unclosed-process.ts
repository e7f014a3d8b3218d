/**
 * A program that ends its client, by the call in END, and forgets its caches: it ends all the same, unless a connection of the
 * store's own keeps it alive. ADDRESSES has the nodes of a Cluster, or one server.
 */
import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";

const addresses = JSON.parse(process.env.ADDRESSES as string) as { host: string; port: number }[];
const client =
  addresses.length > 1 ? new Cluster(addresses) : new Redis(addresses[0] as { host: string; port: number });
const caches = ["one", "other"].map((prefix) =>
  createCache({
    defaultScope: "PUBLIC",
    store: redisStore({ client }),
    prefix: `unclosed-${prefix}`,
    memory: { maxStalenessMs: 2_000 },
  }),
);
const loaders = caches.map((cache) =>
  cache.loader<number, number, object>({ name: "N", maxAge: 60, batch: async (ids) => ids }),
);
const isLive = async (): Promise<boolean> => {
  for (const loader of loaders) await loader({}).load(7);
  const all = await Promise.all(caches.map((cache) => cache.health()));
  return all.every(({ status, memory }) => status === "ok" && memory?.confirmedAt != null);
};
while (!(await isLive())) await new Promise((resolve) => setTimeout(resolve, 10));
await client[process.env.END as "quit" | "disconnect"]();
process.send?.("ended");
process.disconnect?.();
