import { FakeClock, gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import { type CacheOptions, memoryStore, resultControl } from "graphql-cached";
import { expect, it, vi } from "vitest";
import { dataOf, memoryWorld, onEachStore, type Process, type World } from "../../support/world.js";

const PROCESSES = 12;

/** Starts processes with one field, whose loads wait for `loadGate`. */
function fleet(
  world: World,
  field: string,
  load: (nth: number, info: unknown) => unknown,
  options: CacheOptions<never> = {},
) {
  const loadGate = gate();
  let loads = 0;
  const resolve = async (_source: unknown, _args: object, _context: unknown, info: unknown): Promise<unknown> => {
    loads++;
    await loadGate.passed;
    return load(loads, info);
  };
  const processes = Array.from({ length: PROCESSES }, () =>
    world.process(
      `type Query { item: Item @cached(${field}) } type Item { id: ID }`,
      {
        Query: { item: resolve },
      },
      options,
    ),
  );
  const [first, ...others] = processes as [Process, ...Process[]];
  /** Asks all processes, the first one before the others, and returns their answers when its load may end. */
  const askAll = async (): Promise<unknown[]> => {
    const asked = [dataOf(first.ask("{ item { id } }"))];
    await vi.waitFor(() => expect(loads).toBe(1), { timeout: 10_000, interval: 5 });
    asked.push(...others.map((process) => dataOf(process.ask("{ item { id } }"))));
    // A process with a reader that waits for a load elsewhere.
    const isWaiting = async ({ cache }: Process): Promise<boolean> => (await cache.health()).waitingReaders === 1;
    await vi.waitFor(async () => expect(await Promise.all(others.map(isWaiting))).not.toContain(false), {
      timeout: 10_000,
      interval: 20,
    });
    await settle();
    loadGate.open();
    return Promise.all(asked);
  };
  return { askAll, processes, loads: () => loads };
}

onEachStore("callers in other processes that wait for a load", (world) => {
  it("get its result if the load says that it is not kept", async () => {
    const { askAll, loads } = fleet(world(), "maxAge: 60", (nth, info) => {
      resultControl(info as GraphQLResolveInfo).set({ maxAge: 0 });
      return { id: nth };
    });
    expect(await askAll()).toEqual(Array(PROCESSES).fill({ item: { id: "1" } }));
    expect(loads()).toBe(1);
  });

  it("get null if nothing negative is kept", async () => {
    const { askAll, loads, processes } = fleet(world(), "maxAge: 60, negativeMaxAge: 0", () => null);
    expect(await askAll()).toEqual(Array(PROCESSES).fill({ item: null }));
    expect(loads()).toBe(1);
    await dataOf((processes[1] as Process).ask("{ item { id } }"));
    expect(loads()).toBe(2);
  });
});

it("a load that takes longer than its maxAge is reported, and those who wait for it get its result", async () => {
  const clock = new FakeClock();
  const { askAll, loads, processes } = fleet(
    memoryWorld(() => memoryStore({ clock })),
    "maxAge: 1",
    async (nth) => {
      await clock.advance(1_500);
      return { id: nth };
    },
    { testing: { clock } },
  );
  expect(await askAll()).toEqual(Array(PROCESSES).fill({ item: { id: "1" } }));
  expect(loads()).toBe(1);
  const refused = processes.flatMap(({ events }) => events.filter(({ name }) => name === "value.refused"));
  expect(refused).toMatchObject([{ coordinate: "Query.item", error: { code: "CACHED_VALUE_EXPIRED" } }]);
});
