import { gate, settle } from "@graphql-cached/testing";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { withHeldWakes } from "../../support/held-wakes.js";
import { timedWorld } from "../../support/world.js";

/** Two processes with one function each, which have a value that has expired, and whose source fails from then on. */
async function twoProcesses({ hasMessages = true } = {}) {
  const world = timedWorld();
  const source = { fails: false, hold: Promise.resolve(), loads: 0 };
  const load = async (): Promise<number> => {
    const nth = ++source.loads;
    await source.hold;
    if (source.fails) throw new Error("out of order");
    return nth;
  };
  const start = (store: Store) => {
    const { cache } = world.bare({ store, testing: { random: () => 0 } } as never);
    return cache.wrap({ name: "rate", load, maxAge: 10, staleIfError: 60 });
  };
  const one = start(world.store());
  const other = start(hasMessages ? world.store() : withHeldWakes(world.store()).store);
  await one();
  await settle();
  await world.clock.advance(12_000);
  source.fails = true;
  return { clock: world.clock, source, one, other };
}

describe.each([
  ["by a message", true],
  ["by polling", false],
])("a reader that learns %s that the load of another process has failed", (_, hasMessages) => {
  it("is told that its value is stale, and how old it is", async () => {
    const { clock, source, one, other } = await twoProcesses({ hasMessages });
    const loadGate = gate();
    source.hold = loadGate.passed;
    const first = one.read();
    await settle();
    const second = other.read();
    await clock.advance(300);
    loadGate.open();
    await settle();
    await clock.advance(700);
    expect(source.loads).toBe(2);
    for (const { value, outcome, ageMs } of [await first, await second]) {
      expect([value, outcome]).toEqual([1, "staleIfError"]);
      expect(ageMs).toBeGreaterThanOrEqual(12_000);
      expect(ageMs).toBeLessThanOrEqual(13_000);
    }
  });
});

it("a reader whose lease request shows a failed refresh is told that its value is stale, and how old it is", async () => {
  const { one, other } = await twoProcesses();
  // Both read before one of them has the lease, and the load of that one fails before the other asks for it.
  for (const { value, outcome, ageMs } of await Promise.all([one.read(), other.read()]))
    expect([value, outcome, ageMs]).toEqual([1, "staleIfError", 12_000]);
});
