import { gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import { resultControl } from "graphql-cached";
import { expect, it } from "vitest";
import { dataOf, onEachStore, type Process, timedWorld, type World } from "../../support/world.js";

const PROCESSES = 12;

/** Processes with one field. Its load returns what `load` does, once all processes wait for it. */
function fleet(world: World, policy: string, load: (nth: number, info: GraphQLResolveInfo) => unknown) {
  const loading = gate();
  let loads = 0;
  const item = async (...[, , , info]: [unknown, unknown, unknown, GraphQLResolveInfo]): Promise<unknown> => {
    loads++;
    await loading.passed;
    return load(loads, info);
  };
  const typeDefs = `type Query { item: Item @cached(${policy}) } type Item { id: ID }`;
  const processes = Array.from({ length: PROCESSES }, () => world.process(typeDefs, { Query: { item } }));
  const read = ({ ask }: Process) => dataOf(ask("{ item { id } }"));
  /** Asks all processes, the first one before the others. */
  const readAll = async (): Promise<unknown[]> => {
    const [first, ...others] = processes as [Process, ...Process[]];
    const reading = [read(first)];
    await expect.poll(() => loads).toBe(1);
    reading.push(...others.map(read));
    // Each has a reader that waits for a load elsewhere.
    const waiting = async ({ cache }: Process): Promise<number> => (await cache.health()).waitingReaders;
    await expect.poll(() => Promise.all(others.map(waiting))).toEqual(others.map(() => 1));
    await settle();
    loading.open();
    return Promise.all(reading);
  };
  return { readAll, processes, read, loads: () => loads };
}
const all = (item: unknown) => Array(PROCESSES).fill({ item });

onEachStore("callers in other processes that wait for a load", (world) => {
  it("get its result if the load says that it is not kept", async () => {
    const { readAll, loads } = fleet(world(), "maxAge: 60", (id, info) => {
      resultControl(info).set({ maxAge: 0 });
      return { id };
    });
    expect([await readAll(), loads()]).toEqual([all({ id: "1" }), 1]);
  });

  it("get null if nothing negative is kept", async () => {
    const { readAll, loads, processes, read } = fleet(world(), "maxAge: 60, negativeMaxAge: 0", () => null);
    expect([await readAll(), loads()]).toEqual([all(null), 1]);
    await read(processes[1] as Process);
    expect(loads()).toBe(2);
  });
});

it("a load that takes longer than its maxAge is reported, and those who wait for it get its result", async () => {
  const world = timedWorld();
  const load = async (id: number) => (await world.clock.advance(1_500), { id });
  const { readAll, loads, processes } = fleet(world, "maxAge: 1", load);
  expect([await readAll(), loads()]).toEqual([all({ id: "1" }), 1]);
  const refused = processes.flatMap(({ events }) => events.filter(({ name }) => name === "value.refused"));
  expect(refused).toMatchObject([{ coordinate: "Query.item", error: { code: "CACHED_VALUE_EXPIRED" } }]);
});
