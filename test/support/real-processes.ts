import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { on } from "node:events";
import type { Redis } from "ioredis";
import { cleanups } from "./cleanups.js";
import { startProgram } from "./programs.js";
import type { Command, Report } from "./reader-process.js";

/** Operating system processes that share one store and one source. They end with the test. */
export interface ReaderProcesses {
  readonly prefix: string;
  readonly processes: readonly ChildProcess[];
  /** Returns the number of loads that have begun. */
  loads(): Promise<number>;
  /** Returns whether a process waits for the load in progress of a coordinate, by default "Key". */
  hasWaiters(coordinate?: string): Promise<boolean>;
}

/**
 * Starts `count` processes. Their source is on the Redis of `client`; so is their cache, unless it is `where` a variable
 * says, see `reader-process.ts`.
 */
export async function startProcesses(
  client: Redis,
  count: number,
  leaseMs: number,
  where: Readonly<Record<string, string>> = {},
): Promise<ReaderProcesses> {
  const prefix = `processes-${randomUUID()}`;
  await client.set(`${prefix}:version`, 1, "PX", 60_000);
  const env = { PORT: String(client.options.port), PREFIX: prefix, LEASE_MS: String(leaseMs), ...where };
  const processes = await Promise.all(Array.from({ length: count }, () => startProgram("reader-process", env)));
  cleanups.push(...processes.map((child) => () => child.kill("SIGKILL")));
  await Promise.all(processes.map((child) => waitForMessage(child, "ready")));
  return {
    prefix,
    processes,
    loads: async () => Number(await client.get(`${prefix}:loads`)),
    hasWaiters: async (coordinate = "Key") => {
      const keys = await client.keys(`${prefix}:3:${coordinate}:*`);
      const heads = await Promise.all(keys.map((key) => client.getrangeBuffer(key, 2, 3)));
      return heads.some(([state, flags = 0]) => state === "P".charCodeAt(0) && flags % 2 === 1);
    },
  };
}

/** Resolves once the process has sent `expected`. */
export async function waitForMessage(child: ChildProcess, expected: string): Promise<void> {
  for await (const [message] of on(child, "message")) if (message === expected) return;
}

/** Sends a command to a process and resolves with its report. */
export async function run(child: ChildProcess, command: Command): Promise<Report> {
  child.send(command);
  for await (const [message] of on(child, "message")) if (typeof message === "object") return message as Report;
  throw new Error("expected a report, but the process ended");
}
