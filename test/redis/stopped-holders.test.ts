import type { ChildProcess } from "node:child_process";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { readEntry } from "../../src/core/store/entry-layout.js";
import type { Report } from "../support/reader-process.js";
import { type ReaderProcesses, run, startProcesses, waitForMessage } from "../support/real-processes.js";
import { elapsed, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";

const LEASE_MS = 300;
const LOAD_MS = 20;
const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

interface StoppedHolder extends ReaderProcesses {
  readonly holder: ChildProcess;
  readonly other: ChildProcess;
  /** The report of the holder, which it sends after it continues. */
  readonly lateReport: Promise<Report>;
}

/** Starts two processes and stops the first during its load, as if its machine had frozen. */
async function stopHolder(leaseMs = LEASE_MS): Promise<StoppedHolder> {
  const processes = await startProcesses(client, 2, leaseMs);
  const [holder, other] = processes.processes as [ChildProcess, ChildProcess];
  const loading = waitForMessage(holder, "loading");
  const lateReport = run(holder, { do: "read", key: "k", times: 3, loadMs: LOAD_MS });
  await loading;
  holder.kill("SIGSTOP");
  return { ...processes, holder, other, lateReport };
}

const read = async (child: ChildProcess): Promise<readonly unknown[]> =>
  (await run(child, { do: "read", key: "k", times: 5, loadMs: LOAD_MS })).values;

/** Checks that no lease is left and that every key but the settings and the clock has a ttl. */
async function expectNothingLeft({ prefix }: ReaderProcesses): Promise<void> {
  for (const key of await client.keys(`${prefix}:*`))
    if (!key.startsWith(`${prefix}:#clock`)) expect(await client.pttl(key), key).toBeGreaterThan(0);
  for (const key of await client.keys(`${prefix}:3:Key:*`))
    expect(readEntry((await client.getBuffer(key)) as Buffer), key).toMatchObject({ gen: "", untilAt: 0 });
}

describe("A lease holder that is stopped during its load", () => {
  it("makes other processes wait for its value if the holder continues within half a lease", async () => {
    // Far longer than it takes to see a process that waits, however busy the machine is.
    const stopped = await stopHolder(20_000);
    const others = read(stopped.other);
    await until("a process waits", stopped.hasWaiters);
    stopped.holder.kill("SIGCONT");
    expect(await others).toEqual(["version 1"]);
    expect((await stopped.lateReport).values).toEqual(["version 1"]);
    expect(await stopped.loads()).toBe(1);
    await expectNothingLeft(stopped);
  });

  it.each([1.5, 4])("loses its lease to one other process if the holder is stopped for %s leases", async (leases) => {
    const stopped = await stopHolder();
    const others = read(stopped.other);
    await elapsed(client, leases * LEASE_MS);
    expect(await others).toEqual(["version 1"]);
    stopped.holder.kill("SIGCONT");
    expect((await stopped.lateReport).values).toEqual(["version 1"]);
    for (const child of stopped.processes) expect(await read(child)).toEqual(["version 1"]);
    expect(await stopped.loads()).toBe(2);
    await expectNothingLeft(stopped);
  });

  it("still stores its value if the holder continues after 1.5 leases and no other process requested the key", async () => {
    // The entry is kept for three leases. The lease is longer here, since the machine may be busy.
    const stopped = await stopHolder(1_000);
    await elapsed(client, 1_500);
    stopped.holder.kill("SIGCONT");
    expect((await stopped.lateReport).values).toEqual(["version 1"]);
    expect(await read(stopped.other)).toEqual(["version 1"]);
    expect(await stopped.loads()).toBe(1);
    await expectNothingLeft(stopped);
  });

  it.each([0.5, 1.5, 4])(
    "does not store its old value after %s leases if the key was invalidated meanwhile",
    async (leases) => {
      const stopped = await stopHolder();
      await client.set(`${stopped.prefix}:version`, 2, "PX", 60_000);
      await run(stopped.other, { do: "invalidate", tag: "k" });
      expect(await read(stopped.other)).toEqual(["version 2"]);
      await elapsed(client, leases * LEASE_MS);
      stopped.holder.kill("SIGCONT");
      // These reads began before the write.
      expect((await stopped.lateReport).values).toEqual(["version 1"]);
      for (const child of stopped.processes) expect(await read(child)).toEqual(["version 2"]);
      expect(await stopped.loads()).toBe(2);
      await expectNothingLeft(stopped);
    },
  );
});
