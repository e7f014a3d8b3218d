import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { processAt, processContract } from "../../../test/support/process-contract.js";
import type { Command } from "../../../test/support/reader-process.js";
import { type ReaderProcesses, run, startProcesses, waitForMessage } from "../../../test/support/real-processes.js";
import { sharedServer } from "../../../test/support/shared-servers.js";

const [memcached] = await sharedServer("memcached");
const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

const LEASE_MS = 1_000;
const start = (count: number): Promise<ReaderProcesses> =>
  startProcesses(client, count, LEASE_MS, { MEMCACHED_PORT: String(memcached.port) });

describe("A group of processes on one memcached", () => {
  processContract({ client, start, leaseMs: LEASE_MS, longLoad: 2 });

  it("executes an operation once more when the process that executes it is killed", async () => {
    const { processes, loads } = await start(3);
    const holder = processAt(processes, 0);
    const loading = waitForMessage(holder, "loading");
    holder.send({ do: "execute", times: 1, loadMs: 60_000 } satisfies Command);
    await loading;
    holder.kill("SIGKILL");
    const others = processes.slice(1).map((child) => run(child, { do: "execute", times: 20, loadMs: 50 }));
    for (const { values } of await Promise.all(others)) expect(values).toEqual(["version 1"]);
    expect(await loads()).toBe(2);
  });
});
