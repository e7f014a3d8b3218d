import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { on } from "node:events";
import { inflateRawSync } from "node:zlib";
import { redisStore } from "graphql-cached/redis";
import type { Store, StoreNames } from "graphql-cached/store";
import { Cluster, Redis } from "ioredis";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { VERSION } from "../../src/core/base/version.js";
import { read } from "../project/source.js";
import type { CountingCommand } from "../support/counting-process.js";
import { startProgram } from "../support/programs.js";
import { waitForMessage } from "../support/real-processes.js";
import { until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";

const REPORT_EVERY_MS = 300;
const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});
afterAll(() => client.quit());

interface Shape {
  readonly ports?: readonly number[];
  readonly prefix?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts processes that share a store and report what they count. */
async function start(count: number, { ports, prefix = randomUUID(), env = {} }: Shape = {}): Promise<ChildProcess[]> {
  const own = { PORTS: (ports ?? [(await sharedServer("redisStandalone")).port]).join(","), PREFIX: prefix };
  const settings = { ...own, REPORT_EVERY_MS: String(REPORT_EVERY_MS), ...env };
  const started = await Promise.all(Array.from({ length: count }, () => startProgram("counting-process", settings)));
  children.push(...started);
  await Promise.all(started.map((child) => waitForMessage(child, "ready")));
  return started;
}

/** Sends a command to a process, and resolves with its answer. */
async function run(child: ChildProcess | undefined, command: CountingCommand): Promise<unknown> {
  if (child === undefined) throw new Error("expected a process");
  child.send(command);
  for await (const [message] of on(child, "message"))
    if (typeof message === "object") return (message as { readonly answer?: unknown }).answer;
  throw new Error("expected an answer, but the process ended");
}

async function inspect(child: ChildProcess | undefined, selection: string): Promise<Record<string, unknown>> {
  const { data, errors } = (await run(child, { do: "inspect", selection })) as {
    readonly data: { readonly cacheInspection: Record<string, unknown> };
    readonly errors?: readonly unknown[];
  };
  expect(errors).toBeUndefined();
  return data.cacheInspection;
}

const ids = (count: number): string[] => Array.from({ length: count }, (_, nth) => String(nth));

interface Row {
  readonly coordinate: string;
  readonly stats: { readonly reads: number };
}

/** The reads of the field and of the loader, as a process shows them. */
async function readsAt(child: ChildProcess | undefined, window = "SINCE_START"): Promise<number[]> {
  const { fields } = await inspect(child, `fields(window: ${window}) { coordinate stats { reads } }`);
  const readsOf = (name: string): number =>
    (fields as readonly Row[]).find(({ coordinate }) => coordinate === name)?.stats.reads ?? 0;
  return [readsOf("Query.movie"), readsOf("Film")];
}

const shows = (child: ChildProcess | undefined, reads: readonly number[]) =>
  until(`a process shows ${reads.join(" and ")} reads`, async () => String(await readsAt(child)) === String(reads));

describe("The statistics of a fleet on one Redis", () => {
  it("add up to the requests sent, except for the last interval of a process that was killed, and report that", async () => {
    const fleet = await start(4);
    const [killed, one, two, closed] = fleet;
    for (const [nth, child] of fleet.entries()) {
      await run(child, { do: "field", ids: ids(10 + nth) });
      await run(child, { do: "loader", ids: ids(5 + nth) });
    }
    await shows(one, [46, 26]);
    const { processes } = await inspect(one, "processes { id isThis isAlive missing pid version nodeVersion }");
    expect(processes).toHaveLength(4);
    for (const described of processes as readonly object[])
      expect(described).toMatchObject({ isAlive: true, missing: null, nodeVersion: process.version, version: VERSION });
    expect(new Set((processes as readonly { readonly pid: number }[]).map(({ pid }) => pid))).toEqual(
      new Set(fleet.map(({ pid }) => pid)),
    );
    // What is sent to the process from here on is lost with it, as far as it has not reported it.
    await run(killed, { do: "loader", ids: ids(1) });
    killed?.kill("SIGKILL");
    await run(closed, { do: "field", ids: ids(100) });
    await run(closed, { do: "close" });
    await run(two, { do: "loader", ids: ids(50) });
    await until("the death shows", async () => {
      const { stats } = await inspect(one, "stats { missing }");
      return (stats as { readonly missing: readonly string[] }).missing.length === 1;
    });
    // The death can show before what the others have counted since their last report.
    await until("all others have reported", async () => {
      const [fields = 0, loads = 0] = await readsAt(one);
      return fields >= 146 && loads >= 76;
    });
    const [fields, loads] = await readsAt(one);
    expect(fields).toBe(146);
    // 26 and 50 are reported, the one just before the kill perhaps.
    expect(loads === 76 || loads === 77).toBe(true);
    for (const window of ["ONE_MINUTE", "TEN_MINUTES", "ONE_HOUR"])
      expect(await readsAt(two, window)).toEqual([fields, loads]);
    const { stats } = await inspect(one, "stats { processes missing }");
    const { processes: after } = await inspect(one, "processes { id pid isAlive missing }");
    const dead = (after as readonly { readonly pid: number }[]).find(({ pid }) => pid === killed?.pid);
    expect(dead).toMatchObject({
      isAlive: false,
      missing: `what it has counted after its last report, in ${REPORT_EVERY_MS} ms at most: it ended without closing the cache`,
    });
    expect(stats).toEqual({
      processes: 4,
      missing: [expect.stringMatching(/^process [\w-]+: what it has counted after its last report, in 300 ms at most/)],
    });
    const gone = (after as readonly { readonly pid: number }[]).find(({ pid }) => pid === closed?.pid);
    expect(gone).toMatchObject({ isAlive: false, missing: null });
  }, 60_000);

  it("include processes without the inspection query if their cache has the option to report", async () => {
    const prefix = randomUUID();
    const [inspected] = await start(1, { prefix });
    const [worker] = await start(1, { prefix, env: { REPORT: "true" } });
    await run(worker, { do: "loader", ids: ids(30) });
    await shows(inspected, [0, 30]);
  }, 60_000);

  it("leave nothing without a ttl, nothing of the arguments, and few keys", async () => {
    const prefix = randomUUID();
    const [one, two] = await start(2, { prefix });
    await inspect(one, "hotKeys { reads }");
    const secrets = ids(20).map((id) => `secret-${id}`);
    await run(one, { do: "field", ids: secrets });
    await run(two, { do: "loader", ids: secrets });
    await shows(one, [20, 20]);
    const names = await client.keys(`${prefix}:#log:report*`);
    // The index, and of each process its description, its total, and one bucket of each window, two at a border.
    expect(names.length).toBeLessThanOrEqual(1 + 2 * 8);
    for (const name of names) {
      expect(await client.pttl(name), name).toBeGreaterThan(0);
      const bytes = (await client.type(name)) === "string" ? await client.getBuffer(name) : null;
      const text = bytes === null ? name : name + textOf(bytes);
      expect(text).not.toContain("secret");
    }
  }, 60_000);
});

it("Reports need no command and no name that the documented ACL does not grant", async () => {
  const [, rules = ""] = /ACL SETUSER shop on >password (.+?)```/s.exec(read("docs/stores.md")) ?? [];
  const user = `user-${randomUUID()}`;
  await client.call("ACL", "SETUSER", user, "on", ">password", ...rules.replaceAll("shop", user).trim().split(/\s+/));
  const own = new Redis({ ...(await sharedServer("redisStandalone")), username: user, password: "password" });
  const { reports, open } = bound(redisStore({ client: own }));
  const close = open({
    wakeChannel: `${user}:#wake`,
    invalidationLog: `${user}:#log`,
    clock: `${user}:#clock`,
  });
  const parts = [{ name: "total", bytes: Buffer.from("x"), keepMs: 60_000 }];
  expect(await reports.write({ process: "p", sequence: 1, parts })).toMatchObject({ isFirst: true });
  await reports.ask(1_000);
  expect(await reports.list()).toMatchObject({ processes: [{ id: "p" }] });
  expect(await reports.read([{ process: "p", part: "total" }])).toEqual([Buffer.from("x")]);
  close();
  own.disconnect();
  await client.call("ACL", "DELUSER", user);
}, 30_000);

/** A store that is known to keep reports. */
function bound(store: Store) {
  const { reports } = store;
  if (reports === undefined) throw new Error("expected a store with reports");
  return { reports, open: (names: StoreNames) => store.open(names, () => undefined) };
}

describe("The statistics of a fleet on a Cluster", () => {
  it("add up, with the reports of processes spread over the nodes", async () => {
    const ports = (await sharedServer("redisCluster")).map(({ port }) => port);
    const prefix = randomUUID();
    const fleet = await start(3, { ports, prefix });
    for (const child of fleet) await run(child, { do: "field", ids: ids(10) });
    await shows(fleet[0], [30, 0]);
    const cluster = new Cluster([...(await sharedServer("redisCluster"))]);
    const slots = new Set<string>();
    for (const node of cluster.nodes("master"))
      for (const name of await node.keys(`${prefix}:#log:report:*`)) slots.add(/\{\d+\}/.exec(name)?.[0] ?? "none");
    cluster.disconnect();
    // One hash tag for each process, unless two happen to share one.
    expect(slots.size).toBeLessThanOrEqual(3);
    expect(slots).not.toContain("none");
  }, 60_000);
});

/** Returns what a part of a report says, behind its sequence. */
const textOf = (bytes: Buffer): string => inflateRawSync(bytes.subarray(8)).toString();
