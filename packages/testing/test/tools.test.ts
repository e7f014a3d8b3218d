import { chaosStore, FakeClock, gate, settle, storeConformance } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";

const NAMES = { wakeChannel: "wake", reports: "reports", clock: "clock" };

describe("FakeClock", () => {
  it("fires the timers that fall due in their order, each at its own time, and no others", async () => {
    const clock = new FakeClock(0);
    const fired: [string, number][] = [];
    const timer = (name: string, ms: number) => clock.after(ms, () => fired.push([name, clock.now()]));
    timer("late", 30);
    timer("early", 10);
    timer("beyond", 41);
    timer("cancelled", 20)();
    await clock.advance(40);
    expect(fired).toEqual([
      ["early", 10],
      ["late", 30],
    ]);
    expect(clock.now()).toBe(40);
  });

  it("lets what a timer has begun end before it fires the next one", async () => {
    const clock = new FakeClock();
    const steps: string[] = [];
    clock.after(1, () => void Promise.resolve().then(() => steps.push("what the first has begun")));
    clock.after(2, () => steps.push("the second"));
    await clock.advance(2);
    expect(steps).toEqual(["what the first has begun", "the second"]);
  });

  it("does not go back when what a timer has begun advances it as well", async () => {
    const clock = new FakeClock(0);
    clock.after(10, () => void clock.advance(2_000));
    await clock.advance(100);
    expect(clock.now()).toBe(2_010);
  });
});

describe("A gate", () => {
  it("holds what waits for it until it is opened", async () => {
    const held = gate();
    let isPassed = false;
    void held.passed.then(() => (isPassed = true));
    await settle();
    expect(isPassed).toBe(false);
    held.open();
    await settle();
    expect(isPassed).toBe(true);
  });
});

describe("chaosStore", () => {
  it("reaches the store, fails or hangs as its mode says, and counts its calls", async () => {
    const store = chaosStore(memoryStore());
    store.open(NAMES, { wake: () => undefined });
    await expect(store.read(["k"])).resolves.toMatchObject({ readings: [{ kind: "read" }] });
    store.chaos.mode = "throws";
    await expect(store.read(["k"])).rejects.toThrow("chaosStore: mode is `throws`");
    store.chaos.mode = "hangs";
    let isSettled = false;
    void store.read(["k"]).finally(() => (isSettled = true));
    await settle();
    expect(isSettled).toBe(false);
    expect(store.chaos.calls.get("read")).toBe(3);
  });
});

describe("storeConformance", () => {
  it.each(storeConformance.map((one) => [one.title, one] as const))(
    "has a case that a store which fails does not pass: %s",
    async (_title, { run }) => {
      const clock = new FakeClock();
      const store = chaosStore(memoryStore({ clock }));
      store.chaos.mode = "throws";
      store.open(NAMES, { wake: () => undefined });
      await expect(run({ store, woken: [], heard: [], elapse: (ms) => clock.advance(ms) }, "case")).rejects.toThrow();
    },
  );
});
