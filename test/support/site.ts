import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { on } from "node:events";
import { fileURLToPath } from "node:url";
import type { Redis } from "ioredis";
import type { Order, Report } from "./reader-process.js";

/** How long a process of a site holds a lease. */
export const LEASE_MS = 400;

/** Some processes that read the same keys, and what their source has counted. */
export interface Site {
  readonly prefix: string;
  readonly processes: readonly ChildProcess[];
  loads(): Promise<number>;
  /** Ends the processes. */
  stop(): void;
}

/** Starts `count` processes whose source is on the Redis of `client`, and whose cache is too unless `memcachedPort` says where it is. */
export async function startSite(client: Redis, count: number, memcachedPort?: number): Promise<Site> {
  const prefix = `processes-${randomUUID()}`;
  await client.set(`${prefix}:version`, 1);
  const env = {
    ...process.env,
    PORT: String(client.options.port),
    PREFIX: prefix,
    LEASE_MS: String(LEASE_MS),
    ...(memcachedPort === undefined ? {} : { MEMCACHED_PORT: String(memcachedPort) }),
  };
  const program = fileURLToPath(new URL("./reader-process.ts", import.meta.url));
  const processes = Array.from({ length: count }, () => fork(program, { env, execArgv: ["--import", "tsx"] }));
  await Promise.all(processes.map((child) => heard(child, "ready")));
  return {
    prefix,
    processes,
    loads: async () => Number(await client.get(`${prefix}:loads`)),
    stop: () => {
      for (const child of processes) child.kill("SIGKILL");
    },
  };
}

/** Resolves once the process has said `word`. */
export async function heard(child: ChildProcess, word: string): Promise<void> {
  for await (const [said] of on(child, "message")) if (said === word) return;
}

/** What the process answers to an order. */
export async function order(child: ChildProcess, what: Order): Promise<Report> {
  child.send(what);
  for await (const [said] of on(child, "message")) if (typeof said === "object") return said as Report;
  throw new Error("the process ended");
}
