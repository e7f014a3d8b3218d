import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { MemcachedLab } from "./memcached-lab.js";
import { RedisLab } from "./redis-lab.js";
import { type Address, HOST } from "./server-lab.js";
import type { SharedServers } from "./shared-servers.js";

const addressOf = ({ host, port }: Address): Address => ({ host, port });

/**
 * Finds the programs of the servers and starts a broker, which starts shared servers for `sharedServer` once they are
 * asked for. One broker serves all projects of the run.
 */
export default async function setup({ vitest }: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (vitest.getRootProject().getProvidedContext().serverBrokerPort !== undefined) return undefined;
  const redis = new RedisLab();
  const memcached = new MemcachedLab();
  const starters: { [Name in keyof SharedServers]: () => Promise<SharedServers[Name]> } = {
    redisStandalone: async () => addressOf(await redis.standalone()),
    redisCluster: async () => (await redis.cluster()).map(addressOf),
    redisSentinel: async () => {
      const { name, sentinels } = await redis.sentinel();
      return { name, sentinels: sentinels.map(addressOf) };
    },
    memcached: async () => {
      const servers = await Promise.all([memcached.standalone(), memcached.standalone(), memcached.standalone()]);
      return servers.map(addressOf) as [Address, Address, Address];
    },
  };
  const started = new Map<string, Promise<unknown>>();
  const broker = createServer(async ({ url = "" }, response) => {
    const name = url.slice(1) as keyof SharedServers;
    const server = started.get(name) ?? starters[name]();
    started.set(name, server);
    try {
      response.end(JSON.stringify(await server));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  }).listen(0, HOST);
  await once(broker, "listening");
  vitest.provide("serverBrokerPort", (broker.address() as AddressInfo).port);
  return async () => {
    broker.close();
    broker.closeAllConnections();
    await Promise.all([redis.stop(), memcached.stop()]);
  };
}
