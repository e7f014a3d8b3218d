import { randomUUID } from "node:crypto";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { HASH_TAGS } from "../../src/keys/hash-tags.js";
import { createKeySpace, type KeySpace } from "../../src/keys/key.js";
import { slotOfKey } from "../../src/redis/key-slot.js";
import { type LabNode, RedisLab } from "../support/redis-lab.js";

const RETENTION_MS = 30_000;

describe("The invalidation logs of a Cluster", () => {
  const lab = new RedisLab();
  let nodes: readonly LabNode[];
  let cluster: Cluster;
  let keys: KeySpace;
  let store: Store;
  const admins: Redis[] = [];
  beforeAll(async () => {
    nodes = await lab.cluster();
    cluster = new Cluster(nodes.map(({ host, port }) => ({ host, port })));
    for (const { host, port } of nodes) admins.push(new Redis(port, host));
  });
  afterAll(async () => {
    cluster.disconnect();
    for (const admin of admins) admin.disconnect();
    await lab.stop();
  });
  beforeEach(() => {
    keys = createKeySpace(randomUUID());
    store = redisStore({ client: cluster });
    store.open(keys, () => undefined);
  });

  const position = () => store.readLogPosition(store.invalidationLogs(), RETENTION_MS);
  const masterOf = (slot: number): Redis => admins[Math.floor(slot / Math.ceil(16_384 / 3))] as Redis;
  const idOf = async (admin: Redis): Promise<string> => (await admin.call("CLUSTER", "MYID")) as string;

  it("are spread over all slots, each in the slot of its tags", () => {
    const slots = store.invalidationLogs().map(slotOfKey);
    expect(slots.map((slot) => Math.floor(slot / 256))).toEqual(HASH_TAGS.map((_, nth) => nth));
    for (let nth = 0; nth < 200; nth++) expect(slots).toContain(slotOfKey(keys.tag(`Product:${nth}`)));
  });

  it("show an invalidation, or its absence, also after their slot has moved to another master", async () => {
    const [changed, unchanged] = [keys.tag("Product:1"), keys.tag("Product:2")];
    await store.ensureTags([changed, unchanged], RETENTION_MS);
    const before = await position();
    await store.invalidateTags([changed], RETENTION_MS);
    for (const slot of new Set([changed, unchanged].map(slotOfKey))) {
      const from = masterOf(slot);
      const to = admins.find((admin) => admin !== from) as Redis;
      await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", await idOf(from));
      await from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", await idOf(to));
      const { host, port } = nodes[admins.indexOf(to)] as LabNode;
      const moved = (await from.call("CLUSTER", "GETKEYSINSLOT", slot, 1_000)) as string[];
      await from.call("MIGRATE", host, port, "", 0, 5_000, "KEYS", ...moved);
      for (const admin of [to, from]) await admin.call("CLUSTER", "SETSLOT", slot, "NODE", await idOf(to));
    }
    expect(await store.areUnchangedSince(before, [changed])).toBe(false);
    expect(await store.areUnchangedSince(before, [unchanged])).toBe(true);
  });

  it("prove nothing to a load that began before its log was lost, or with a log that has gone back", async () => {
    const tag = keys.tag("Product:3");
    const log = store.invalidationLogs().find((name) => slotOfKey(name) === slotOfKey(tag)) as string;
    await position();
    const older = await cluster.dumpBuffer(log);
    await store.invalidateTags([keys.tag("Product:3")], RETENTION_MS);
    const before = await position();
    expect(await store.areUnchangedSince(before, [tag])).toBe(true);
    // As after a failover to a replica that lacks the latest invalidation; others follow.
    await cluster.del(log);
    await cluster.restore(log, 0, older as Buffer);
    expect(await store.areUnchangedSince(before, [tag])).toBe(false);
    await store.invalidateTags([tag], RETENTION_MS);
    expect(await store.areUnchangedSince(before, [tag])).toBe(false);
    const { [log]: end, ...others } = await position();
    expect(end).toBeDefined();
    expect(await store.areUnchangedSince(others, [tag])).toBe(false);
    await cluster.del(log);
    expect(await store.areUnchangedSince(await position(), [tag])).toBe(true);
    expect(await store.areUnchangedSince({ ...others, [log]: end as string }, [tag])).toBe(false);
  });
});
