import type { ChildProcess } from "node:child_process";
import { Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import type { Order } from "../support/reader-process.js";
import { heard, order, type Site, start as startProcesses } from "../support/real-processes.js";

const client = new Redis({ ...inject("redisStandalone"), lazyConnect: true });
afterAll(() => client.quit());

const LEASE_MS = 400;
const start = (count: number): Promise<Site> => startProcesses(client, count, LEASE_MS, inject("memcached")[0].port);

const one = (processes: readonly ChildProcess[], index: number): ChildProcess => processes[index] as ChildProcess;

describe("real processes on one memcached", () => {
  it("load a cold key once, four times two hundred and fifty calls", async () => {
    const { processes, loads } = await start(4);
    const reports = await Promise.all(
      processes.map((child) => order(child, { do: "read", key: "k", times: 250, loadMs: 300 })),
    );
    for (const { values } of reports) expect(values).toEqual(["version 1"]);
    expect(await loads()).toBe(1);
  }, 30_000);

  it("keep a short lease through a long load", async () => {
    const { processes, loads } = await start(2);
    const reports = await Promise.all(
      processes.map((child) => order(child, { do: "read", key: "k", times: 5, loadMs: LEASE_MS * 4 })),
    );
    for (const { values } of reports) expect(values).toEqual(["version 1"]);
    expect(await loads()).toBe(1);
  }, 30_000);

  it("take over from one that is killed in the middle of its load, with one load more", async () => {
    const { processes, loads } = await start(3);
    const holder = one(processes, 0);
    const loading = heard(holder, "loading");
    holder.send({ do: "read", key: "k", times: 1, loadMs: 60_000 } satisfies Order);
    await loading;
    holder.kill("SIGKILL");
    const others = processes.slice(1).map((child) => order(child, { do: "read", key: "k", times: 20, loadMs: 50 }));
    for (const { values, slowestMs } of await Promise.all(others)) {
      expect(values).toEqual(["version 1"]);
      expect(slowestMs).toBeLessThan(LEASE_MS + 2_500);
    }
    expect(await loads()).toBe(2);
  }, 30_000);

  it("do not store what one that was stopped has loaded before an invalidation", async () => {
    const { prefix, processes } = await start(2);
    const [stopped, other] = [one(processes, 0), one(processes, 1)];
    const loading = heard(stopped, "loading");
    const late = order(stopped, { do: "read", key: "k", times: 1, loadMs: 100 });
    await loading;
    stopped.kill("SIGSTOP");
    await client.set(`${prefix}:version`, 2);
    await order(other, { do: "invalidate", tag: "k" });
    expect((await order(other, { do: "read", key: "k", times: 3, loadMs: 20 })).values).toEqual(["version 2"]);
    stopped.kill("SIGCONT");
    expect((await late).values).toEqual(["version 1"]);
    for (const child of processes)
      expect((await order(child, { do: "read", key: "k", times: 3, loadMs: 20 })).values).toEqual(["version 2"]);
  }, 30_000);
});
