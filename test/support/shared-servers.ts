import { inject } from "vitest";
import type { Address } from "./server-lab.js";

declare module "vitest" {
  export interface ProvidedContext {
    serverBrokerPort: number;
  }
}

/** The servers that the test files of a run share. Each test uses its own key prefix. */
export interface SharedServers {
  readonly redisStandalone: Address;
  readonly redisCluster: readonly Address[];
  readonly redisSentinel: { readonly name: string; readonly sentinels: readonly Address[] };
  readonly memcached: readonly [Address, Address, Address];
}

/** Returns the addresses of shared servers. They are started when a test file of the run first asks for them. */
export async function sharedServer<Name extends keyof SharedServers>(name: Name): Promise<SharedServers[Name]> {
  const response = await fetch(`http://127.0.0.1:${inject("serverBrokerPort")}/${name}`);
  if (!response.ok) throw new Error(`sharedServer: expected ${name} to start, got ${await response.text()}`);
  return (await response.json()) as SharedServers[Name];
}
