import { randomUUID } from "node:crypto";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { run, startProcesses } from "../support/real-processes.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { VersionedSource } from "../support/versioned-source.js";
import { dataOf, memoryWorld, type Process } from "../support/world.js";

const FIELD = "type Query { value: Int @cached(maxAge: 60) }";
const COORDINATE = "Query.value";

/** Starts processes of a test on one server or cluster, with a source that they share. */
function startFleet(connect: () => Redis | Cluster, size: number, options: object = {}) {
  const prefix = `modes-${randomUUID()}`;
  const source = new VersionedSource();
  const start = (): Process => {
    const client = connect().on("error", () => undefined);
    onTestFinished(() => client.disconnect());
    const settings = { prefix, storage: { storeTimeoutMs: 1_000 }, ...options };
    return memoryWorld(() => redisStore({ client })).process(FIELD, { Query: { value: source.load } }, settings);
  };
  return { prefix, source, start, processes: Array.from({ length: size }, start) };
}

const read = async ({ ask }: Process): Promise<unknown> =>
  ((await dataOf(ask("{ value }"))) as { value: unknown }).value;

/** Reads until a read of the process has `outcome`. */
function untilOutcome(process: Process, outcome: string): Promise<void> {
  const count = (): number => process.outcomes()[outcome] ?? 0;
  const before = count();
  return until(`a read is ${outcome}`, async () => (await read(process), count() > before));
}

const OFF = "bypassed(MODE_OFF)";

describe("The modes", () => {
  const lab = new RedisLab();
  let node: LabNode;
  const connect = (): Redis => new Redis({ host: node.host, port: node.port, retryStrategy: () => 20 });
  beforeAll(async () => {
    node = await lab.standalone();
  });
  afterAll(() => lab.stop());

  it("apply to all operating system processes, and survive a restart of Redis that loses all data", async () => {
    const admin = connect().on("error", () => undefined);
    onTestFinished(() => admin.disconnect());
    const { processes, loads } = await startProcesses(admin, 3, 1_000);
    const readAt = (nth: number) =>
      run(processes[nth] as never, { do: "read", key: "a", times: 1, loadMs: 0 }).then(loads);
    const setMode = (nth: number, mode: "off" | "on") => run(processes[nth] as never, { do: "setMode", mode });
    await readAt(0);
    await until("the value is stored", async () => (await readAt(1)) === 1);
    await setMode(0, "off");
    for (const nth of [0, 1, 2]) {
      const before = await loads();
      expect(await readAt(nth)).toBe(before + 1);
    }
    await node.kill();
    await node.restart();
    await until("Redis replies", async () => (await admin.ping().catch(() => "")) === "PONG");
    for (let round = 0; round < 3; round++)
      for (const nth of [0, 1, 2]) {
        const before = await loads();
        expect(await readAt(nth)).toBe(before + 1);
      }
    await until(
      "the settings have the mode again",
      async () =>
        ((await admin.keys("*#settings")).length > 0 &&
          (await admin.get((await admin.keys("*#settings"))[0] as string))?.includes('"mode":"off"')) === true,
    );
    await setMode(1, "on");
    for (const nth of [0, 1, 2])
      await until(`process ${nth} is served from the cache`, async () => {
        const before = await loads();
        return (await readAt(nth)) === before;
      });
  }, 60_000);

  it("are known to a process that starts after Redis was flushed, once one that knows them has seen it", async () => {
    const { processes, source, start } = startFleet(connect, 2);
    const [one, other] = processes as [Process, Process];
    await untilOutcome(one, "hit");
    await one.cache.setMode("off", { coordinate: COORDINATE });
    await untilOutcome(other, OFF);
    const admin = connect();
    await admin.flushall();
    admin.disconnect();
    const late = start();
    await untilOutcome(late, OFF);
    source.version = 2;
    for (const process of [...processes, late]) {
      const loads = source.loads;
      expect([await read(process), await read(process), source.loads]).toEqual([2, 2, loads + 2]);
    }
  });

  it("reach a process that serves from its near cache alone, and one that reads nothing since its field is off", async () => {
    const { processes } = startFleet(connect, 2, { nearCache: {} });
    const [one, other] = processes as [Process, Process];
    for (const process of processes) for (const _ of [1, 2, 3]) await untilOutcome(process, "hit");
    await one.cache.setMode("off");
    await untilOutcome(other, OFF);
    await one.cache.setMode("on");
    await untilOutcome(other, "hit");
  });

  it("keep the later of two changes, and lose no other change", async () => {
    const { processes } = startFleet(connect, 3);
    const [one, other, third] = processes as [Process, Process, Process];
    await Promise.all([
      one.cache.setMode("off", { coordinate: COORDINATE }),
      other.cache.setMode("off"),
      third.cache.setMode("off", { coordinate: COORDINATE }),
    ]);
    for (const process of processes) await untilOutcome(process, OFF);
    await other.cache.setMode("on", { coordinate: COORDINATE });
    for (const process of processes) await untilOutcome(process, OFF);
    await third.cache.setMode("on");
    for (const process of processes) await untilOutcome(process, "hit");
  });

  it("apply on a Cluster, whichever node the keys of a process are on", async () => {
    const nodes = await sharedServer("redisCluster");
    const { processes } = startFleet(() => new Cluster([...nodes]), 2);
    const [one, other] = processes as [Process, Process];
    await untilOutcome(other, "hit");
    await one.cache.setMode("off", { coordinate: COORDINATE });
    await one.cache.setMode("off");
    await untilOutcome(other, OFF);
    await other.cache.setMode("on");
    await other.cache.setMode("on", { coordinate: COORDINATE });
    await untilOutcome(one, "hit");
  });
});
