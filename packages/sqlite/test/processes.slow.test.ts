import { rmSync } from "node:fs";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { cleanups } from "../../../test/support/cleanups.js";
import { processAt, processContract } from "../../../test/support/process-contract.js";
import { type ReaderProcesses, run, startProcesses } from "../../../test/support/real-processes.js";
import { shared, sharedServer } from "../../../test/support/shared-servers.js";
import { sqliteFolder } from "../../../test/support/sqlite-files.js";

/** The source of the processes. */
const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

/** Longer than a busy machine keeps a process from renewing it. */
const LEASE_MS = 1_000;

async function start(count: number): Promise<ReaderProcesses & { readonly folder: string }> {
  const { path, folder, remove } = sqliteFolder();
  const env = { SQLITE_PATH: path, SQLITE_MODULE: await shared("sqlite") };
  const started = await startProcesses(client, count, LEASE_MS, env);
  cleanups.push(remove);
  return { ...started, folder };
}

describe("A group of processes on one file", () => {
  processContract({ client, start, leaseMs: LEASE_MS, longLoad: 2 });

  it("reads what the others have written when processes end and start again", async () => {
    const { prefix, processes, loads, folder } = await start(2);
    // The second one reads what the first has stored.
    for (const child of processes) await run(child, { do: "read", key: "k", times: 1, loadMs: 0 });
    for (const child of processes) child.kill("SIGKILL");
    const env = { SQLITE_PATH: `${folder}/cache.db`, SQLITE_MODULE: await shared("sqlite"), PREFIX: prefix };
    const again = await startProcesses(client, 1, LEASE_MS, env);
    expect((await run(processAt(again.processes, 0), { do: "read", key: "k", times: 1, loadMs: 0 })).values).toEqual([
      "version 1",
    ]);
    expect(await loads()).toBe(1);
  }, 30_000);

  it("serves nothing that was invalidated before when the files are deleted under it, whichever process finds out first", async () => {
    const { prefix, processes, folder } = await start(3);
    const readAll = async (): Promise<unknown[]> => {
      const reports = processes.map((child) => run(child, { do: "read", key: "k", times: 3, loadMs: 5 }));
      return [...new Set((await Promise.all(reports)).flatMap(({ values }) => values))];
    };
    for (let version = 1; version <= 6; version++) {
      await client.set(`${prefix}:version`, version);
      await run(processAt(processes, version % 3), { do: "invalidate", tag: "k" });
      expect(await readAll()).toEqual([`version ${version}`]);
      // Meanwhile a process may create a file again.
      rmSync(folder, { recursive: true, maxRetries: 20, retryDelay: 5 });
    }
  }, 30_000);
});
