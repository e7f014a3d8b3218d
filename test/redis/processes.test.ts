import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { processAt, processContract } from "../support/process-contract.js";
import type { Command } from "../support/reader-process.js";
import { type ReaderProcesses, run, startProcesses, waitForMessage } from "../support/real-processes.js";
import { PACKAGES_OF_SLOW_TESTS } from "../support/redis-clients.js";
import { until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";

const LEASE_MS = 1_000;
const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

describe("A group of processes on one Redis with a function", () => {
  const start = (count: number): Promise<ReaderProcesses> => startProcesses(client, count, LEASE_MS, { FUNCTION: "1" });
  const untilOneWaits = ({ hasWaiters }: ReaderProcesses) => until("a process waits", hasWaiters);
  processContract({ client, start, leaseMs: LEASE_MS, longLoad: 2, untilOneWaits });
});

describe.each(PACKAGES_OF_SLOW_TESTS)("A group of processes on one Redis, with clients of $name", ({ name }) => {
  const where = name === "node-redis" ? { NODE_REDIS: "1" } : {};
  const start = (count: number): Promise<ReaderProcesses> => startProcesses(client, count, LEASE_MS, where);
  const untilOneWaits = ({ hasWaiters }: ReaderProcesses) => until("a process waits", hasWaiters);
  processContract({ client, start, leaseMs: LEASE_MS, longLoad: 2, untilOneWaits });

  it("executes an operation once for 200 concurrent requests of its response in four processes", async () => {
    const { processes, loads } = await start(4);
    const reports = await Promise.all(processes.map((child) => run(child, { do: "execute", times: 50, loadMs: 300 })));
    for (const { values } of reports) expect(values).toEqual(["version 1"]);
    expect(await loads()).toBe(1);
  });

  it("executes an operation once more when the process that executes it is killed", async () => {
    const { processes, loads, hasWaiters } = await start(3);
    const holder = processAt(processes, 0);
    const loading = waitForMessage(holder, "loading");
    holder.send({ do: "execute", times: 1, loadMs: 60_000 } satisfies Command);
    await loading;
    const waiting = processes.slice(1).map((child) => run(child, { do: "execute", times: 50, loadMs: 50 }));
    await until("a process waits", () => hasWaiters("responses"));
    holder.kill("SIGKILL");
    for (const { values } of await Promise.all(waiting)) expect(values).toEqual(["version 1"]);
    expect(await loads()).toBe(2);
  });

  it("does not wait for a killed lease holder after an invalidation", async () => {
    const { prefix, processes, loads } = await start(2);
    const [holder, other] = [processAt(processes, 0), processAt(processes, 1)];
    const loading = waitForMessage(holder, "loading");
    holder.send({ do: "read", key: "k", times: 1, loadMs: 60_000 } satisfies Command);
    await loading;
    holder.kill("SIGKILL");
    await client.set(`${prefix}:version`, 2, "PX", 60_000);
    await run(other, { do: "invalidate", tag: "k" });
    expect((await run(other, { do: "read", key: "k", times: 5, loadMs: 20 })).values).toEqual(["version 2"]);
    expect(await loads()).toBe(2);
  });
});
