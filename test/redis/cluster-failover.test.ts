import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { gate } from "graphql-cached/testing";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeySpace } from "../../src/keys/key.js";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

// The package's own type declarations do not compile, so it is taken untyped.
const calculateSlot = createRequire(import.meta.url)("cluster-key-slot") as (key: string) => number;

const lab = new RedisLab();
/** Three masters; the first one has a replica. */
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

const masterOf = (key: string): number => Math.floor(calculateSlot(key) / Math.ceil(16_384 / 3));

/** The record of tag invalidations is on the master `logOn`. */
function fleet(servers: readonly LabNode[], logOn: number): Fleet {
  let prefix = randomUUID();
  while (masterOf(createKeySpace(prefix).invalidationLog) !== logOn) prefix = randomUUID();
  const connect = (): Cluster => new Cluster(nodes.map(({ host, port }) => ({ host, port })));
  return new Fleet({ prefix, connect, servers: () => servers, cache: { leaseMs: 1_000, storeTimeoutMs: 200 } });
}

/** The name of something whose entry, and whose tag's version, is on this master. */
function idOn(site: Fleet, master: number, start: string): string {
  for (let nth = 0; ; nth++) {
    const id = `${start} ${nth}`;
    if (masterOf(site.keyOf(id)) === master && masterOf(site.tagOf(id)) === master) return id;
  }
}

describe("a Cluster one of whose masters is killed in the middle of a load", () => {
  it("is used again, once its replica has taken over; nobody fails meanwhile, and no old value comes back", async () => {
    const site = fleet(nodes.slice(1), 0);
    const [lost, warm, kept] = [idOn(site, 0, "a"), idOn(site, 0, "b"), idOn(site, 1, "c")] as const;
    for (const id of [warm, kept]) for (const nth of [0, 1]) await site.recovered(nth, id);
    const { passed, open } = gate();
    site.door = passed;
    const answers = [site.read(0, lost)];
    await site.loading(lost);
    answers.push(site.read(1, lost));
    await nodes[0]?.kill();
    open();
    expect(await Promise.all(answers)).toEqual([1, 1]);
    await site.underLoad([kept], async () => {
      for (const id of [lost, warm]) for (const nth of [0, 1]) await site.recovered(nth, id);
      await until("the write is acknowledged", () => site.write(0, lost));
    });
    for (const nth of [0, 1]) expect(await site.read(nth, lost)).toBeGreaterThanOrEqual(2);
    await site.ended();
  });

  it("without a replica, goes on with the slots of the others, and loads what is lost", async () => {
    const site = fleet([nodes[2] as LabNode, nodes[3] as LabNode], 1);
    const [lost, kept] = [idOn(site, 1, "a"), idOn(site, 2, "b")] as const;
    for (const id of [lost, kept]) for (const nth of [0, 1]) await site.recovered(nth, id);
    await nodes[1]?.kill();
    for (const nth of [0, 1]) expect(await site.read(nth, lost)).toBe(1);
    const other = new Redis({ ...(nodes[2] as LabNode) });
    await until("the others know it", async () => String(await other.cluster("INFO")).includes("cluster_slots_fail:5"));
    other.disconnect();
    for (const nth of [0, 1]) await site.recovered(nth, kept);
    expect(await site.write(0, kept, "key")).toBe(true);
    for (const nth of [0, 1]) expect(await site.read(nth, kept)).toBe(2);
    // The record of tag invalidations was on the lost master: this cannot be confirmed, and is done all the same.
    expect(await site.write(0, kept, "tag")).toBe(false);
    await until("it is done as far as it goes", async () => (await site.read(1, kept)) === 3);
    expect(await site.read(0, kept)).toBe(3);
    expect(await Promise.all([site.read(0, lost), site.read(0, kept)])).toEqual([1, 3]);
    await site.ended();
  });
});
