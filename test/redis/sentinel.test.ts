import { gate } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type Address, type LabNode, RedisLab, type SentinelGroup, until } from "../support/redis-lab.js";

const lab = new RedisLab();
let group: SentinelGroup;
let sentinel: Redis;

// Each test its own: soon after one fail-over sentinels begin no other.
beforeEach(async () => {
  group = await lab.sentinel();
  sentinel = new Redis({ ...(group.sentinels[0] as Address) });
});
afterEach(() => sentinel.disconnect());
afterAll(() => lab.stop());

async function master(): Promise<LabNode> {
  const [, port] = (await sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", group.name)) as [string, string];
  return Number(port) === group.master.port ? group.master : group.replica;
}

async function fleet(): Promise<Fleet> {
  const connect = (): Redis =>
    new Redis({
      name: group.name,
      sentinels: [...group.sentinels],
      retryStrategy: () => 50,
      sentinelRetryStrategy: () => 50,
    });
  const servers: LabNode[] = [];
  const site = new Fleet({ connect, servers: () => servers, cache: { leaseMs: 1_000, storeTimeoutMs: 200 } });
  for (const nth of [0, 1]) await site.recovered(nth, "warm");
  const old = await master();
  servers.push(old === group.master ? group.replica : group.master);
  const copy = new Redis({ ...servers[0] });
  await until("the replica has it too", async () => (await copy.exists(site.keyOf("warm"))) === 1);
  copy.disconnect();
  return site;
}

describe("a Sentinel that fails over in the middle of a load", () => {
  it("since it was told to, costs loads; nobody fails, and what is written afterwards is seen", async () => {
    const site = await fleet();
    const old = await master();
    const door = gate();
    site.door = door.passed;
    const answers = [site.read(0, "a")];
    await site.loading("a");
    answers.push(site.read(1, "a"));
    await sentinel.call("SENTINEL", "FAILOVER", group.name);
    await until("the other one is the master", async () => (await master()) !== old);
    door.open();
    expect(await Promise.all(answers)).toEqual([1, 1]);
    await site.underLoad(["warm", "id 0", "id 1"], async () => {
      for (const nth of [0, 1]) await site.recovered(nth, "a");
      await until("the write is acknowledged", () => site.write(0, "a"));
    });
    for (const nth of [0, 1]) expect(await site.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await site.ended();
  });

  it("since the master was killed, costs loads; nobody fails, and the cache is used again", async () => {
    const site = await fleet();
    const old = await master();
    const door = gate();
    site.door = door.passed;
    const answers = [site.read(0, "a")];
    await site.loading("a");
    answers.push(site.read(1, "a"));
    await old.kill();
    door.open();
    expect(await Promise.all(answers)).toEqual([1, 1]);
    await site.underLoad(["warm", "id 0", "id 1"], async () => {
      await until("the other one is the master", async () => (await master()) !== old);
      for (const nth of [0, 1]) await site.recovered(nth, "a");
      await until("the write is acknowledged", () => site.write(1, "a", "key"));
    });
    for (const nth of [0, 1]) expect(await site.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await site.ended();
  });
});
