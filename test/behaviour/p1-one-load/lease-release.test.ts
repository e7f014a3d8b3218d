import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, memoryWorld } from "../../support/world.js";

const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";

describe("a lease", () => {
  it("is released when the store does not take the loaded value", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    let loads = 0;
    const world = memoryWorld(() => store);
    const create = (own: Store) =>
      world.process(typeDefs, { Query: { top: () => ++loads } }, { testing: { clock }, store: own });
    const refusing = create(
      overrideStore(store, { storeValues: async (requests) => requests.map(() => "unavailable") }),
    );
    const other = create(store);
    expect(await dataOf(refusing.ask("{ top }"))).toEqual({ top: 1 });
    await settle();
    const answer = dataOf(other.ask("{ top }"));
    await settle();
    expect(loads).toBe(2);
    expect(await answer).toEqual({ top: 2 });
  });

  it("is released again when the first attempt failed", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const chaotic = chaosStore(store);
    const loadGate = gate();
    let loads = 0;
    const world = memoryWorld(() => store);
    const create = (own: Store) =>
      world.process(
        typeDefs,
        {
          Query: {
            top: async () => {
              const nth = ++loads;
              if (nth === 1) await loadGate.passed;
              return nth;
            },
          },
        },
        { testing: { clock }, store: own },
      );
    const [cutOff, other] = [create(chaotic), create(store)];
    const first = dataOf(cutOff.ask("{ top }"));
    await settle();
    chaotic.chaos.mode = "throws";
    loadGate.open();
    expect(await first).toEqual({ top: 1 });
    await settle();
    chaotic.chaos.mode = undefined;
    const second = dataOf(other.ask("{ top }"));
    await clock.advance(500);
    expect(loads).toBe(2);
    expect(await second).toEqual({ top: 2 });
  });

  it("is not renewed beyond loadTimeoutMs, so that another process loads a value whose load never ends", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const { passed, open } = gate();
    let loads = 0;
    const top = async (): Promise<number> => {
      const nth = ++loads;
      if (nth === 1) await passed;
      return nth;
    };
    const world = memoryWorld(() => store);
    const create = () =>
      world.process(typeDefs, { Query: { top } }, { testing: { clock }, loads: { loadTimeoutMs: 5_000 } });
    const [holder, other] = [create(), create()];
    const first = holder.ask("{ top }");
    await settle();
    await clock.advance(5_000);
    expect((await first).errors?.[0]?.message).toContain("expected the load to finish within 5000 ms");
    // The lease was renewed a second ago at the latest.
    await clock.advance(3_000);
    const answer = dataOf(other.ask("{ top }"));
    await settle();
    expect(loads).toBe(2);
    expect(await answer).toEqual({ top: 2 });
    expect(other.outcomes()).toEqual({ loaded: 1 });
    open();
  });

  it("is released when the cache of its holder closes before the load has ended, so that others load at once", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const loadGate = gate();
    let loads = 0;
    const world = memoryWorld(() => store);
    const top = (): Promise<number> | number => (++loads === 1 ? loadGate.passed.then(() => 1) : loads);
    const [closing, other] = [0, 1].map(() => world.process(typeDefs, { Query: { top } }, { testing: { clock } }));
    if (closing === undefined || other === undefined) throw new Error("expected two processes");
    const first = dataOf(closing.ask("{ top }"));
    await settle();
    const closed = closing.cache.close();
    await clock.advance(2_000);
    await closed;
    const second = dataOf(other.ask("{ top }"));
    await settle();
    expect(loads).toBe(2);
    expect(await second).toEqual({ top: 2 });
    loadGate.open();
    expect(await first).toEqual({ top: 1 });
  });

  it("is requested once by a waiter that polls while another process holds it", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const counting = chaosStore(store);
    const loadGate = gate();
    const world = memoryWorld(() => store);
    const resolvers = { Query: { top: () => loadGate.passed.then(() => 7) } };
    const holder = world.process(typeDefs, resolvers, { testing: { clock } });
    const waiter = world.process(typeDefs, resolvers, { testing: { clock }, store: counting });
    const first = dataOf(holder.ask("{ top }"));
    await settle();
    const second = dataOf(waiter.ask("{ top }"));
    await clock.advance(5_000);
    expect(counting.chaos.calls.get("read")).toBeGreaterThan(10);
    expect(counting.chaos.calls.get("acquire")).toBe(1);
    loadGate.open();
    expect(await Promise.all([first, second])).toEqual([{ top: 7 }, { top: 7 }]);
  });
});

it("a request that goes on after its cache has been closed requests no lease and stores nothing, and gets its value", async () => {
  const store = memoryStore();
  const { passed, open } = gate();
  const operations: string[] = [];
  let isHeld = false;
  const noting = (operation: "read" | "acquire" | "storeValues") => {
    const run = (store[operation] as (...args: unknown[]) => Promise<unknown>).bind(store);
    return async (...args: unknown[]) => {
      operations.push(operation);
      const result = await run(...args);
      if (isHeld) await passed;
      return result;
    };
  };
  const noted = ["read", "acquire", "storeValues"] as const;
  const watched = overrideStore(store, Object.fromEntries(noted.map((operation) => [operation, noting(operation)])));
  const { ask, cache } = memoryWorld(() => watched).process(typeDefs, { Query: { top: () => 7 } });
  await dataOf(ask("{ __typename }"));
  isHeld = true;
  const asked = dataOf(ask("{ top }"));
  await settle();
  await cache.close();
  operations.length = 0;
  open();
  expect(await asked).toEqual({ top: 7 });
  await settle();
  expect(operations).toEqual([]);
});
