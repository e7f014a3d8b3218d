import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { on } from "node:events";
import { fileURLToPath } from "node:url";
import type { Redis } from "ioredis";
import { afterEach } from "vitest";
import type { Order, Report } from "./reader-process.js";

const children: ChildProcess[] = [];

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

/** Real processes of the operating system on one Redis, before one source. They end with the test. */
export interface Site {
  readonly prefix: string;
  readonly processes: readonly ChildProcess[];
  loads(): Promise<number>;
  /** Whether somebody waits for the load that is under way. */
  isAwaited(): Promise<boolean>;
}

/**
 * Starts so many, whose source is on the Redis of `client`, the test's own, and whose cache is too unless `memcachedPort` says where it is.
 */
export async function start(client: Redis, count: number, leaseMs: number, memcachedPort?: number): Promise<Site> {
  const prefix = `processes-${randomUUID()}`;
  await client.set(`${prefix}:version`, 1, "PX", 60_000);
  const memcached = memcachedPort === undefined ? {} : { MEMCACHED_PORT: String(memcachedPort) };
  const own = { PORT: String(client.options.port), PREFIX: prefix, LEASE_MS: String(leaseMs) };
  const env = { ...process.env, ...own, ...memcached };
  const program = fileURLToPath(new URL("./reader-process.ts", import.meta.url));
  const processes = Array.from({ length: count }, () => fork(program, { env, execArgv: ["--import", "tsx"] }));
  children.push(...processes);
  await Promise.all(processes.map((child) => heard(child, "ready")));
  return {
    prefix,
    processes,
    loads: async () => Number(await client.get(`${prefix}:loads`)),
    isAwaited: async () => {
      const keys = await client.keys(`${prefix}:1:Key:*`);
      const heads = await Promise.all(keys.map((key) => client.getrangeBuffer(key, 2, 3)));
      return heads.some(([state, flags = 0]) => state === "P".charCodeAt(0) && flags % 2 === 1);
    },
  };
}

/** Resolves once the process has said `word`. */
export async function heard(child: ChildProcess, word: string): Promise<void> {
  for await (const [said] of on(child, "message")) if (said === word) return;
}

export async function order(child: ChildProcess, what: Order): Promise<Report> {
  child.send(what);
  for await (const [said] of on(child, "message")) if (typeof said === "object") return said as Report;
  throw new Error("the process ended");
}
