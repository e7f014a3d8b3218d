import type { ChildProcess } from "node:child_process";
import type { Redis } from "ioredis";
import { expect, it } from "vitest";
import type { Command } from "./reader-process.js";
import { type ReaderProcesses, run, waitForMessage } from "./real-processes.js";

/** What a store is tested with by real processes. */
export interface ProcessStore {
  /** Where their source is. */
  readonly client: Redis;
  /** Starts processes on one store. */
  start(count: number): Promise<ReaderProcesses>;
  readonly leaseMs: number;
  /** How many leases a load takes that renews its lease. */
  readonly longLoad: number;
  /** Waits until a process of a group waits for a load. Absent: the store does not tell. */
  readonly untilOneWaits?: (group: ReaderProcesses) => Promise<unknown>;
}

export const processAt = (processes: readonly ChildProcess[], index: number): ChildProcess =>
  processes[index] as ChildProcess;

/** The tests that hold for processes on every store. */
export function processContract({ client, start, leaseMs, longLoad, untilOneWaits }: ProcessStore): void {
  it("loads a cold key once for 1,000 concurrent reads in four processes", async () => {
    const { processes, loads } = await start(4);
    const reports = await Promise.all(
      processes.map((child) => run(child, { do: "read", key: "k", times: 250, loadMs: 300 })),
    );
    for (const { values } of reports) expect(values).toEqual(["version 1"]);
    expect(await loads()).toBe(1);
  });

  it("renews a lease that is shorter than the load", async () => {
    const { processes, loads } = await start(2);
    const reports = await Promise.all(
      processes.map((child) => run(child, { do: "read", key: "k", times: 5, loadMs: leaseMs * longLoad })),
    );
    for (const { values } of reports) expect(values).toEqual(["version 1"]);
    expect(await loads()).toBe(1);
  });

  it("loads once more when the lease holder is killed during its load", async () => {
    const group = await start(3);
    const { processes, loads } = group;
    const holder = processAt(processes, 0);
    const loading = waitForMessage(holder, "loading");
    holder.send({ do: "read", key: "k", times: 1, loadMs: 60_000 } satisfies Command);
    await loading;
    const ask = () =>
      Promise.all(processes.slice(1).map((child) => run(child, { do: "read", key: "k", times: 20, loadMs: 50 })));
    const waiting = untilOneWaits && ask();
    await untilOneWaits?.(group);
    holder.kill("SIGKILL");
    for (const { values } of await (waiting ?? ask())) expect(values).toEqual(["version 1"]);
    expect(await loads()).toBe(2);
  });

  it("does not store a value that a stopped process loaded before an invalidation", async () => {
    const { prefix, processes } = await start(2);
    const [stopped, other] = [processAt(processes, 0), processAt(processes, 1)];
    const loading = waitForMessage(stopped, "loading");
    const late = run(stopped, { do: "read", key: "k", times: 1, loadMs: 100 });
    await loading;
    stopped.kill("SIGSTOP");
    await client.set(`${prefix}:version`, 2);
    await run(other, { do: "invalidate", tag: "k" });
    expect((await run(other, { do: "read", key: "k", times: 3, loadMs: 20 })).values).toEqual(["version 2"]);
    stopped.kill("SIGCONT");
    expect((await late).values).toEqual(["version 1"]);
    for (const child of processes)
      expect((await run(child, { do: "read", key: "k", times: 3, loadMs: 20 })).values).toEqual(["version 2"]);
  });
}
