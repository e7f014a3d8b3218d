import type { ChildProcess } from "node:child_process";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { type ReaderProcesses, run, startProcesses } from "../support/real-processes.js";
import { sharedServer } from "../support/shared-servers.js";

const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

const CLIENTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ioredis: {},
  "node-redis": { NODE_REDIS: "1" },
};

/** Has a process load a value and freeze with its answer, and another one read it then. Returns how often it was loaded. */
async function loadsOf({ processes, loads }: ReaderProcesses, settles: boolean): Promise<number> {
  const [frozen, other] = processes as [ChildProcess, ChildProcess];
  const answer = await run(frozen, { do: "answer", key: "k", loadMs: 20, settles });
  const read = await run(other, { do: "read", key: "k", times: 3, loadMs: 20 });
  expect([answer.values, read.values]).toEqual([["version 1"], ["version 1"]]);
  return loads();
}

describe.each(Object.entries(CLIENTS))("A process on %s that is frozen with its answer", (_, variables) => {
  // While the lease lasts, another process gets the value only if it was stored.
  const LONG_MS = 60_000;

  it("has stored its value if it has awaited `cache.settled()`", async () => {
    expect(await loadsOf(await startProcesses(client, 2, LONG_MS, variables), true)).toBe(1);
  });

  it("has stored its value with `storeBeforeResponse`", async () => {
    const processes = await startProcesses(client, 2, LONG_MS, { ...variables, STORE_FIRST: "1" });
    expect(await loadsOf(processes, false)).toBe(1);
  });

  it("has lost its value without them, which others load once its lease has ended", async () => {
    expect(await loadsOf(await startProcesses(client, 2, 300, variables), false)).toBe(2);
  });
});
