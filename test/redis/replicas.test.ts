import { gate } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { afterCaches } from "../support/world.js";

const lab = new RedisLab();
let master: LabNode;
let replica: LabNode;
/** How the replica hears of its master. */
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

/** The replica follows the master, and has all it has. */
async function follow(): Promise<void> {
  link.deliver("replies");
  await admin.replica.replicaof(link.host, link.port);
  await until("the replica follows", async () =>
    (await admin.replica.info("replication")).includes("master_link_status:up"),
  );
  await admin.master.set("caught up", 1, "EX", 60);
  await admin.master.wait(1, 5_000);
}

describe("a client that is connected to a replica", () => {
  it("gets hits from it, loads what is not there, and never an error", async () => {
    await admin.replica.replicaof("NO", "ONE");
    const site = new Fleet({ connect: () => new Redis(replica.port, replica.host), servers: () => [replica] });
    for (const nth of [0, 1]) await site.recovered(nth, "warm");
    await follow();
    // The master has nothing of it.
    for (let nth = 0; nth < 8; nth++) expect(await site.read(0, `id ${nth}`)).toBe(1);
    for (let nth = 0; nth < 8; nth++) expect(site.loads(`id ${nth}`)).toBe(1);
    expect(await site.write(0, "warm")).toBe(false);
    const failures = site.processes[0]?.events.flatMap((event) => (event.name === "store.failed" ? [event.error] : []));
    expect(failures?.some((error) => `${error}`.includes("READONLY"))).toBe(true);
    await site.ended();
    await admin.replica.replicaof("NO", "ONE");
    for (const nth of [0, 1]) await site.recovered(nth, "id 0");
    await until("the kept invalidation was made", async () => (await site.read(1, "warm")) === 2);
    await site.ended();
  });
});

/** Processes whose address is taken over by the replica, which has not heard of the master's last writes. */
async function promoted(site: Fleet, address: TcpProxy): Promise<void> {
  address.pointTo(replica);
  address.cut();
  link.cut();
  await admin.replica.replicaof("NO", "ONE");
  await until("the processes are back", () => site.clients.every(({ status }) => status === "ready"));
}

async function behindAddress(): Promise<{ site: Fleet; address: TcpProxy }> {
  await follow();
  const address = await TcpProxy.before(master);
  afterCaches(() => address.close());
  const connect = (): Redis => new Redis(address.port, address.host, { retryStrategy: () => 20 });
  const site = new Fleet({ connect, servers: () => [replica], cache: { leaseMs: 1_000, storeTimeoutMs: 1_000 } });
  for (const nth of [0, 1]) await site.recovered(nth, "warm");
  await admin.master.wait(1, 5_000);
  // From here on the replica hears nothing.
  link.hold("replies", "REPLCONF");
  await until("the replica lags", () => (admin.master.set("lag", 1, "EX", 60), link.waiting("replies") > 0));
  return { site, address };
}

describe("a replica that is promoted before it has heard of everything", () => {
  it("and of a lease, lets a second process load, and takes the value of one of them", async () => {
    const { site, address } = await behindAddress();
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    await promoted(site, address);
    const second = site.read(1, "a");
    await site.loading("a", 2);
    door.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    for (const nth of [0, 1]) await site.recovered(nth, "a");
    await site.ended();
    expect(site.loads("a")).toBe(2);
    await site.refused(0);
  });

  it("and of a lease, refuses the value of a load that began before a write it has heard of", async () => {
    const { site, address } = await behindAddress();
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    await promoted(site, address);
    for (const by of ["key", "tag"] as const) expect(await site.write(1, "a", by)).toBe(true);
    door.open();
    expect(await first).toBe(1);
    for (const nth of [0, 1]) expect(await site.read(nth, "a")).toBe(3);
    await site.ended();
  });

  it("and of a value, has it loaded once more", async () => {
    const { site, address } = await behindAddress();
    for (const nth of [0, 1]) await site.recovered(nth, "a");
    await promoted(site, address);
    for (const nth of [0, 1]) await site.recovered(nth, "a");
    await site.recovered(0, "warm");
    await site.ended();
    expect(site.loads("a")).toBeGreaterThanOrEqual(2);
    expect(site.stored("a")).toBe(2);
    expect(site.stored("warm")).toBe(1);
  });
});
