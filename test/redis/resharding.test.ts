import { gate } from "@graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HASH_TAGS } from "../../src/core/keys/hash-tags.js";
import { slotOfKey } from "../../src/stores/redis/pipeline.js";
import { Fleet } from "../support/fleet.js";
import { isConnected, PACKAGES_OF_SLOW_TESTS, type StoreClient } from "../support/redis-clients.js";
import { type Address, type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";

const lab = new RedisLab();
let nodes: readonly LabNode[];
let admins: readonly Redis[];
let ids: readonly string[];

afterAll(() => lab.stop());

/** The migration of one slot from one node to another, step by step. */
class SlotMigration {
  readonly slot: number;
  readonly #from: Redis;
  readonly #to: Redis;
  readonly #fromId: string;
  readonly #toId: string;

  private constructor(slot: number, from: number, to: number) {
    this.slot = slot;
    [this.#from, this.#to] = [admins[from] as Redis, admins[to] as Redis];
    [this.#fromId, this.#toId] = [ids[from] as string, ids[to] as string];
  }

  /** Starts the migration: the old node replies ASK for keys that it does not have. */
  static async begin(key: string): Promise<SlotMigration> {
    const [admin] = admins as [Redis];
    const slot = Number(await admin.call("CLUSTER", "KEYSLOT", key));
    // An earlier test can have moved it.
    const ranges = (await admin.call("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][];
    const [, , [, , owner]] = ranges.find(([first, last]) => first <= slot && slot <= last) as (typeof ranges)[number];
    const from = ids.indexOf(owner);
    const migration = new SlotMigration(slot, from, (from + 1) % 3);
    await migration.#to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", migration.#fromId);
    await migration.#from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", migration.#toId);
    return migration;
  }

  /** Moves all keys of the slot, or only `key`. */
  async moveKeys(key?: string): Promise<void> {
    const all = (await this.#from.call("CLUSTER", "GETKEYSINSLOT", this.slot, 100)) as string[];
    const keys = key === undefined ? all : [key];
    const { host, port } = this.#to.options;
    if (keys.length > 0)
      await this.#from.call("MIGRATE", host as string, port as number, "", 0, 5_000, "KEYS", ...keys);
  }

  /**
   * Makes the new node the owner of the slot on all nodes. The old one replies MOVED from now on.
   */
  async finish(): Promise<void> {
    // A new owner with a lower epoch than the old one would lose the slot to a message that the old one has
    // sent before it knew: then each of them redirects to the other.
    await until("all nodes know all epochs, so that the new owner takes a higher one", haveEqualEpochs);
    for (const admin of [this.#to, this.#from, ...admins])
      await admin.call("CLUSTER", "SETSLOT", this.slot, "NODE", this.#toId);
  }
}

/** Whether all nodes have the same view of the epoch of each node, and no two nodes have the same epoch. */
async function haveEqualEpochs(): Promise<boolean> {
  const views = await Promise.all(
    admins.map(async (admin) => {
      const lines = String(await admin.call("CLUSTER", "NODES"))
        .trim()
        .split("\n");
      return lines.map((line) => line.split(" ")).map(([id = "", , , , , , epoch = ""]) => ({ id, epoch }));
    }),
  );
  const texts = views.map((view) =>
    view
      .map(({ id, epoch }) => `${id} ${epoch}`)
      .sort()
      .join(),
  );
  const epochs = (views[0] ?? []).map(({ epoch }) => epoch);
  return new Set(texts).size === 1 && new Set(epochs).size === epochs.length;
}

/** Returns two ids whose entries are in the same slot. */
function twoIdsInOneSlot(fleet: Fleet<StoreClient>): [string, string] {
  const bySlot = new Map<number, string>();
  for (let nth = 0; ; nth++) {
    const slot = slotOfKey(fleet.keyOf(`e ${nth}`));
    const other = bySlot.get(slot);
    if (other !== undefined) return [other, `e ${nth}`];
    bySlot.set(slot, `e ${nth}`);
  }
}

it("computes the slots of keys as the server does", async () => {
  const [node] = await sharedServer("redisCluster");
  const admin = new Redis({ ...(node as Address) });
  const keys = [
    "a",
    "",
    "foo{bar}baz",
    "foo{}{bar}",
    "foo{{bar}}zap",
    "foo{bar}{zap}",
    "}{",
    "{",
    "gc:1:Query.top:é{ü}",
    "123456789",
  ];
  for (const key of keys) expect(slotOfKey(key), key).toBe(await admin.cluster("KEYSLOT", key));
  admin.disconnect();
});

describe.each(PACKAGES_OF_SLOW_TESTS)(
  "A Cluster slot that moves to another node, with a client of $name",
  ({ cluster }) => {
    beforeAll(async () => {
      nodes = await lab.cluster();
      admins = nodes.map(({ host, port }) => new Redis(port, host));
      ids = await Promise.all(admins.map(async (admin) => String(await admin.call("CLUSTER", "MYID"))));
    });
    afterAll(() => {
      for (const admin of admins) admin.disconnect();
    });

    async function startFleet(): Promise<Fleet<StoreClient>> {
      const cache = { leases: { leaseMs: 2_000 } };
      const fleet = new Fleet({ connect: () => cluster(nodes), servers: () => nodes, cache });
      await until("the clients are connected", () => fleet.clients.every(isConnected));
      return fleet;
    }

    it("keeps the value of a load in progress, and the requests that wait for it, while the slot moves", async () => {
      const fleet = await startFleet();
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
      const loadGate = gate();
      fleet.loadGate = loadGate.passed;
      const first = fleet.read(0, "a");
      await fleet.waitForLoad("a");
      const second = fleet.read(1, "a");
      const migration = await SlotMigration.begin(fleet.keyOf("a"));
      await migration.moveKeys();
      loadGate.open();
      expect(await Promise.all([first, second])).toEqual([1, 1]);
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "a");
      await migration.finish();
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "a");
      await fleet.verify();
      expect(fleet.loads("a")).toBe(1);
      for (const { events } of fleet.processes)
        expect(events.filter(({ name }) => name === "store.failed")).toEqual([]);
    });

    it("stores new values on the new node while the slot moves", async () => {
      const fleet = await startFleet();
      const migration = await SlotMigration.begin(fleet.keyOf("b"));
      expect(await Promise.all([fleet.read(0, "b"), fleet.read(1, "b")])).toEqual([1, 1]);
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "b");
      await migration.moveKeys();
      await migration.finish();
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "b");
      await fleet.verify();
      expect(fleet.loads("b")).toBe(1);
    });

    it("begins to cache under a new prefix while a slot moves that holds a copy of the clock's head", async () => {
      const fleet = await startFleet();
      const migration = await SlotMigration.begin(`{${HASH_TAGS[4]}}`);
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "f");
      await migration.moveKeys();
      await migration.finish();
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "f");
      expect(await fleet.write(0, "f")).toBe(true);
      for (const nth of [0, 1]) expect(await fleet.read(nth, "f")).toBe(2);
      await fleet.verify();
    });

    it("takes invalidations by tag and of everything at every step of the move of the slot that holds the clock, without a stale read afterwards", async () => {
      const fleet = await startFleet();
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "g");
      const migration = await SlotMigration.begin(`{${HASH_TAGS[0]}}`);
      const steps = [async () => undefined, () => migration.moveKeys(), () => migration.finish()];
      for (const [done, step] of steps.entries()) {
        await step();
        expect(await fleet.write(done % 2, "g", "tag")).toBe(true);
        for (const nth of [0, 1]) expect(await fleet.read(nth, "g")).toBe(done + 2);
        await fleet.processes[done % 2]?.cache.clear();
        for (const nth of [0, 1]) expect(await fleet.read(nth, "g")).toBe(done + 2);
      }
      for (const nth of [0, 1]) await fleet.waitForHit(nth, "g");
      await fleet.verify();
    });

    it("accepts invalidations at every step of the move, without a stale read afterwards", async () => {
      for (const by of ["key", "tag"] as const) {
        const fleet = await startFleet();
        const id = `c ${by}`;
        for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
        const migration = await SlotMigration.begin(fleet.keyOf(id));
        const steps = [async () => undefined, () => migration.moveKeys(), () => migration.finish()];
        for (const [done, step] of steps.entries()) {
          await step();
          expect(await fleet.write(done % 2, id, by)).toBe(true);
          for (const nth of [0, 1]) expect(await fleet.read(nth, id)).toBe(done + 2);
        }
        await fleet.verify();
      }
    });

    it("loads a batch from the source while its keys are split between two nodes, and serves both afterwards", async () => {
      const fleet = await startFleet();
      const [one, two] = twoIdsInOneSlot(fleet);
      for (const id of [one, two]) for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
      const migration = await SlotMigration.begin(fleet.keyOf(one));
      await migration.moveKeys(fleet.keyOf(one));
      expect(await Promise.all([fleet.read(0, one), fleet.read(0, two)])).toEqual([1, 1]);
      expect(await fleet.write(1, one, "key")).toBe(true);
      expect(await fleet.read(0, one)).toBe(2);
      await migration.moveKeys();
      await migration.finish();
      for (const nth of [0, 1]) {
        await fleet.waitForHit(nth, one);
        await fleet.waitForHit(nth, two);
      }
      await fleet.verify();
    });

    it("serves a batch of which only some keys have moved", async () => {
      const fleet = await startFleet();
      const all = Array.from({ length: 12 }, (_, nth) => `d ${nth}`);
      for (const id of all) await fleet.read(0, id);
      for (const id of all) await fleet.waitForHit(1, id);
      const migrations: SlotMigration[] = [];
      for (const id of all.slice(0, 4)) {
        const migration = await SlotMigration.begin(fleet.keyOf(id));
        await migration.moveKeys();
        migrations.push(migration);
      }
      for (const migration of migrations) await migration.finish();
      const before = fleet.processes[1]?.outcomes() ?? {};
      await Promise.all(all.map((id) => fleet.read(1, id)));
      expect(fleet.processes[1]?.outcomes()).toEqual({ ...before, hit: (before.hit ?? 0) + all.length });
      await fleet.verify();
      for (const id of all) expect(fleet.loads(id)).toBe(1);
    });
  },
);
