import { gate } from "@graphql-cached/testing";
import type { CacheOptions } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const lab = new RedisLab();
let node: LabNode;
let admin: Redis;

beforeAll(async () => {
  node = await lab.standalone();
  admin = new Redis(node.port, node.host);
});
afterAll(async () => {
  admin.disconnect();
  await lab.stop();
});

const startFleet = (size = 2, cache: CacheOptions<never> = {}, wrap?: (store: Store) => Store): Fleet =>
  new Fleet({
    connect: () => new Redis(node.port, node.host),
    servers: () => [node],
    size,
    cache,
    ...(wrap && { wrap }),
  });
/** Longer than a reconnection takes on a slow machine: no lease runs out meanwhile. */
const LONG_LEASE: CacheOptions<never> = { leases: { leaseMs: 10_000 } };

const waitForWaiter = (fleet: Fleet): Promise<void> =>
  until("a process waits", async () => {
    const [flags = 0] = await admin.getrangeBuffer(fleet.keyOf("a"), 3, 3);
    return flags % 2 === 1;
  });

describe("A Redis that is flushed during a load", () => {
  it("lets one waiting process load again after a flush and refuses the value of the first load", async () => {
    let waitingProcesses = 0;
    const fleet = startFleet(3, LONG_LEASE, (store) => {
      const acquire = store.acquire.bind(store);
      store.acquire = async (...args) => {
        const grants = await acquire(...args);
        if (grants.some(({ kind }) => kind === "busy")) waitingProcesses++;
        return grants;
      };
      return store;
    });
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const first = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    const others = [1, 1, 2, 2].map((nth) => fleet.read(nth, "a"));
    // Both: a lease request that is under way during the flush is granted for the record that was lost.
    await until("both other processes wait", () => waitingProcesses === 2);
    await admin.flushall();
    // The first waiter that finds the entry gone loads: one of the two other processes, not both.
    await fleet.waitForLoad("a", 2);
    loadGate.open();
    expect(await Promise.all([first, ...others])).toEqual([1, 1, 1, 1, 1]);
    await fleet.verify();
    expect(fleet.loads("a")).toBe(2);
    await fleet.waitForRefusal(0);
  });

  it("does not store the old value after a flush and an invalidation", async () => {
    const fleet = startFleet();
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    void fleet.read(0, "a");
    await fleet.waitForLoad("a");
    await admin.flushall();
    expect(await fleet.write(1, "a")).toBe(true);
    const late = fleet.read(1, "a");
    await fleet.waitForLoad("a", 2);
    loadGate.open();
    expect(await late).toBe(2);
    expect(await fleet.read(0, "a")).toBe(2);
    await fleet.verify();
    expect(fleet.loads("a")).toBe(2);
  });
});

describe("A Redis that loses its script cache", () => {
  it("sends lost scripts again, stores the value of the load, and starts no second load", async () => {
    const fleet = startFleet();
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const first = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    const second = fleet.read(1, "a");
    await waitForWaiter(fleet);
    await admin.script("FLUSH");
    loadGate.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    await fleet.verify();
    expect(fleet.loads("a")).toBe(1);
  });

  it("sends lost scripts again for an invalidation", async () => {
    const fleet = startFleet();
    for (const by of ["tag", "key"] as const) {
      await fleet.read(0, by);
      await fleet.waitForHit(1, by);
      await admin.script("FLUSH");
      expect(await fleet.write(0, by, by)).toBe(true);
      expect(await fleet.read(1, by)).toBe(2);
    }
    await fleet.verify();
  });
});

describe("A Redis that drops connections while a process waits for a load", () => {
  it("starts no second load when data connections break", async () => {
    const fleet = startFleet(2, LONG_LEASE);
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const first = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    const second = fleet.read(1, "a");
    await waitForWaiter(fleet);
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await until("the clients are back", () => fleet.clients.every(({ status }) => status === "ready"));
    loadGate.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    await fleet.verify();
    await fleet.waitForHit(1, "a");
    expect(fleet.loads("a")).toBe(1);
  });

  it("starts no second load when the wake-up connection breaks", async () => {
    const fleet = startFleet(2, LONG_LEASE);
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const first = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    const second = fleet.read(1, "a");
    await waitForWaiter(fleet);
    await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    loadGate.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    await fleet.verify();
    expect(fleet.loads("a")).toBe(1);
  });
});
