import { gate } from "@graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { acquire } from "../../src/stores/redis/scripts/acquire.js";
import { storeValues } from "../../src/stores/redis/scripts/store-values.js";
import { Fleet } from "../support/fleet.js";
import { elapsed, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { type Direction, TcpProxy } from "../support/tcp-proxy.js";
import { afterCaches } from "../support/world.js";

const server = await sharedServer("redisStandalone");
const admin = new Redis({ ...server, lazyConnect: true });
afterAll(() => admin.quit());

let network: TcpProxy;
beforeEach(async () => {
  network = await TcpProxy.before(server);
  afterCaches(() => network.close());
});

/** Two processes, of which only the first uses the bad network. */
function startFleet(cache: object = {}): Fleet {
  let nth = 0;
  const connect = (): Redis =>
    new Redis({ ...(nth++ === 0 ? { host: network.host, port: network.port } : server), retryStrategy: () => 20 });
  return new Fleet({ connect, servers: () => [server], cache });
}

const hasEntry = async (fleet: Fleet, id: string): Promise<boolean> => (await admin.exists(fleet.keyOf(id))) === 1;
const warmUp = async (fleet: Fleet): Promise<void> => {
  for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
};

describe("A slow network", () => {
  it("loads from the source without an error if the delay exceeds the store's time budget", async () => {
    const fleet = startFleet({ storage: { storeTimeoutMs: 100 } });
    await warmUp(fleet);
    network.latencyMs = 200;
    for (let nth = 0; nth < 8; nth++) expect(await fleet.read(0, `id ${nth}`)).toBe(1);
    await fleet.verify();
    for (let nth = 0; nth < 8; nth++) expect(fleet.loads(`id ${nth}`)).toBe(1);
    network.latencyMs = 0;
    await fleet.waitForHit(0, "warm");
  });

  it("uses the cache if the store's time budget exceeds the delay", async () => {
    const fleet = startFleet({ storage: { storeTimeoutMs: 1_500 }, leases: { leaseMs: 2_000 } });
    await warmUp(fleet);
    network.latencyMs = 200;
    expect(await Promise.all([fleet.read(0, "a"), fleet.read(0, "a"), fleet.read(1, "a")])).toEqual([1, 1, 1]);
    await fleet.verify();
    expect(fleet.loads("a")).toBe(1);
  });
});

describe("A network that breaks during a load", () => {
  it("stores the loaded value once the connection is back", async () => {
    const fleet = startFleet({ leases: { leaseMs: 2_000 } });
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const first = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    const second = fleet.read(1, "a");
    network.cut();
    await until("the client is back", () => fleet.clients[0]?.status === "ready");
    loadGate.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    await fleet.verify();
    expect(fleet.loads("a")).toBe(1);
  });

  it("lets another process take over the load and refuses the late value of the first", async () => {
    const fleet = startFleet();
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const first = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    network.isUp = false;
    network.cut();
    const second = fleet.read(1, "a");
    await fleet.waitForLoad("a", 2);
    loadGate.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    expect(await fleet.write(1, "a")).toBe(true);
    network.isUp = true;
    await fleet.waitForHit(0, "a");
    expect(await fleet.read(0, "a")).toBe(2);
    await fleet.verify();
  });

  it("rejects an invalidation and repeats it once the network is back", async () => {
    const fleet = startFleet({ storage: { storeTimeoutMs: 50 } });
    await warmUp(fleet);
    network.isUp = false;
    network.cut();
    expect(await fleet.write(0, "warm")).toBe(false);
    network.isUp = true;
    await until("the new value is served", async () => (await fleet.read(1, "warm")) === 2);
    await fleet.verify();
  });
});

describe("Delayed lease requests", () => {
  const CACHE = { storage: { storeTimeoutMs: 200 }, leases: { leaseMs: 60_000, leaseWaitMs: 60_000 } };

  it("refuses a lease request that arrives after its process has stopped waiting", async () => {
    const fleet = startFleet(CACHE);
    await warmUp(fleet);
    network.hold("requests", acquire.sha);
    expect(await fleet.read(0, "a")).toBe(1);
    await elapsed(admin, 21 * CACHE.storage.storeTimeoutMs);
    await deliverAll("requests", fleet);
    expect(await hasEntry(fleet, "a")).toBe(false);
    expect(await fleet.read(1, "a")).toBe(1);
    await fleet.verify();
    expect(fleet.loads("a")).toBe(2);
  });

  it("releases a granted lease if the grant arrives too late", async () => {
    for (const direction of ["requests", "replies"] as const) {
      const fleet = startFleet(CACHE);
      await warmUp(fleet);
      network.hold(direction, acquire.sha);
      expect(await fleet.read(0, "a")).toBe(1);
      await deliverAll(direction, fleet);
      await until("the lease is released", async () => !(await hasEntry(fleet, "a")));
      expect(await fleet.read(1, "a")).toBe(1);
      await fleet.verify();
      expect(fleet.loads("a")).toBe(2);
    }
  });

  it("grants the same lease again if the client resends the request after a reconnect", async () => {
    const fleet = startFleet({ ...CACHE, storage: { storeTimeoutMs: 2_000 } });
    await warmUp(fleet);
    network.hold("replies", acquire.sha);
    const value = fleet.read(0, "a");
    await until("the lease was granted", () => hasEntry(fleet, "a"));
    network.cut();
    network.deliver("replies");
    expect(await value).toBe(1);
    await fleet.verify();
    expect(fleet.loads("a")).toBe(1);
    expect(fleet.processes[0]?.outcomes()).not.toHaveProperty("bypassed(STORE_UNAVAILABLE)");
  });
});

describe("Delayed messages", () => {
  it("does not store a value that was invalidated while its store request was in transit", async () => {
    for (const by of ["key", "tag"] as const) {
      const fleet = startFleet({ storage: { storeTimeoutMs: 200 } });
      await warmUp(fleet);
      network.hold("requests", storeValues.sha);
      expect(await fleet.read(0, "a")).toBe(1);
      await until("the store request is held back", () => network.heldBytes("requests") > 0);
      expect(await fleet.write(1, "a", by)).toBe(true);
      await deliverAll("requests", fleet);
      for (const nth of [0, 1]) expect(await fleet.read(nth, "a")).toBe(2);
      await fleet.verify();
    }
  });

  it("never takes a late reply for the reply to another request", async () => {
    const fleet = startFleet({ storage: { storeTimeoutMs: 200 } });
    await fleet.write(1, "b"), await fleet.write(1, "c"), await fleet.write(1, "c");
    for (const id of ["a", "b", "c"]) await fleet.waitForHit(0, id);
    network.hold("replies", "MGET");
    expect(await Promise.all(["a", "b", "c"].map((id) => fleet.read(0, id)))).toEqual([1, 2, 3]);
    const more = [fleet.read(0, "b"), fleet.read(0, "c")];
    network.deliver("replies");
    expect(await Promise.all([...more, fleet.read(0, "a")])).toEqual([2, 3, 1]);
    await fleet.verify();
  });
});

/**
 * Delivers the bytes that are held back, and waits until the first process has received all
 * replies.
 */
async function deliverAll(direction: Direction, fleet: Fleet): Promise<void> {
  await until("bytes are held back", () => network.heldBytes(direction) > 0);
  network.deliver(direction);
  await (fleet.clients[0] as Redis).ping();
}
