import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { on } from "node:events";
import { setTimeout } from "node:timers/promises";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterEach, expect, it } from "vitest";
import type { CountingCommand } from "../support/counting-process.js";
import { startProgram } from "../support/programs.js";
import { waitForMessage } from "../support/real-processes.js";
import { until } from "../support/redis-lab.js";
import { shared, sharedServer } from "../support/shared-servers.js";

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

async function start(env: Readonly<Record<string, string>>): Promise<ChildProcess> {
  const child = await startProgram("counting-process", env);
  children.push(child);
  await waitForMessage(child, "ready");
  return child;
}

/** Sends a command to a process, and resolves with its answer. */
async function run(child: ChildProcess, command: CountingCommand): Promise<unknown> {
  child.send(command);
  for await (const [message] of on(child, "message"))
    if (typeof message === "object") return (message as { readonly answer?: unknown }).answer;
  throw new Error("expected an answer, but the process ended");
}

it.each([
  ["one Redis", async () => [(await sharedServer("redisStandalone")).port]],
  ["a Cluster", async () => (await shared("redisCluster")).map(({ port }) => port)],
])("a process shows what another one and a worker have counted and invalidated on %s", async (_, portsOf) => {
  const env = { PORTS: (await portsOf()).join(","), PREFIX: randomUUID() };
  const [one, other, worker] = await Promise.all([start(env), start(env), start({ ...env, REPORT: "yes" })]);
  await run(one, { do: "field", ids: ["1"] });
  await run(other, { do: "field", ids: ["1", "2"] });
  await run(worker, { do: "loader", ids: ["1", "2", "3"] });
  await run(worker, { do: "invalidate" });
  const selection = `counts { processes fields { coordinate sinceStart { reads } } } processes { pid } missing
    entry(coordinate: "Query.movie", args: { id: 1 }) { use reasons { reason invalidation { process invalidation { via } } } }`;
  let shown: unknown;
  await until("all processes are shown", async () => {
    const { data } = (await run(one, { do: "inspect", selection })) as { data: { cacheInspection: object } };
    shown = data.cacheInspection;
    return (shown as { counts: { processes: number } }).counts.processes === 3;
  });
  expect(shown).toMatchObject({
    counts: {
      fields: [
        { coordinate: "Film", sinceStart: { reads: 3 } },
        { coordinate: "Query.movie", sinceStart: { reads: 3 } },
      ],
    },
    missing: null,
    entry: {
      use: "NONE",
      reasons: [{ reason: "FIELD_INVALIDATED", invalidation: { invalidation: { via: "cache.invalidate" } } }],
    },
  });
  const pids = (shown as { processes: { pid: number }[] }).processes.map(({ pid }) => pid);
  expect(new Set(pids)).toEqual(new Set([one, other, worker].map(({ pid }) => pid)));
});

it("names of processes leave the list without anybody who reads it, and the newest thousand are read", async () => {
  const { port } = await sharedServer("redisStandalone");
  const client = new Redis({ port });
  const store = redisStore({ client });
  const reports = `{${randomUUID()}}:reports`;
  const close = store.open(
    { wakeChannel: `${reports}:wake`, clock: `${reports}:clock`, reports },
    { wake: () => undefined },
  );
  const write = (process: string, ttlMs: number) => store.writeReport?.(process, Buffer.from(process), ttlMs);
  try {
    await Promise.all(Array.from({ length: 20 }, (_, nth) => write(`ended${nth}`, 20)));
    await setTimeout(50);
    await Promise.all(Array.from({ length: 100 }, (_, nth) => write(`older${nth}`, 30_000)));
    await Promise.all(Array.from({ length: 1_000 }, (_, nth) => write(`newer${nth}`, 60_000)));
    expect(await client.zcard(`${reports}:{0}`)).toBe(1_100);
    const found = ((await store.readReports?.()) ?? []).map((bytes) => Buffer.from(bytes).toString());
    expect(found).toHaveLength(1_000);
    expect(found.every((process) => process.startsWith("newer"))).toBe(true);
  } finally {
    close();
    await client.quit();
  }
});
