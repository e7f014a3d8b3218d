import type { TestProject } from "vitest/node";
import { type Address, RedisLab } from "./redis-lab.js";

declare module "vitest" {
  export interface ProvidedContext {
    redisStandalone: Address;
    redisCluster: readonly Address[];
    redisSentinel: { readonly name: string; readonly sentinels: readonly Address[] };
  }
}

/** One set of real Redis servers for the whole run. Tests keep apart by key prefixes of their own. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const lab = new RedisLab();
  try {
    const [standalone, cluster, sentinel] = await Promise.all([lab.standalone(), lab.cluster(), lab.sentinel()]);
    const address = ({ host, port }: Address): Address => ({ host, port });
    project.provide("redisStandalone", address(standalone));
    project.provide("redisCluster", cluster.map(address));
    project.provide("redisSentinel", { name: sentinel.name, sentinels: sentinel.sentinels.map(address) });
  } catch (error) {
    await lab.stop();
    throw error;
  }
  return () => lab.stop();
}
