import { gate } from "@graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type ClientPackage, isConnected, PACKAGES, type StoreClient } from "../support/redis-clients.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const lab = new RedisLab();
const admins: Redis[] = [];
afterEach(() => {
  for (const admin of admins.splice(0)) admin.disconnect();
});
afterAll(() => lab.stop());

/** Starts two processes on a server that the test can kill and restart. */
async function startFleet(
  { server }: ClientPackage,
  extra: readonly string[] = [],
  options: object = {},
  storeTimeoutMs = 500,
): Promise<{ fleet: Fleet<StoreClient>; node: LabNode; admin: () => Redis }> {
  const node = await lab.standalone(...extra);
  const admin = (): Redis => {
    const client = new Redis(node.port, node.host, { retryStrategy: () => 20, enableReadyCheck: false });
    client.on("error", () => undefined);
    admins.push(client);
    return client;
  };
  const fleet = new Fleet({
    connect: () => server(node, options),
    servers: () => [node],
    cache: { storage: { storeTimeoutMs }, leases: { leaseMs: 10_000 } },
  });
  for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
  return { fleet, node, admin };
}

/**
 * Starts a load in process 0, and a request in process 1 that waits for it. `finishLoad` lets the
 * load end.
 */
async function startLoad(fleet: Fleet<StoreClient>): Promise<{ results: Promise<number>[]; finishLoad: () => void }> {
  const { passed, open } = gate();
  fleet.loadGate = passed;
  const first = fleet.read(0, "a");
  await fleet.waitForLoad("a");
  return { results: [first, fleet.read(1, "a")], finishLoad: open };
}

describe.each(PACKAGES)("A Redis that is killed during a load, with a client of $name", (clients) => {
  it("stores no earlier value after Redis restarts empty, and loads its entries again", async () => {
    const { fleet, node } = await startFleet(clients);
    const { results, finishLoad } = await startLoad(fleet);
    await node.kill();
    finishLoad();
    // While the server is down, requests are answered from the source.
    expect(await Promise.all([...results, fleet.read(0, "a"), fleet.read(1, "warm")])).toEqual([1, 1, 1, 1]);
    const loads = fleet.loads("warm");
    await node.restart();
    for (const id of ["warm", "a"]) for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
    await fleet.verify();
    expect(fleet.loads("warm")).toBeGreaterThan(loads);
  });

  it("refuses a late value after Redis restarted empty during the load", async () => {
    const { fleet, node } = await startFleet(clients);
    const { results, finishLoad } = await startLoad(fleet);
    await node.kill();
    await node.restart();
    await until("both clients are connected", () => fleet.clients.every(isConnected));
    await until("the write is confirmed", () => fleet.write(1, "a"));
    const late = fleet.read(1, "a");
    await fleet.waitForLoad("a", 2);
    finishLoad();
    await Promise.all([...results, late]);
    for (const nth of [0, 1]) expect(await fleet.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await fleet.verify();
  });

  it("serves the stored entries and accepts the value of the load after Redis restarts with its data", async () => {
    // A disk that others use takes its time for each write.
    const durable = ["--appendonly", "yes", "--appendfsync", "always"];
    const { fleet, node } = await startFleet(clients, durable, {}, 5_000);
    const { results, finishLoad } = await startLoad(fleet);
    await node.kill();
    await node.restart();
    await until("both clients are connected", () => fleet.clients.every(isConnected));
    finishLoad();
    expect(await Promise.all(results)).toEqual([1, 1]);
    for (const id of ["warm", "a"]) for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
    expect(fleet.stored("warm")).toBeLessThanOrEqual(1);
    expect(fleet.loads("a")).toBeLessThanOrEqual(2);
    expect(await fleet.write(0, "warm")).toBe(true);
    expect(await fleet.read(1, "warm")).toBe(2);
    await fleet.verify();
  });

  it("refuses a late value after an invalidation if Redis restarts from a snapshot older than the lease", async () => {
    const { fleet, node, admin } = await startFleet(clients);
    await admin().save();
    const { results, finishLoad } = await startLoad(fleet);
    await node.kill();
    await node.restart();
    await until("both clients are connected", () => fleet.clients.every(isConnected));
    await until("the write is confirmed", () => fleet.write(1, "a", "key"));
    finishLoad();
    await Promise.all(results);
    for (const nth of [0, 1]) expect(await fleet.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await fleet.waitForHit(0, "warm");
    await fleet.verify();
  });
});

describe.each(PACKAGES)("A Redis that is loading its data, with a client of $name", (clients) => {
  it("causes misses but no errors while it replies LOADING, and serves its entries afterwards", async () => {
    const { fleet, node, admin } = await startFleet(clients, [], { enableReadyCheck: false });
    const client = admin();
    const noise = client.pipeline();
    for (let nth = 0; nth < 400; nth++) noise.set(`noise:${nth}`, "x".repeat(500), "EX", 60);
    await noise.exec();
    await client.save();
    await node.kill();
    // 400 keys take 1.5 ms each.
    const restarted = node.restart("--key-load-delay", "1500", "--loading-process-events-interval-bytes", "1024");
    const reply = (): Promise<string> => admin().get("any").then(String, String);
    await until("the server replies LOADING", async () => (await reply()).includes("LOADING"));
    for (const nth of [0, 1]) expect(await fleet.read(nth, "warm")).toBe(1);
    await restarted;
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
    await fleet.verify();
    const events = fleet.processes.flatMap((process) => process.events);
    expect(events.some((event) => event.name === "store.failed" && `${event.error}`.includes("LOADING"))).toBe(true);
    expect(fleet.stored("warm")).toBeLessThanOrEqual(1);
  });
});
