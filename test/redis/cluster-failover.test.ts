import { gate } from "@graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { slotOfKey } from "../../src/stores/redis/pipeline.js";
import { Fleet } from "../support/fleet.js";
import { type ClientPackage, PACKAGES_OF_SLOW_TESTS, type StoreClient } from "../support/redis-clients.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const lab = new RedisLab();
/** Three masters, followed by the replica of the first. */
let nodes: readonly LabNode[];
afterAll(() => lab.stop());

const masterOf = (key: string): number => Math.floor(slotOfKey(key) / Math.ceil(16_384 / 3));

function startFleet(clients: ClientPackage, servers: readonly LabNode[]): Fleet<StoreClient> {
  return new Fleet({
    connect: () => clients.cluster(nodes),
    servers: () => servers,
    cache: { leases: { leaseMs: 1_000 }, storage: { storeTimeoutMs: 200 } },
  });
}

/** Returns an id whose entry is on the given master. */
function idOn(fleet: Fleet<StoreClient>, master: number, prefix: string): string {
  for (let nth = 0; ; nth++) {
    const id = `${prefix} ${nth}`;
    if (masterOf(fleet.keyOf(id)) === master) return id;
  }
}

describe.each(PACKAGES_OF_SLOW_TESTS)(
  "A Cluster whose master is killed during a load, with a client of $name",
  (clients) => {
    beforeAll(async () => {
      nodes = await lab.cluster({ replicas: 1, nodeTimeoutMs: 600 });
      for (const { host, port } of nodes) {
        const node = new Redis(port, host);
        await node.config("SET", "cluster-require-full-coverage", "no");
        node.disconnect();
      }
    });

    it("resumes after the replica takes over, without a failed request or a stale value", async () => {
      const fleet = startFleet(clients, nodes.slice(1));
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

    it("serves the slots of the other masters if the killed one has no replica, and confirms invalidations once it is back", async () => {
      const fleet = startFleet(clients, nodes.slice(1));
      const [lost, kept] = [idOn(fleet, 1, "a"), idOn(fleet, 2, "b")] as const;
      const others = Array.from({ length: 32 }, (_, nth) => idOn(fleet, nth % 2 === 0 ? 0 : 2, `c ${nth}`));
      for (const id of others) await fleet.waitForHit(0, id);
      for (const id of [lost, kept]) for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
      await nodes[1]?.kill();
      for (const nth of [0, 1]) expect(await fleet.read(nth, lost)).toBe(1);
      const other = new Redis({ ...(nodes[2] as LabNode) });
      await until("the other masters have noticed", async () =>
        String(await other.cluster("INFO")).includes("cluster_slots_fail:5"),
      );
      other.disconnect();
      for (const nth of [0, 1]) await fleet.waitForHit(nth, kept);
      // Effective on all living masters, but not confirmed: the one that is away may come back.
      expect(await fleet.write(0, kept, "tag")).toBe(false);
      for (const nth of [0, 1]) expect(await fleet.read(nth, kept)).toBe(2);
      // None of the other entries is bypassed for that.
      const bypassed = (): number => fleet.processes[1]?.outcomes().bypassed ?? 0;
      const before = bypassed();
      expect(await Promise.all(others.map((id) => fleet.read(1, id)))).toEqual(others.map(() => 1));
      expect(bypassed()).toBe(before);
      await nodes[1]?.restart("--cluster-require-full-coverage", "no");
      await until("the write is confirmed", () => fleet.write(0, kept, "tag"));
      for (const nth of [0, 1]) await fleet.waitForHit(nth, kept);
      for (const nth of [0, 1]) await fleet.waitForHit(nth, lost);
      await fleet.verify();
    });
  },
);
