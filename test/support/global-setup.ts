import type { TestProject } from "vitest/node";
import { MemcachedLab } from "./memcached-lab.js";
import { type Address, RedisLab } from "./redis-lab.js";

declare module "vitest" {
  export interface ProvidedContext {
    redisStandalone: Address;
    redisCluster: readonly Address[];
    memcached: readonly [Address, Address, Address];
    redisSentinel: { readonly name: string; readonly sentinels: readonly Address[] };
  }
}

/** Starts one set of real servers for the whole run. Each test uses its own key prefix. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const lab = new RedisLab();
  const memcachedLab = new MemcachedLab();
  const stop = async (): Promise<void> => {
    await Promise.all([lab.stop(), memcachedLab.stop()]);
  };
  try {
    const [standalone, cluster, sentinel, ...memcached] = await Promise.all([
      lab.standalone(),
      lab.cluster(),
      lab.sentinel(),
      memcachedLab.standalone(),
      memcachedLab.standalone(),
      memcachedLab.standalone(),
    ]);
    const address = ({ host, port }: Address): Address => ({ host, port });
    project.provide("memcached", memcached.map(address) as [Address, Address, Address]);
    project.provide("redisStandalone", address(standalone));
    project.provide("redisCluster", cluster.map(address));
    project.provide("redisSentinel", { name: sentinel.name, sentinels: sentinel.sentinels.map(address) });
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}
