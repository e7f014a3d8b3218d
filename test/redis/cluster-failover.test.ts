import { randomUUID } from "node:crypto";
import { gate } from "graphql-cached/testing";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeySpace } from "../../src/keys/key.js";
import { slotOfKey } from "../../src/redis/key-slot.js";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const lab = new RedisLab();
/** Three masters, followed by the replica of the first. */
let nodes: readonly LabNode[];

beforeAll(async () => {
  nodes = await lab.cluster({ replicas: 1, nodeTimeoutMs: 600 });
  for (const { host, port } of nodes) {
    const node = new Redis(port, host);
    await node.config("SET", "cluster-require-full-coverage", "no");
    node.disconnect();
  }
});
afterAll(() => lab.stop());

const masterOf = (key: string): number => Math.floor(slotOfKey(key) / Math.ceil(16_384 / 3));

/** Starts a fleet whose invalidation log is on the master `logMaster`. */
function startFleet(servers: readonly LabNode[], logMaster: number): Fleet {
  let prefix = randomUUID();
  while (masterOf(createKeySpace(prefix).invalidationLog) !== logMaster) prefix = randomUUID();
  const connect = (): Cluster => new Cluster(nodes.map(({ host, port }) => ({ host, port })));
  return new Fleet({
    prefix,
    connect,
    servers: () => servers,
    cache: { leases: { leaseMs: 1_000 }, storage: { storeTimeoutMs: 200 } },
  });
}

/** Returns an id whose entry and whose tag version are on the given master. */
function idOn(fleet: Fleet, master: number, prefix: string): string {
  for (let nth = 0; ; nth++) {
    const id = `${prefix} ${nth}`;
    if (masterOf(fleet.keyOf(id)) === master && masterOf(fleet.tagOf(id)) === master) return id;
  }
}

describe("A Cluster whose master is killed during a load", () => {
  it("resumes after the replica takes over, without a failed request or a stale value", async () => {
    const fleet = startFleet(nodes.slice(1), 0);
    const [lost, warm, kept] = [idOn(fleet, 0, "a"), idOn(fleet, 0, "b"), idOn(fleet, 1, "c")] as const;
    for (const id of [warm, kept]) for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const results = [fleet.read(0, lost)];
    await fleet.waitForLoad(lost);
    results.push(fleet.read(1, lost));
    await nodes[0]?.kill();
    loadGate.open();
    expect(await Promise.all(results)).toEqual([1, 1]);
    await fleet.readDuring([kept], async () => {
      for (const id of [lost, warm]) for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
      await until("the write is confirmed", () => fleet.write(0, lost));
    });
    for (const nth of [0, 1]) expect(await fleet.read(nth, lost)).toBeGreaterThanOrEqual(2);
    await fleet.verify();
  });

  it("serves the slots of the other masters if the killed one has no replica, and loads the rest", async () => {
    const fleet = startFleet([nodes[2] as LabNode, nodes[3] as LabNode], 1);
    const [lost, kept] = [idOn(fleet, 1, "a"), idOn(fleet, 2, "b")] as const;
    for (const id of [lost, kept]) for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
    await nodes[1]?.kill();
    for (const nth of [0, 1]) expect(await fleet.read(nth, lost)).toBe(1);
    const other = new Redis({ ...(nodes[2] as LabNode) });
    await until("the other masters have noticed", async () =>
      String(await other.cluster("INFO")).includes("cluster_slots_fail:5"),
    );
    other.disconnect();
    for (const nth of [0, 1]) await fleet.waitForHit(nth, kept);
    expect(await fleet.write(0, kept, "key")).toBe(true);
    for (const nth of [0, 1]) expect(await fleet.read(nth, kept)).toBe(2);
    // The invalidation log was on the lost master, so the invalidation fails. The tag's version
    // changes all the same.
    expect(await fleet.write(0, kept, "tag")).toBe(false);
    await until("the new value is served", async () => (await fleet.read(1, kept)) === 3);
    expect(await fleet.read(0, kept)).toBe(3);
    expect(await Promise.all([fleet.read(0, lost), fleet.read(0, kept)])).toEqual([1, 3]);
    await fleet.verify();
  });
});
