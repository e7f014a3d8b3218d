import type { Entry, Store } from "graphql-cached/store";
import { expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { dataOf, onEachStore, type World } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    n: Int @cached(maxAge: 60, tags: ["N"])
  }
`;

/** What somebody who can write to the store has written into the header of an entry. `now`: the store's time. */
type Forgery = (entry: Entry, now: number) => Partial<Entry>;

/** A store in which entries have forged headers, until they are removed. */
function forging(store: Store): { store: Store; forge(forgery: Forgery | undefined): void } {
  let forged: Forgery | undefined;
  const own: Partial<Store> = {
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
  };
  const proxy = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(own, name) ?? Reflect.get(target, name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  return { store: proxy, forge: (forgery) => (forged = forgery) };
}

function startProcess(world: World) {
  const { store, forge } = forging(world.store());
  let loads = 0;
  const load = (): number => ++loads;
  const options = {
    store,
    memory: false,
    storage: { storeTimeoutMs: 5_000 },
    leases: { leaseWaitMs: 60_000 },
  } as never;
  const process = world.process(typeDefs, { Query: { n: load } }, options);
  const settled = (): Promise<void> => partsOf(process.cache, "test").drain();
  return {
    ...process,
    forge,
    settled,
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

onEachStore("an entry whose header cannot be that of a load", (world) => {
  it.each(Object.entries(FORGERIES))("counts as absent: %s", async (_, forgery) => {
    const process = startProcess(world());
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 1 });
    await process.settled();
    process.forge(forgery);
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 2 });
    await process.settled();
    // What was loaded in its place is an entry like any other.
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 2 });
    expect(process.outcomes()).toEqual({ loaded: 2, hit: 1 });
    expect(process.corruptions()).toHaveLength(1);
  });

  it("does not outlive the invalidation of its tag, or of everything", async () => {
    for (const invalidate of ["invalidateTags", "clear"] as const) {
      const process = startProcess(world());
      await dataOf(process.ask("{ n }"));
      await process.settled();
      process.forge((_, now) => ({ position: 1e300, grantedAt: now + DAY_MS, freshUntilAt: 1e300 }));
      if (invalidate === "clear") await process.cache.clear();
      else await process.cache.invalidateTags(["N"]);
      expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 2 });
    }
  });

  it("holds up none of those who ask at the same time, and is removed once for all of them", async () => {
    const process = startProcess(world());
    await dataOf(process.ask("{ n }"));
    await process.settled();
    process.forge(() => ({ state: "pending", gen: GEN, untilAt: 1e300 }));
    const answers = await Promise.all(Array.from({ length: 20 }, () => dataOf(process.ask("{ n }"))));
    expect(answers).toEqual(Array.from({ length: 20 }, () => ({ n: 2 })));
    expect(process.corruptions()).toHaveLength(1);
  });

  it("is loaded by the process itself if the store does not let it be removed", async () => {
    const shared = world();
    const process = startProcess(shared);
    await dataOf(process.ask("{ n }"));
    await process.settled();
    process.forge(() => ({ state: "pending", gen: GEN, untilAt: 1e300 }));
    const { store } = partsOf(process.cache, "test");
    store.remove = () => Promise.reject(new Error("no right to remove"));
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 2 });
    expect(process.outcomes()).toEqual({ loaded: 1, "bypassed(STORE_UNAVAILABLE)": 1 });
  });
});
