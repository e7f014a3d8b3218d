import type { Entry } from "graphql-cached/store";
import { expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, onEachStore, type World } from "../../support/world.js";

/** What somebody who can write to the store has written into the header of an entry. `now`: the store's time. */
type Forgery = (entry: Entry, now: number) => Partial<Entry>;

/** A process that has loaded a value, whose entry has a forged header from `forge` on, until it is removed or stored. */
async function startProcess(world: World) {
  const store = world.store();
  let forged: Forgery | undefined;
  const forging = overrideStore(store, {
    async read(keys) {
      const read = await store.read(keys);
      const readings = read.readings.map((reading) => {
        if (forged === undefined || reading.kind !== "read" || reading.entry === undefined) return reading;
        return { ...reading, entry: { ...reading.entry, ...forged(reading.entry, reading.now) } };
      });
      return { ...read, readings };
    },
    async remove(keys, options) {
      await store.remove(keys, options);
      forged = undefined;
    },
    async storeValues(requests) {
      const outcomes = await store.storeValues(requests);
      if (outcomes.includes("stored")) forged = undefined;
      return outcomes;
    },
  });
  let loads = 0;
  const process = world.process(
    'type Query { n: Int @cached(maxAge: 60, tags: ["N"]) }',
    { Query: { n: () => ++loads } },
    { store: forging, memory: false, storage: { storeTimeoutMs: 5_000 }, leases: { leaseWaitMs: 60_000 } } as never,
  );
  /** Reads the value, and waits until it is stored. */
  const read = async (): Promise<unknown> => {
    const data = await dataOf(process.ask("{ n }"));
    await partsOf(process.cache, "test").drain();
    return data;
  };
  expect(await read()).toEqual({ n: 1 });
  return {
    ...process,
    read,
    forge: (forgery: Forgery) => {
      forged = forgery;
    },
    corruptions: () => process.events.filter(({ name }) => name === "entry.corrupt"),
  };
}

const DAY_MS = 86_400_000;
const GEN = "0123456789abcdef";

/** In each of them, one number cannot be. */
const FORGERIES: Readonly<Record<string, Forgery>> = {
  "a position that no clock reaches": () => ({ position: 1e300 }),
  "a position one minute after the head of the clock": ({ position }) => ({ position: position + 60_000_000 }),
  "an instant that is no number": () => ({ grantedAt: Number.NaN }),
  "a load that begins tomorrow": (_, now) => ({ grantedAt: now + DAY_MS }),
  "a load that begins when no clock does": () => ({ grantedAt: 1e300, freshUntilAt: 1e301 }),
  "a lease that lasts for a day": (_, now) => ({ gen: GEN, untilAt: now + DAY_MS }),
  "a lease that never ends, on a value that is stale": () => ({ freshUntilAt: 0, gen: GEN, untilAt: 1e300 }),
  "a lease from a position that no clock reaches": (_, now) => ({
    gen: GEN,
    untilAt: now + 1_000,
    leasePosition: 1e300,
  }),
  "a load that never ends": () => ({ state: "pending", gen: GEN, untilAt: 1e300 }),
  "a failure that never ends": () => ({ state: "failed", untilAt: 1e300, body: Buffer.from("{}") }),
  "a value that can never be stored": () => ({ state: "uncacheable", untilAt: 1e300, body: Uint8Array.of(1) }),
};

const PENDING: Forgery = () => ({ state: "pending", gen: GEN, untilAt: 1e300 });

onEachStore("an entry whose header cannot be that of a load", (world) => {
  it.each(Object.entries(FORGERIES))("counts as absent: %s", async (_, forgery) => {
    const { read, forge, outcomes, corruptions } = await startProcess(world());
    forge(forgery);
    // What was loaded in its place is an entry like any other.
    expect([await read(), await read()]).toEqual([{ n: 2 }, { n: 2 }]);
    expect(outcomes()).toEqual({ loaded: 2, hit: 1 });
    expect(corruptions()).toHaveLength(1);
  });

  it("does not outlive the invalidation of its tag, or of everything", async () => {
    for (const invalidate of ["invalidateTags", "clear"] as const) {
      const { cache, read, forge } = await startProcess(world());
      forge((_, now) => ({ position: 1e300, grantedAt: now + DAY_MS, freshUntilAt: 1e300 }));
      await (invalidate === "clear" ? cache.clear() : cache.invalidateTags(["N"]));
      expect(await read()).toEqual({ n: 2 });
    }
  });

  it("holds up none of those who ask at the same time, and is removed once for all of them", async () => {
    const { read, forge, corruptions } = await startProcess(world());
    forge(PENDING);
    const answers = await Promise.all(Array.from({ length: 20 }, () => read()));
    expect(answers).toEqual(Array(20).fill({ n: 2 }));
    expect(corruptions()).toHaveLength(1);
  });

  it("is loaded by the process itself if the store does not let it be removed", async () => {
    const { cache, read, forge, outcomes } = await startProcess(world());
    forge(PENDING);
    partsOf(cache, "test").store.remove = () => Promise.reject(new Error("no right to remove"));
    expect(await read()).toEqual({ n: 2 });
    expect(outcomes()).toEqual({ loaded: 1, "bypassed(STORE_UNAVAILABLE)": 1 });
  });
});
