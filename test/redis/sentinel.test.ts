import { gate } from "@graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type ClientPackage, PACKAGES_OF_SLOW_TESTS, type StoreClient } from "../support/redis-clients.js";
import { type Address, type LabNode, RedisLab, type SentinelGroup, until } from "../support/redis-lab.js";

const lab = new RedisLab();
let group: SentinelGroup;
let sentinel: Redis;

// Each test has its own group, because sentinels start no second failover soon after one.
beforeEach(async () => {
  group = await lab.sentinel();
  sentinel = new Redis({ ...(group.sentinels[0] as Address) });
});
afterEach(() => sentinel.disconnect());
afterAll(() => lab.stop());

/** Returns the current master. */
async function currentMaster(): Promise<LabNode> {
  const [, port] = (await sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", group.name)) as [string, string];
  return Number(port) === group.master.port ? group.master : group.replica;
}

async function startFleet(clients: ClientPackage): Promise<Fleet<StoreClient>> {
  const servers: LabNode[] = [];
  const fleet = new Fleet({
    connect: () => clients.sentinel(group),
    servers: () => servers,
    cache: { leases: { leaseMs: 1_000 }, storage: { storeTimeoutMs: 200 } },
  });
  for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
  const old = await currentMaster();
  servers.push(old === group.master ? group.replica : group.master);
  const replica = new Redis({ ...servers[0] });
  await until("the replica has the entry", async () => (await replica.exists(fleet.keyOf("warm"))) === 1);
  replica.disconnect();
  return fleet;
}

describe.each(PACKAGES_OF_SLOW_TESTS)("A Sentinel failover during a load, with a client of $name", (clients) => {
  it("causes extra loads but no failed request or stale read after SENTINEL FAILOVER", async () => {
    const fleet = await startFleet(clients);
    const old = await currentMaster();
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const results = [fleet.read(0, "a")];
    await fleet.waitForLoad("a");
    results.push(fleet.read(1, "a"));
    await sentinel.call("SENTINEL", "FAILOVER", group.name);
    await until("the other server is the master", async () => (await currentMaster()) !== old);
    loadGate.open();
    expect(await Promise.all(results)).toEqual([1, 1]);
    await fleet.readDuring(["warm", "id 0", "id 1"], async () => {
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "a");
      await until("the write is confirmed", () => fleet.write(0, "a"));
    });
    for (const nth of [0, 1]) expect(await fleet.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await fleet.verify();
  });

  it("causes extra loads but no failed request or stale read after the master was killed", async () => {
    const fleet = await startFleet(clients);
    const old = await currentMaster();
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const results = [fleet.read(0, "a")];
    await fleet.waitForLoad("a");
    results.push(fleet.read(1, "a"));
    await old.kill();
    loadGate.open();
    expect(await Promise.all(results)).toEqual([1, 1]);
    await fleet.readDuring(["warm", "id 0", "id 1"], async () => {
      await until("the other server is the master", async () => (await currentMaster()) !== old);
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "a");
      await until("the write is confirmed", () => fleet.write(1, "a", "key"));
    });
    for (const nth of [0, 1]) expect(await fleet.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await fleet.verify();
  });
});
