import { once } from "node:events";
import { rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { setupSqlite } from "../../scripts/setup-sqlite.mjs";
import { compileExamples, compilePrograms } from "./compiled-programs.js";
import { MemcachedLab } from "./memcached-lab.js";
import { RedisLab } from "./redis-lab.js";
import { type Address, HOST } from "./server-lab.js";
import type { Shared } from "./shared-servers.js";

const addressOf = ({ host, port }: Address): Address => ({ host, port });

/**
 * Finds the programs of the servers and starts a broker, which makes what test files share when one of them first asks
 * for it. One broker serves all projects of the run.
 */
export default async function setup({ vitest }: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (vitest.getRootProject().getProvidedContext().brokerPort !== undefined) return undefined;
  const redis = new RedisLab();
  const memcached = new MemcachedLab();
  const makers: { [Name in keyof Shared]: () => Promise<Shared[Name]> } = {
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
    sqlite: async () => setupSqlite(),
    compiled: compilePrograms,
    compiledExamples: compileExamples,
  };
  const made: { [Name in keyof Shared]?: Promise<Shared[Name]> } = {};
  const make = <Name extends keyof Shared>(name: Name): Promise<Shared[Name]> => {
    const promise: Promise<Shared[Name]> = made[name] ?? makers[name]();
    (made[name] as Promise<Shared[Name]>) = promise;
    return promise;
  };
  const broker = createServer(async ({ url = "" }, response) => {
    try {
      response.end(JSON.stringify(await make(url.slice(1) as keyof Shared)));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  }).listen(0, HOST);
  await once(broker, "listening");
  vitest.provide("brokerPort", (broker.address() as AddressInfo).port);
  return async () => {
    broker.close();
    broker.closeAllConnections();
    for (const compiled of [made.compiled, made.compiledExamples]) {
      const folder = await compiled?.catch(() => undefined);
      if (folder !== undefined) await rm(folder, { recursive: true });
    }
    await Promise.all([redis.stop(), memcached.stop()]);
  };
}
