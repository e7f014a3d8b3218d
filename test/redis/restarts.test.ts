import { gate } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const lab = new RedisLab();
const admins: Redis[] = [];
afterEach(() => {
  for (const admin of admins.splice(0)) admin.disconnect();
});
afterAll(() => lab.stop());

/** Two processes on a server that can be killed and started again. */
async function fleet(
  extra: readonly string[] = [],
  options: object = {},
): Promise<{ site: Fleet; node: LabNode; admin: () => Redis }> {
  const node = await lab.standalone(...extra);
  const connect = (): Redis =>
    new Redis(node.port, node.host, { retryStrategy: () => 20, ...options }).on("error", () => undefined);
  const admin = (): Redis => {
    const client = connect();
    admins.push(client);
    return client;
  };
  const site = new Fleet({ connect, servers: () => [node], cache: { storeTimeoutMs: 100, leaseMs: 1_000 } });
  for (const nth of [0, 1]) await site.recovered(nth, "warm");
  return { site, node, admin };
}

/** A load of process 0 is under way, and one request of process 1 waits for it. */
async function midLoad(site: Fleet): Promise<{ answers: Promise<number>[]; open: () => void }> {
  const { passed, open } = gate();
  site.door = passed;
  const first = site.read(0, "a");
  await site.loading("a");
  return { answers: [first, site.read(1, "a")], open };
}

describe("a Redis that is killed in the middle of a load", () => {
  it("and comes back empty gets no value of before, and what was in it is loaded again", async () => {
    const { site, node } = await fleet();
    const { answers, open } = await midLoad(site);
    await node.kill();
    open();
    // While it is away everybody is answered, from the source.
    expect(await Promise.all([...answers, site.read(0, "a"), site.read(1, "warm")])).toEqual([1, 1, 1, 1]);
    const loads = site.loads("warm");
    await node.restart();
    for (const id of ["warm", "a"]) for (const nth of [0, 1]) await site.recovered(nth, id);
    await site.ended();
    expect(site.loads("warm")).toBeGreaterThan(loads);
  });

  it("and comes back empty while the load goes on refuses its value", async () => {
    const { site, node } = await fleet();
    const { answers, open } = await midLoad(site);
    await node.kill();
    await node.restart();
    await until("both are back", () => site.clients.every(({ status }) => status === "ready"));
    await until("the write is acknowledged", () => site.write(1, "a"));
    const late = site.read(1, "a");
    await site.loading("a", 2);
    open();
    await Promise.all([...answers, late]);
    for (const nth of [0, 1]) expect(await site.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await site.ended();
  });

  it("and comes back with its data serves it, takes the value of the load, and lets who waited have it", async () => {
    const { site, node } = await fleet(["--appendonly", "yes", "--appendfsync", "always"]);
    const { answers, open } = await midLoad(site);
    await node.kill();
    await node.restart();
    await until("both are back", () => site.clients.every(({ status }) => status === "ready"));
    open();
    expect(await Promise.all(answers)).toEqual([1, 1]);
    for (const id of ["warm", "a"]) for (const nth of [0, 1]) await site.recovered(nth, id);
    expect(site.stored("warm")).toBeLessThanOrEqual(1);
    expect(site.loads("a")).toBeLessThanOrEqual(2);
    expect(await site.write(0, "warm")).toBe(true);
    expect(await site.read(1, "warm")).toBe(2);
    await site.ended();
  });

  it("and comes back with what it had saved forgets later leases, and refuses their values once written to", async () => {
    const { site, node, admin } = await fleet();
    await admin().save();
    const { answers, open } = await midLoad(site);
    await node.kill();
    await node.restart();
    await until("both are back", () => site.clients.every(({ status }) => status === "ready"));
    await until("the write is acknowledged", () => site.write(1, "a", "key"));
    open();
    await Promise.all(answers);
    for (const nth of [0, 1]) expect(await site.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await site.recovered(0, "warm");
    await site.ended();
  });
});

describe("a Redis that is still loading its data", () => {
  it("is taken for one that is away: misses, no errors, and its data is used once it is loaded", async () => {
    const { site, node, admin } = await fleet([], { enableReadyCheck: false });
    const client = admin();
    const noise = client.pipeline();
    for (let nth = 0; nth < 400; nth++) noise.set(`noise:${nth}`, "x".repeat(500), "EX", 60);
    await noise.exec();
    await client.save();
    await node.kill();
    // 400 keys, one and a half milliseconds each.
    const responder = node.restart("--key-load-delay", "1500", "--loading-process-events-interval-bytes", "1024");
    const says = (): Promise<string> => admin().get("any").then(String, String);
    await until("it says that it is loading", async () => (await says()).includes("LOADING"));
    for (const nth of [0, 1]) expect(await site.read(nth, "warm")).toBe(1);
    await responder;
    for (const nth of [0, 1]) await site.recovered(nth, "warm");
    await site.ended();
    const events = site.processes.flatMap((process) => process.events);
    expect(events.some((event) => event.name === "store.failed" && `${event.error}`.includes("LOADING"))).toBe(true);
    expect(site.stored("warm")).toBeLessThanOrEqual(1);
  });
});
