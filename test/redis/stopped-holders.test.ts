import type { ChildProcess } from "node:child_process";
import { Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import type { Report } from "../support/reader-process.js";
import { heard, order, type Site, start } from "../support/real-processes.js";
import { elapsed, until } from "../support/redis-lab.js";

const LEASE_MS = 300;
const LOAD_MS = 20;
const client = new Redis({ ...inject("redisStandalone"), lazyConnect: true });
afterAll(() => client.quit());

interface Stopped extends Site {
  readonly holder: ChildProcess;
  readonly other: ChildProcess;
  /** What the holder reports once it goes on. */
  readonly late: Promise<Report>;
}

/** Two processes, the first of them stopped in the middle of its load, as by a frozen machine. */
async function stopped(leaseMs = LEASE_MS): Promise<Stopped> {
  const site = await start(client, 2, leaseMs);
  const [holder, other] = site.processes as [ChildProcess, ChildProcess];
  const loading = heard(holder, "loading");
  const late = order(holder, { do: "read", key: "k", times: 3, loadMs: LOAD_MS });
  await loading;
  holder.kill("SIGSTOP");
  return { ...site, holder, other, late };
}

const read = async (child: ChildProcess): Promise<readonly unknown[]> =>
  (await order(child, { do: "read", key: "k", times: 5, loadMs: LOAD_MS })).values;

async function leavesNothing({ prefix }: Site): Promise<void> {
  for (const key of await client.keys(`${prefix}:*`)) expect(await client.pttl(key), key).toBeGreaterThan(0);
  for (const key of await client.keys(`${prefix}:1:Key:*`))
    expect(await client.getrangeBuffer(key, 8, 39), "gen and token").toEqual(Buffer.alloc(32));
}

describe("a process that is stopped in the middle of its load", () => {
  it("for half a lease keeps the others waiting, and they get its value", async () => {
    const site = await stopped();
    const others = read(site.other);
    await until("somebody waits", site.isAwaited);
    await elapsed(client, LEASE_MS / 2);
    site.holder.kill("SIGCONT");
    expect(await others).toEqual(["version 1"]);
    expect((await site.late).values).toEqual(["version 1"]);
    // On a busy machine it wakes up too late to renew its lease, and then the load is made twice.
    expect(await site.loads()).toBeLessThanOrEqual(2);
    await leavesNothing(site);
  });

  it.each([1.5, 10])("for %s leases loses its lease to one who loads in its place, once", async (leases) => {
    const site = await stopped();
    const others = read(site.other);
    await elapsed(client, leases * LEASE_MS);
    expect(await others).toEqual(["version 1"]);
    site.holder.kill("SIGCONT");
    expect((await site.late).values).toEqual(["version 1"]);
    for (const child of site.processes) expect(await read(child)).toEqual(["version 1"]);
    expect(await site.loads()).toBe(2);
    await leavesNothing(site);
  });

  it("for one and a half leases still gives its value to all, if nobody came meanwhile", async () => {
    // A longer lease, since its entry is kept for three of them and this machine may be busy.
    const site = await stopped(1_000);
    await elapsed(client, 1_500);
    site.holder.kill("SIGCONT");
    expect((await site.late).values).toEqual(["version 1"]);
    expect(await read(site.other)).toEqual(["version 1"]);
    expect(await site.loads()).toBe(1);
    await leavesNothing(site);
  });

  it.each([0.5, 1.5, 10])("for %s leases and written to meanwhile keeps its old value to itself", async (leases) => {
    const site = await stopped();
    await client.set(`${site.prefix}:version`, 2, "PX", 60_000);
    await order(site.other, { do: "invalidate", tag: "k" });
    expect(await read(site.other)).toEqual(["version 2"]);
    await elapsed(client, leases * LEASE_MS);
    site.holder.kill("SIGCONT");
    // They had asked before the write.
    expect((await site.late).values).toEqual(["version 1"]);
    for (const child of site.processes) expect(await read(child)).toEqual(["version 2"]);
    expect(await site.loads()).toBe(2);
    await leavesNothing(site);
  });
});
