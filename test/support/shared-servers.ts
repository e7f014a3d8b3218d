import { inject } from "vitest";
import type { Address } from "./server-lab.js";

declare module "vitest" {
  export interface ProvidedContext {
    /** The port of the broker that `global-setup.ts` starts. */
    brokerPort: number;
  }
}

/** What the test files of a run share. */
export interface Shared {
  readonly redisStandalone: Address;
  readonly redisCluster: readonly Address[];
  readonly redisSentinel: { readonly name: string; readonly sentinels: readonly Address[] };
  readonly memcached: readonly [Address, Address, Address];
  /** The module by which databases in files are opened. */
  readonly sqlite: string;
  /** A folder with the compiled command line and programs of the tests. */
  readonly compiled: string;
  /** The same for the servers of the examples. */
  readonly compiledExamples: string;
}

/**
 * Returns the addresses of shared servers. They are started when a test file of the run first asks for them. Each test
 * uses its own key prefix.
 */
export const sharedServer = <Name extends Exclude<keyof Shared, "compiled" | "compiledExamples" | "sqlite">>(
  name: Name,
): Promise<Shared[Name]> => shared(name);

/** Returns what `global-setup.ts` makes when a test file of the run first asks for it. */
export async function shared<Name extends keyof Shared>(name: Name): Promise<Shared[Name]> {
  const response = await fetch(`http://127.0.0.1:${inject("brokerPort")}/${name}`);
  if (!response.ok) throw new Error(`${name}: ${await response.text()}`);
  return (await response.json()) as Shared[Name];
}
