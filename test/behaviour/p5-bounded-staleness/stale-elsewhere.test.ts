import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { createCache, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it, onTestFinished } from "vitest";
import { withHeldWakes } from "../../support/held-wakes.js";

/** Two processes with one function each, whose source answers once the test lets it, and fails if it is told to. */
function twoProcesses({ hasMessages = true } = {}) {
  const clock = new FakeClock();
  const shared = memoryStore({ clock });
  const source = { fails: false, hold: Promise.resolve() as Promise<unknown>, loads: 0 };
  const open = (store: Store) => {
    const cache = createCache({ store, prefix: "stale", defaultScope: "PUBLIC", testing: { clock, random: () => 0 } });
    onTestFinished(() => cache.close());
    const load = async (): Promise<number> => {
      const nth = ++source.loads;
      await source.hold;
      if (source.fails) throw new Error("out of order");
      return nth;
    };
    return cache.wrap({ name: "rate", load, maxAge: 10, staleIfError: 60 });
  };
  const [one, other] = [open(shared), open(hasMessages ? shared : withHeldWakes(shared).store)];
  return { clock, source, one, other };
}

describe.each([
  ["by a message", true],
  ["by polling", false],
])("a reader that learns %s that the load of another process has failed", (_, hasMessages) => {
  it("is told that its value is stale, and how old it is", async () => {
    const { clock, source, one, other } = twoProcesses({ hasMessages });
    await one();
    await settle();
    await clock.advance(12_000);
    source.fails = true;
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
  const { clock, source, one, other } = twoProcesses();
  await one();
  await settle();
  await clock.advance(12_000);
  source.fails = true;
  // Both read before one of them has the lease, and the load of that one fails before the other asks for it.
  const [first, second] = await Promise.all([one.read(), other.read()]);
  for (const { value, outcome, ageMs } of [first, second])
    expect([value, outcome, ageMs]).toEqual([1, "staleIfError", 12_000]);
});
