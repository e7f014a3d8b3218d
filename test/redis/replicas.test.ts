import { gate } from "@graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { afterCaches } from "../support/world.js";

const lab = new RedisLab();
let master: LabNode;
let replica: LabNode;
/** The connection from the replica to its master. */
let link: TcpProxy;
let admin: { readonly master: Redis; readonly replica: Redis };

beforeAll(async () => {
  [master, replica] = await Promise.all([lab.standalone(), lab.standalone()]);
  link = await TcpProxy.before(master);
  admin = { master: new Redis(master.port, master.host), replica: new Redis(replica.port, replica.host) };
});
afterAll(async () => {
  admin.master.disconnect();
  admin.replica.disconnect();
  await link.close();
  await lab.stop();
});

/** Makes the replica follow the master, and waits until it has caught up. */
async function follow(): Promise<void> {
  link.deliver("replies");
  await admin.replica.replicaof(link.host, link.port);
  await until("the replica follows", async () =>
    (await admin.replica.info("replication")).includes("master_link_status:up"),
  );
  await admin.master.set("caught up", 1, "EX", 60);
  await admin.master.wait(1, 5_000);
}

describe("A client connected to a replica", () => {
  it("serves hits from the replica, loads missing values from the source, and never fails a read", async () => {
    await admin.replica.replicaof("NO", "ONE");
    const fleet = new Fleet({ connect: () => new Redis(replica.port, replica.host), servers: () => [replica] });
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
    await follow();
    // The master has none of the entries, so neither has the replica.
    for (let nth = 0; nth < 8; nth++) expect(await fleet.read(0, `id ${nth}`)).toBe(1);
    for (let nth = 0; nth < 8; nth++) expect(fleet.loads(`id ${nth}`)).toBe(1);
    expect(await fleet.write(0, "warm")).toBe(false);
    const failures = fleet.processes[0]?.events.flatMap((event) =>
      event.name === "store.failed" ? [event.error] : [],
    );
    expect(failures?.some((error) => `${error}`.includes("READONLY"))).toBe(true);
    await fleet.verify();
    await admin.replica.replicaof("NO", "ONE");
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "id 0");
    await until("the failed invalidation is repeated", async () => (await fleet.read(1, "warm")) === 2);
    await fleet.verify();
  });
});

/**
 * Promotes the replica, which lacks the last writes of the master, and sends the processes to it.
 */
async function promoteReplica(fleet: Fleet, address: TcpProxy): Promise<void> {
  address.pointTo(replica);
  address.cut();
  link.cut();
  await admin.replica.replicaof("NO", "ONE");
  await until("the processes are back", () => fleet.clients.every(({ status }) => status === "ready"));
}

/** Starts a fleet that reaches the master through a proxy, then stops the replication. */
async function startFleet(): Promise<{ fleet: Fleet; address: TcpProxy }> {
  await follow();
  const address = await TcpProxy.before(master);
  afterCaches(() => address.close());
  const connect = (): Redis => new Redis(address.port, address.host, { retryStrategy: () => 20 });
  const fleet = new Fleet({
    connect,
    servers: () => [replica],
    cache: { memory: false, leases: { leaseMs: 1_000 }, storage: { storeTimeoutMs: 1_000 } },
  });
  for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
  await admin.master.wait(1, 5_000);
  // From here on the replica receives nothing.
  link.hold("replies", "REPLCONF");
  await until("the replica lags", () => (admin.master.set("lag", 1, "EX", 60), link.heldBytes("replies") > 0));
  return { fleet, address };
}

describe("A lagging replica that is promoted", () => {
  it("allows a second load if the new master lacks the lease, and stores only one of the two values", async () => {
    const { fleet, address } = await startFleet();
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const first = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    await promoteReplica(fleet, address);
    const second = fleet.read(1, "a");
    await fleet.waitForLoad("a", 2);
    loadGate.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "a");
    await fleet.verify();
    expect(fleet.loads("a")).toBe(2);
    await fleet.waitForRefusal(0);
  });

  it("refuses a value whose load began before an invalidation if the new master lacks the lease", async () => {
    const { fleet, address } = await startFleet();
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const first = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    await promoteReplica(fleet, address);
    for (const by of ["key", "tag"] as const) expect(await fleet.write(1, "a", by)).toBe(true);
    loadGate.open();
    expect(await first).toBe(1);
    for (const nth of [0, 1]) expect(await fleet.read(nth, "a")).toBe(3);
    await fleet.verify();
  });

  it("loads a value once more if the new master lacks the entry", async () => {
    const { fleet, address } = await startFleet();
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "a");
    await promoteReplica(fleet, address);
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "a");
    await fleet.waitForHit(0, "warm");
    await fleet.verify();
    expect(fleet.loads("a")).toBeGreaterThanOrEqual(2);
    expect(fleet.stored("a")).toBe(2);
    expect(fleet.stored("warm")).toBe(1);
  });

  it.each(["key", "tag"] as const)("undoes no confirmed invalidation by %s that the new master lacks", async (by) => {
    const { fleet, address } = await startFleet();
    expect(await fleet.write(0, "warm", by)).toBe(true);
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
    expect(fleet.loads("warm")).toBe(2);
    await promoteReplica(fleet, address);
    // The new master has the first value, and no record that it is outdated.
    for (const nth of [0, 1]) expect(await fleet.read(nth, "warm")).toBe(2);
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
    await fleet.verify();
    expect(fleet.loads("warm")).toBeGreaterThan(2);
  });
});
