import { chaosStore, gate } from "@graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";

const BUDGET_MS = 50;
const ROUNDS = 100;
const lab = new RedisLab();
let node: LabNode;

beforeAll(async () => {
  node = await lab.standalone();
});
afterAll(() => lab.stop());
afterEach(() => node.resume());

type Chaotic = ReturnType<typeof chaosStore>;

/**
 * Starts two processes. `operations` returns how many operations they have called on their stores.
 */
function startFleet(): { readonly fleet: Fleet; readonly operations: () => number } {
  const stores: Chaotic[] = [];
  const fleet = new Fleet({
    connect: () => new Redis(node.port, node.host),
    servers: () => [node],
    cache: { storage: { storeTimeoutMs: BUDGET_MS } },
    wrap: (store) => {
      const counted = chaosStore(store);
      stores.push(counted);
      return counted;
    },
  });
  const operations = (): number =>
    stores.reduce((sum, { chaos }) => sum + [...chaos.calls.values()].reduce((all, count) => all + count, 0), 0);
  return { fleet, operations };
}

describe("A Redis that freezes under load", () => {
  it("fails no request, sends only probes while the breaker is open, and uses Redis again afterwards", async () => {
    const { fleet, operations } = startFleet();
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
    node.pause();
    let rounds = 0;
    const round = async (): Promise<void> => {
      rounds++;
      await Promise.all([0, 1].flatMap((nth) => [fleet.read(nth, "warm"), fleet.read(nth, `id ${rounds}`)]));
    };
    // Five failures open the breaker of a process.
    await until("both breakers are open", async () => {
      await round();
      return fleet.processes.every(({ events }) => events.filter(({ name }) => name === "store.failed").length >= 5);
    });
    const operationsBefore = operations();
    for (let nth = 0; nth < ROUNDS; nth++) await round();
    const operationsWhileOpen = operations() - operationsBefore;
    node.resume();
    // Each round has two requests in each process. The pause between probes doubles from 250 ms to 5 s.
    expect(operationsWhileOpen).toBeLessThanOrEqual(ROUNDS / 4);
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
    // A node has recovered once each operation that failed works again: reads of new keys load and store as well.
    await until("both processes have said that Redis is back", async () => {
      await round();
      return fleet.processes.every(({ events }) => events.some(({ name }) => name === "store.recovered"));
    });
    await fleet.verify();
  });

  it("starts one load per process when many requests read one key of a frozen Redis", async () => {
    const { fleet } = startFleet();
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
    node.pause();
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const results = [0, 1].flatMap((nth) => Array.from({ length: 50 }, () => fleet.read(nth, "a")));
    await fleet.waitForLoad("a", 2);
    loadGate.open();
    expect(new Set(await Promise.all(results))).toEqual(new Set([1]));
    node.resume();
    await fleet.verify();
    expect(fleet.loads("a")).toBe(2);
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
  });

  it("rejects an invalidation and repeats it once Redis runs again", async () => {
    const { fleet } = startFleet();
    for (const id of ["key", "tag"]) for (const nth of [0, 1]) await fleet.waitForHit(nth, id);
    node.pause();
    const writes = (["key", "tag"] as const).map((by) => fleet.write(0, by, by));
    expect(await Promise.all(writes)).toEqual([false, false]);
    node.resume();
    for (const id of ["key", "tag"])
      await until(`the new value of ${id} is served`, async () => (await fleet.read(1, id)) === 2);
    for (const id of ["key", "tag"]) expect(await fleet.read(0, id)).toBe(2);
    await fleet.verify();
  });

  it("does not store the value of a load that was invalidated while Redis was frozen", async () => {
    const { fleet } = startFleet();
    for (const nth of [0, 1]) await fleet.waitForHit(nth, "warm");
    const loadGate = gate();
    fleet.loadGate = loadGate.passed;
    const early = fleet.read(0, "a");
    await fleet.waitForLoad("a");
    node.pause();
    loadGate.open();
    expect(await early).toBe(1);
    await until("storing the value has timed out", () =>
      Boolean(fleet.processes[0]?.events.some(({ name }) => name === "store.failed")),
    );
    node.resume();
    await until("the write is confirmed", () => fleet.write(1, "a"));
    for (const nth of [0, 1]) expect(await fleet.read(nth, "a")).toBeGreaterThanOrEqual(2);
    await fleet.verify();
  });
});
