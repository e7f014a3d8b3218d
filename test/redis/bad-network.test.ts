import { gate } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it } from "vitest";
import { acquire } from "../../src/redis/scripts/acquire.js";
import { storeValues } from "../../src/redis/scripts/store-values.js";
import { Fleet } from "../support/fleet.js";
import { elapsed, until } from "../support/redis-lab.js";
import { TcpProxy, type Way } from "../support/tcp-proxy.js";
import { afterCaches } from "../support/world.js";

const server = inject("redisStandalone");
const admin = new Redis({ ...server, lazyConnect: true });
afterAll(() => admin.quit());

let network: TcpProxy;
beforeEach(async () => {
  network = await TcpProxy.before(server);
  afterCaches(() => network.close());
});

/** The first process is behind the bad network, the second one is not. */
function fleet(cache: object = {}): Fleet {
  let nth = 0;
  const connect = (): Redis =>
    new Redis({ ...(nth++ === 0 ? { host: network.host, port: network.port } : server), retryStrategy: () => 20 });
  return new Fleet({ connect, servers: () => [server], cache });
}

const isThere = async (site: Fleet, id: string): Promise<boolean> => (await admin.exists(site.keyOf(id))) === 1;
const warm = async (site: Fleet): Promise<void> => {
  for (const nth of [0, 1]) await site.recovered(nth, "warm");
};

describe("a network that takes 200 ms each way", () => {
  it("is slower than the budget: requests are answered by the source, and none fails", async () => {
    const site = fleet({ storeTimeoutMs: 100 });
    await warm(site);
    network.latencyMs = 200;
    for (let nth = 0; nth < 8; nth++) expect(await site.read(0, `id ${nth}`)).toBe(1);
    await site.ended();
    for (let nth = 0; nth < 8; nth++) expect(site.loads(`id ${nth}`)).toBe(1);
    network.latencyMs = 0;
    await site.recovered(0, "warm");
  });

  it("is within a budget that is long enough, and the cache is used", async () => {
    const site = fleet({ storeTimeoutMs: 1_500, leaseMs: 2_000 });
    await warm(site);
    network.latencyMs = 200;
    expect(await Promise.all([site.read(0, "a"), site.read(0, "a"), site.read(1, "a")])).toEqual([1, 1, 1]);
    await site.ended();
    expect(site.loads("a")).toBe(1);
  });
});

describe("a network that is cut in the middle of a load", () => {
  it("leaves the holder his value, which is stored once the network is back", async () => {
    const site = fleet({ leaseMs: 2_000 });
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    const second = site.read(1, "a");
    network.cut();
    await until("the client is back", () => site.clients[0]?.status === "ready");
    door.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    await site.ended();
    expect(site.loads("a")).toBe(1);
  });

  it("has the others take over, if it stays away, and the holder's value is not stored over theirs", async () => {
    const site = fleet();
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    network.isUp = false;
    network.cut();
    const second = site.read(1, "a");
    await site.loading("a", 2);
    door.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    expect(await site.write(1, "a")).toBe(true);
    network.isUp = true;
    await site.recovered(0, "a");
    expect(await site.read(0, "a")).toBe(2);
    await site.ended();
  });

  it("does not count an invalidation that it swallowed as done, and it is made up for", async () => {
    const site = fleet({ storeTimeoutMs: 50 });
    await warm(site);
    network.isUp = false;
    network.cut();
    expect(await site.write(0, "warm")).toBe(false);
    network.isUp = true;
    await until("the new value is served", async () => (await site.read(1, "warm")) === 2);
    await site.ended();
  });
});

describe("a leaseRequest for a lease", () => {
  const CACHE = { storeTimeoutMs: 200, leaseMs: 60_000, leaseWaitMs: 60_000 };

  it("that comes long after its asker has gone on alone is refused", async () => {
    const site = fleet(CACHE);
    await warm(site);
    network.hold("requests", acquire.sha);
    expect(await site.read(0, "a")).toBe(1);
    await elapsed(admin, 6 * CACHE.storeTimeoutMs);
    await arrival("requests", site);
    expect(await isThere(site, "a")).toBe(false);
    expect(await site.read(1, "a")).toBe(1);
    await site.ended();
    expect(site.loads("a")).toBe(2);
  });

  it("that was granted, but too late for its asker, is let go", async () => {
    for (const way of ["requests", "replies"] as const) {
      const site = fleet(CACHE);
      await warm(site);
      network.hold(way, acquire.sha);
      expect(await site.read(0, "a")).toBe(1);
      await arrival(way, site);
      await until("the lease is let go", async () => !(await isThere(site, "a")));
      expect(await site.read(1, "a")).toBe(1);
      await site.ended();
      expect(site.loads("a")).toBe(2);
    }
  });

  it("that was granted just before the network was cut is its asker's when his client sends it once more", async () => {
    const site = fleet({ ...CACHE, storeTimeoutMs: 2_000 });
    await warm(site);
    network.hold("replies", acquire.sha);
    const asked = site.read(0, "a");
    await until("the lease was granted", () => isThere(site, "a"));
    network.cut();
    network.deliver("replies");
    expect(await asked).toBe(1);
    await site.ended();
    expect(site.loads("a")).toBe(1);
    expect(site.processes[0]?.outcomes()).not.toHaveProperty("bypassed(STORE_UNAVAILABLE)");
  });
});

describe("what comes late", () => {
  it("is not stored, if it was invalidated on its way", async () => {
    for (const by of ["key", "tag"] as const) {
      const site = fleet({ storeTimeoutMs: 200 });
      await warm(site);
      network.hold("requests", storeValues.sha);
      expect(await site.read(0, "a")).toBe(1);
      await until("the store request is on its way", () => network.waiting("requests") > 0);
      expect(await site.write(1, "a", by)).toBe(true);
      await arrival("requests", site);
      for (const nth of [0, 1]) expect(await site.read(nth, "a")).toBe(2);
      await site.ended();
    }
  });

  it("is nobody else's answer", async () => {
    const site = fleet({ storeTimeoutMs: 200 });
    await site.write(1, "b"), await site.write(1, "c"), await site.write(1, "c");
    for (const id of ["a", "b", "c"]) await site.recovered(0, id);
    network.hold("replies", "MGET");
    expect(await Promise.all(["a", "b", "c"].map((id) => site.read(0, id)))).toEqual([1, 2, 3]);
    const more = [site.read(0, "b"), site.read(0, "c")];
    network.deliver("replies");
    expect(await Promise.all([...more, site.read(0, "a")])).toEqual([2, 3, 1]);
    await site.ended();
  });
});

/** Everything that waited has arrived, and was answered: the last one on this connection asks. */
async function arrival(way: Way, site: Fleet): Promise<void> {
  await until("something waits", () => network.waiting(way) > 0);
  network.deliver(way);
  await (site.clients[0] as Redis).ping();
}
