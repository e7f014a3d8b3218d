import { chaosStore, gate, settle } from "@graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { sharedServer } from "../../support/shared-servers.js";
import { dataOf, onEachStore, type Process, pair, redisWorld, timedWorld } from "../../support/world.js";

const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

const typeDefs = "type Query { top: Int @cached(maxAge: 60) other: Int }";

/** A source that returns `row.value` as it was when the load began, once its gate is open. */
function createSource() {
  const row = { value: 1, loads: 0, running: 0, maxRunning: 0, loadGate: gate() };
  const top = async (): Promise<number> => {
    const { value, loadGate } = row;
    row.loads++;
    row.running++;
    row.maxRunning = Math.max(row.maxRunning, row.running);
    await loadGate.passed;
    row.running--;
    return value;
  };
  return { row, resolvers: { Query: { top, other: () => 7 } } };
}

const askOften = ({ ask }: Process, count: number): Promise<unknown>[] =>
  Array.from({ length: count }, () => dataOf(ask("{ top }")));

/** Resolves when the readers that asked before have learnt the state of the key. */
async function untilBypassed({ outcomes }: Process, reason: string, count: number): Promise<void> {
  while ((outcomes()[`bypassed(${reason})`] ?? 0) < count) await settle();
}

onEachStore("readers during a write in progress", (world) => {
  it("share one load that runs and one that waits to run", async () => {
    const { row, resolvers } = createSource();
    const process = world().process(typeDefs, resolvers, { storage: { storeTimeoutMs: 10_000 } });
    const [begun, written] = pair(gate);
    const entries = [{ coordinate: "Query.top" }];
    const write = process.cache.mutate({ entries }, () => (begun.open(), written.passed));
    await begun.passed;
    const first = askOften(process, 50);
    await untilBypassed(process, "WRITE_IN_PROGRESS", 50);
    await settle();
    expect(row.loads).toBe(1);
    row.value = 2;
    const later = askOften(process, 50);
    await untilBypassed(process, "WRITE_IN_PROGRESS", 100);
    await settle();
    expect(row.loads).toBe(1);
    row.loadGate.open();
    expect(await Promise.all(first)).toEqual(Array(50).fill({ top: 1 }));
    expect(await Promise.all(later)).toEqual(Array(50).fill({ top: 2 }));
    expect(row).toMatchObject({ loads: 2, maxRunning: 1 });
    written.open();
    await write;
  });
});

describe("readers of a key with data of an unknown format", () => {
  it("share one load that runs and one that waits to run", async () => {
    const { row, resolvers } = createSource();
    const world = await redisWorld();
    const process = world.process(typeDefs, resolvers, { storage: { storeTimeoutMs: 10_000 } });
    const seed = dataOf(process.ask("{ top }"));
    while (row.loads === 0) await settle();
    const [name] = (await client.keys(`${world.prefix}*Query.top*`)) as [string];
    await client.set(name, "something else");
    row.loadGate.open();
    await seed;
    Object.assign(row, { loads: 0, loadGate: gate() });
    const first = askOften(process, 20);
    await untilBypassed(process, "KEY_COLLISION", 20);
    const later = askOften(process, 20);
    await untilBypassed(process, "KEY_COLLISION", 40);
    row.loadGate.open();
    await Promise.all([...first, ...later]);
    expect(row).toMatchObject({ loads: 2, maxRunning: 1 });
  });
});

describe("readers while the store is unavailable", () => {
  /** Two processes on one store, of which the first can lose its connection. */
  function createFleet(options: object = {}) {
    const world = timedWorld();
    const store = chaosStore(world.store());
    const { row, resolvers } = createSource();
    const cutOff = world.process(typeDefs, resolvers, { ...options, store });
    return { clock: world.clock, row, chaos: store.chaos, cutOff, other: world.process(typeDefs, resolvers, options) };
  }

  it("never get a value that another process had invalidated before they asked", async () => {
    const { clock, row, chaos, cutOff, other } = createFleet();
    chaos.mode = "throws";
    const before = dataOf(cutOff.ask("{ top }"));
    await settle();
    row.value = 2;
    await other.cache.invalidate({ coordinate: "Query.top" });
    const after = dataOf(cutOff.ask("{ top }"));
    await settle();
    expect(row.loads).toBe(1);
    row.loadGate.open();
    expect([await before, await after]).toEqual([{ top: 1 }, { top: 2 }]);
    row.value = 3;
    await other.cache.invalidate({ coordinate: "Query.top" });
    await clock.advance(10);
    expect(await dataOf(cutOff.ask("{ top }"))).toEqual({ top: 3 });
  });

  it("get the next load after leaseMs although the running one has not ended", async () => {
    const { clock, row, chaos, cutOff } = createFleet({ leases: { leaseMs: 1_000 } });
    chaos.mode = "throws";
    const { loadGate } = row;
    const first = dataOf(cutOff.ask("{ top }"));
    await settle();
    row.loadGate = gate();
    row.loadGate.open();
    row.value = 2;
    const second = dataOf(cutOff.ask("{ top }"));
    await clock.advance(999);
    expect(row.loads).toBe(1);
    await clock.advance(1);
    expect(await second).toEqual({ top: 2 });
    loadGate.open();
    expect(await first).toEqual({ top: 1 });
  });
});

describe("readers of a key that is invalidated again and again while it loads", () => {
  /** A process in which two loads of the key run, both from before the last invalidation. */
  async function createCrowded() {
    const world = timedWorld();
    const { row, resolvers } = createSource();
    const [process, other] = pair(() => world.process(typeDefs, resolvers));
    const change = async (): Promise<void> => {
      row.value++;
      await process.cache.invalidate({ coordinate: "Query.top" });
    };
    const gates = [row.loadGate, gate()] as const;
    const answers: Promise<unknown>[] = [];
    for (const loadGate of gates) {
      row.loadGate = loadGate;
      answers.push(dataOf(process.ask("{ top }")));
      await settle();
      await change();
    }
    expect(row.running).toBe(2);
    row.loadGate = gate();
    row.loadGate.open();
    return { clock: world.clock, row, process, other, change, gates, answers };
  }

  it("wait for one of two loads to end before they begin a third, and share it", async () => {
    const { row, process, change, gates, answers } = await createCrowded();
    for (let nth = 0; nth < 5; nth++) {
      answers.push(dataOf(process.ask("{ top }")));
      await settle();
      await change();
    }
    expect(row).toMatchObject({ loads: 2, value: 8 });
    gates[1].open();
    expect(await Promise.all(answers.slice(1))).toEqual([{ top: 2 }, ...Array(5).fill({ top: 8 })]);
    expect(row).toMatchObject({ loads: 3, maxRunning: 2 });
    gates[0].open();
    expect(await answers[0]).toEqual({ top: 1 });
  });

  it("wait in the same way while the store is unavailable", async () => {
    const { chaos, process: start } = timedWorld();
    const { row, resolvers } = createSource();
    const process = start(typeDefs, resolvers);
    const answers: Promise<unknown>[] = [];
    for (let nth = 0; nth < 2; nth++) {
      answers.push(dataOf(process.ask("{ top }")));
      await settle();
      await process.cache.invalidate({ coordinate: "Query.top" });
    }
    chaos.mode = "throws";
    answers.push(...askOften(process, 5));
    await untilBypassed(process, "STORE_UNAVAILABLE", 5);
    await settle();
    expect(row.loads).toBe(2);
    row.loadGate.open();
    await Promise.all(answers);
    expect(row).toMatchObject({ loads: 3, maxRunning: 2 });
  });

  it("use the value that another process has loaded meanwhile", async () => {
    const { clock, row, other, process, gates, answers } = await createCrowded();
    const waiting = dataOf(process.ask("{ top }"));
    await settle();
    expect(await dataOf(other.ask("{ top }"))).toEqual({ top: 3 });
    await settle();
    row.value = 4;
    await clock.advance(100);
    expect(await waiting).toEqual({ top: 3 });
    expect(row.loads).toBe(3);
    for (const { open } of gates) open();
    await Promise.all(answers);
  });

  it("begin a third load after leaseMs although neither of the two has ended", async () => {
    const { clock, row, process, gates, answers } = await createCrowded();
    const third = dataOf(process.ask("{ top }"));
    await clock.advance(2_999);
    expect(row.loads).toBe(2);
    await clock.advance(101);
    expect(await third).toEqual({ top: 3 });
    for (const { open } of gates) open();
    expect(await Promise.all(answers)).toEqual([{ top: 1 }, { top: 2 }]);
  });
});

describe("readers that join the load of a value that turns out to be too large", () => {
  it.each([0, 1_000])("get copies of it, with abandonedLoadMs: %i", async (abandonedLoadMs) => {
    const { row, resolvers } = createSource();
    const top = async () => "x".repeat(2_000 * (await resolvers.Query.top()));
    const options = { storage: { maxValueBytes: 1_000 }, loads: { abandonedLoadMs } };
    const sdl = "type Query { top: String @cached(maxAge: 60) }";
    const process = timedWorld().process(sdl, { Query: { top } }, options);
    const answers: Promise<unknown>[] = [];
    for (let nth = 0; nth < 20; nth++) {
      answers.push(dataOf(process.ask("{ top }")));
      await settle();
    }
    row.loadGate.open();
    expect([await Promise.all(answers), row.loads]).toEqual([Array(20).fill({ top: "x".repeat(2_000) }), 1]);
  });
});

onEachStore("readers of a value that is too large to be stored", (world) => {
  it("share its loads, one that runs and one that waits to run, and get copies", async () => {
    const state = { loads: 0, loadGate: gate() };
    const list = async (): Promise<unknown> => {
      state.loads++;
      await state.loadGate.passed;
      return Array.from({ length: 600 }, (_, index) => index);
    };
    const shared = world();
    const storage = { maxValueBytes: 1_000, storeTimeoutMs: 10_000 };
    const sdl = "scalar Any type Query { list: Any @cached(maxAge: 60) }";
    const start = () => shared.process(sdl, { Query: { list } }, { storage, loads: { errorBackoffMs: 30_000 } });
    const processes = pair(start);
    // A load has shown that it is too large.
    state.loadGate.open();
    await processes[0].ask("{ list }");
    await processes[0].cache.settled();
    Object.assign(state, { loads: 0, loadGate: gate() });
    const askAll = () => processes.flatMap(({ ask }) => Array.from({ length: 25 }, () => ask("{ list }")));
    const first = askAll();
    for (const process of processes) await untilBypassed(process, "UNCACHEABLE", 25);
    const later = askAll();
    for (const process of processes) await untilBypassed(process, "UNCACHEABLE", 50);
    expect(state.loads).toBe(2);
    state.loadGate.open();
    const lists = (await Promise.all([...first, ...later])).map(({ data }) => data?.list);
    expect([new Set(lists).size, state.loads]).toEqual([100, 4]);
    expect(lists[99]).toEqual(lists[0]);
  });
});
