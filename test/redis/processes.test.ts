import type { ChildProcess } from "node:child_process";
import { Redis } from "ioredis";
import { afterAll, afterEach, describe, expect, inject, it } from "vitest";
import type { Order } from "../support/reader-process.js";
import { until } from "../support/redis-lab.js";
import { heard, LEASE_MS, order, type Site, startSite } from "../support/site.js";

const client = new Redis({ ...inject("redisStandalone"), lazyConnect: true });
const sites: Site[] = [];

afterEach(() => {
  for (const site of sites.splice(0)) site.stop();
});
afterAll(() => client.quit());

async function start(count: number): Promise<Site> {
  const site = await startSite(client, count);
  sites.push(site);
  return site;
}

const one = (processes: readonly ChildProcess[], index: number): ChildProcess => processes[index] as ChildProcess;

describe("real processes on one Redis", () => {
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
    const waiting = processes.slice(1).map((child) => order(child, { do: "read", key: "k", times: 20, loadMs: 50 }));
    await until("somebody waits", async () => (await flagsOf(`${await entryName()}`)) % 2 === 1);
    holder.kill("SIGKILL");
    for (const { values } of await Promise.all(waiting)) expect(values).toEqual(["version 1"]);
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

  it("answer everybody when one of them was stopped in the middle of its load", async () => {
    const { processes, loads } = await start(2);
    const [stopped, other] = [one(processes, 0), one(processes, 1)];
    const loading = heard(stopped, "loading");
    const late = order(stopped, { do: "read", key: "k", times: 1, loadMs: 100 });
    await loading;
    stopped.kill("SIGSTOP");
    // Within its lease nobody takes over.
    const waiting = order(other, { do: "read", key: "k", times: 3, loadMs: 20 });
    await until("somebody waits", async () => (await flagsOf(await entryName())) % 2 === 1);
    stopped.kill("SIGCONT");
    expect((await late).values).toEqual(["version 1"]);
    expect((await waiting).values).toEqual(["version 1"]);
    expect(await loads()).toBeLessThanOrEqual(2);
  }, 30_000);

  async function entryName(): Promise<string> {
    const names = await client.keys("processes-*:1:Key:*");
    const pending = await Promise.all(
      names.map(async (name) => ((await client.getrange(name, 2, 2)) === "P" ? name : "")),
    );
    return pending.find((name) => name !== "") ?? "";
  }

  async function flagsOf(name: string): Promise<number> {
    return name === "" ? 0 : ((await client.getrangeBuffer(name, 3, 3))[0] ?? 0);
  }
});
