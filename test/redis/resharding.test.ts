import { createRequire } from "node:module";
import { gate } from "graphql-cached/testing";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab } from "../support/redis-lab.js";

// The package's own type declarations do not compile, so it is taken untyped.
const calculateSlot = createRequire(import.meta.url)("cluster-key-slot") as (key: string) => number;

const lab = new RedisLab();
let nodes: readonly LabNode[];
let admins: readonly Redis[];
let ids: readonly string[];

beforeAll(async () => {
  nodes = await lab.cluster();
  admins = nodes.map(({ host, port }) => new Redis(port, host));
  ids = await Promise.all(admins.map(async (admin) => String(await admin.call("CLUSTER", "MYID"))));
});
afterAll(async () => {
  for (const admin of admins) admin.disconnect();
  await lab.stop();
});

const fleet = (): Fleet =>
  new Fleet({
    connect: () => new Cluster(nodes.map(({ host, port }) => ({ host, port }))) as Cluster,
    servers: () => nodes,
    cache: { leaseMs: 2_000 },
  });

/** One slot on its way from one node to another, step by step. */
class Move {
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

  /** From here on what the old node does not have is asked of the new one: ASK. */
  static async begin(key: string): Promise<Move> {
    const slot = Number(await (admins[0] as Redis).call("CLUSTER", "KEYSLOT", key));
    const from = Math.floor(slot / Math.ceil(16_384 / 3));
    const move = new Move(slot, from, (from + 1) % 3);
    await move.#to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", move.#fromId);
    await move.#from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", move.#toId);
    return move;
  }

  /** Moves all its keys, or this one. */
  async migrate(key?: string): Promise<void> {
    const all = (await this.#from.call("CLUSTER", "GETKEYSINSLOT", this.slot, 100)) as string[];
    const keys = key === undefined ? all : [key];
    const { host, port } = this.#to.options;
    if (keys.length > 0)
      await this.#from.call("MIGRATE", host as string, port as number, "", 0, 5_000, "KEYS", ...keys);
  }

  /** The new node owns it, and all know: MOVED. */
  async end(): Promise<void> {
    for (const admin of [this.#to, this.#from, ...admins])
      await admin.call("CLUSTER", "SETSLOT", this.slot, "NODE", this.#toId);
  }
}

function twoOfOneSlot(site: Fleet): [string, string] {
  const bySlot = new Map<number, string>();
  for (let nth = 0; ; nth++) {
    const slot = calculateSlot(site.keyOf(`e ${nth}`));
    const other = bySlot.get(slot);
    if (other !== undefined) return [other, `e ${nth}`];
    bySlot.set(slot, `e ${nth}`);
  }
}

describe("a Cluster whose slot moves in the middle of a load", () => {
  it("lets who waited have the load's value, and everybody after it, step by step", async () => {
    const site = fleet();
    for (const nth of [0, 1]) await site.recovered(nth, "warm");
    const door = gate();
    site.door = door.passed;
    const first = site.read(0, "a");
    await site.loading("a");
    const second = site.read(1, "a");
    const move = await Move.begin(site.keyOf("a"));
    await move.migrate();
    door.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    for (const nth of [0, 1]) await site.recovered(nth, "a");
    await move.end();
    for (const nth of [0, 1]) await site.recovered(nth, "a");
    await site.ended();
    expect(site.loads("a")).toBe(1);
    for (const { events } of site.processes) expect(events.filter(({ name }) => name === "store.failed")).toEqual([]);
  });

  it("has what is loaded for the first time between two nodes stored on the new one", async () => {
    const site = fleet();
    const move = await Move.begin(site.keyOf("b"));
    expect(await Promise.all([site.read(0, "b"), site.read(1, "b")])).toEqual([1, 1]);
    for (const nth of [0, 1]) await site.recovered(nth, "b");
    await move.migrate();
    await move.end();
    for (const nth of [0, 1]) await site.recovered(nth, "b");
    await site.ended();
    expect(site.loads("b")).toBe(1);
  });

  it("takes an invalidation at every step, and no older value comes back", async () => {
    for (const by of ["key", "tag"] as const) {
      const site = fleet();
      const id = `c ${by}`;
      for (const nth of [0, 1]) await site.recovered(nth, id);
      const move = await Move.begin(site.keyOf(id));
      const steps = [async () => undefined, () => move.migrate(), () => move.end()];
      for (const [done, step] of steps.entries()) {
        await step();
        expect(await site.write(done % 2, id, by)).toBe(true);
        for (const nth of [0, 1]) expect(await site.read(nth, id)).toBe(done + 2);
      }
      await site.ended();
    }
  });

  it("answers from the source while two keys that are read together lie on two nodes, and serves both afterwards", async () => {
    const site = fleet();
    const [one, two] = twoOfOneSlot(site);
    for (const id of [one, two]) for (const nth of [0, 1]) await site.recovered(nth, id);
    const move = await Move.begin(site.keyOf(one));
    await move.migrate(site.keyOf(one));
    expect(await Promise.all([site.read(0, one), site.read(0, two)])).toEqual([1, 1]);
    expect(await site.write(1, one, "key")).toBe(true);
    expect(await site.read(0, one)).toBe(2);
    await move.migrate();
    await move.end();
    for (const nth of [0, 1]) {
      await site.recovered(nth, one);
      await site.recovered(nth, two);
    }
    await site.ended();
  });

  it("serves a batch of keys from all its nodes, of which some have moved", async () => {
    const site = fleet();
    const all = Array.from({ length: 12 }, (_, nth) => `d ${nth}`);
    for (const id of all) await site.read(0, id);
    for (const id of all) await site.recovered(1, id);
    const moves: Move[] = [];
    for (const id of all.slice(0, 4)) {
      const move = await Move.begin(site.keyOf(id));
      await move.migrate();
      moves.push(move);
    }
    for (const move of moves) await move.end();
    const before = site.processes[1]?.outcomes() ?? {};
    await Promise.all(all.map((id) => site.read(1, id)));
    expect(site.processes[1]?.outcomes()).toEqual({ ...before, hit: (before.hit ?? 0) + all.length });
    await site.ended();
    for (const id of all) expect(site.loads(id)).toBe(1);
  });
});
