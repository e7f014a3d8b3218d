import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { withoutMessages } from "../../support/without-messages.js";
import { dataOf, memoryWorld, type Process, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    known(id: ID!): Int @cached(maxAge: 600, tags: ["Movie:{$args.id}"])
    derived(id: ID!): Movie @cached(maxAge: 600, tags: ["Movie:{$result.id}"])
  }
  type Movie { id: ID! version: Int }
`;

const QUERY = "{ known(id: 7) derived(id: 7) { version } }";
const both = (version: number) => ({ known: version, derived: { version } });

/** Processes on one memory store, and a source with a version. */
function createFleet(make: (store: Store, clock: FakeClock) => Store = (store) => store) {
  const clock = new FakeClock();
  const store = chaosStore(make(memoryStore({ clock }), clock));
  const world = memoryWorld(() => store);
  const source = { version: 1 };
  const resolvers = {
    Query: {
      known: () => source.version,
      derived: (_: unknown, { id }: { id: string }) => ({ id, version: source.version }),
    },
  };
  const start = (options: object = {}): Process =>
    world.process(typeDefs, resolvers, { testing: { clock }, ...options });
  const reads = (): number => store.chaos.calls.get("read") ?? 0;
  const one = start({ memory: { maxStalenessMs: 2_000 } });
  const ask = (process: Process = one): Promise<unknown> => dataOf(process.ask(QUERY));
  /** Whether memory answers, without a read of the store. */
  const isInMemory = async (): Promise<boolean> => {
    const before = reads();
    await ask();
    return reads() === before;
  };
  return {
    clock,
    store,
    source,
    one,
    other: start(),
    start,
    reads,
    ask,
    isInMemory,
    /** Resolves when both values are in memory. */
    warm: async (): Promise<void> => {
      await ask();
      await waitForStores(one, 2);
      await ask();
      expect(await isInMemory()).toBe(true);
    },
  };
}

const INVALIDATIONS: readonly (readonly [string, (process: Process) => Promise<void>])[] = [
  ["a tag", ({ cache }) => cache.invalidateTags(["Movie:7"])],
  [
    "their keys",
    async ({ cache }) => {
      for (const coordinate of ["Query.known", "Query.derived"])
        await cache.invalidate({ coordinate, args: { id: 7 } });
    },
  ],
  [
    "their fields",
    async ({ cache }) => {
      for (const coordinate of ["Query.known", "Query.derived"]) await cache.invalidate({ coordinate });
    },
  ],
  ["everything", ({ cache }) => cache.clear()],
  ["a write", ({ cache }) => cache.mutate({ tags: ["Movie:7"] }, () => undefined)],
];

describe("memory that counts for two seconds", () => {
  it.each(INVALIDATIONS)("learns from a message what another process has invalidated: %s", async (_, invalidate) => {
    const { source, other, reads, ask, warm } = createFleet();
    await warm();
    source.version = 2;
    await invalidate(other);
    await settle();
    const before = reads();
    expect(await ask()).toEqual(both(2));
    expect(reads()).toBeGreaterThan(before);
  });

  it("goes on to serve what was not invalidated, without a read of the store", async () => {
    const { other, isInMemory, warm } = createFleet();
    await warm();
    await other.cache.invalidateTags(["Movie:8"]);
    await settle();
    expect(await isInMemory()).toBe(true);
  });

  it("no longer serves a softly invalidated value, which the store serves as stale", async () => {
    const { other, one, warm, ask, isInMemory } = createFleet();
    await warm();
    await other.cache.invalidateTags(["Movie:7"], { soft: true });
    await settle();
    const before = one.outcomes().hit;
    expect(await isInMemory()).toBe(false);
    await ask();
    expect(one.outcomes().hit).toBe(before);
  });

  it("serves for as long as it asks for the head of the clock, however long it reads nothing else", async () => {
    const { clock, isInMemory, reads, warm } = createFleet();
    await warm();
    for (let seconds = 0; seconds < 60; seconds++) {
      const before = reads();
      await clock.advance(1_000);
      expect(reads()).toBe(before + 2);
      expect(await isInMemory()).toBe(true);
    }
  });

  it("learns within half a second of an invalidation whose message is lost", async () => {
    const { clock, source, other, ask, isInMemory, warm } = createFleet(withoutMessages);
    await warm();
    source.version = 2;
    await other.cache.invalidateTags(["Movie:7"]);
    expect(await isInMemory()).toBe(true);
    await clock.advance(499);
    expect(await ask()).toEqual(both(1));
    await clock.advance(1);
    expect(await ask()).toEqual(both(2));
  });

  it("learns at once of an invalidation whose message is lost if it reads something else", async () => {
    const { source, other, one, ask, warm } = createFleet(withoutMessages);
    await warm();
    source.version = 2;
    await other.cache.invalidateTags(["Movie:7"]);
    await one.ask("{ known(id: 8) }");
    expect(await ask()).toEqual(both(2));
  });

  it.each(["throws", "hangs"] as const)(
    "serves nothing from two seconds after its last answer on, if the store %s",
    async (mode) => {
      const { clock, store, source, one, ask, isInMemory, warm } = createFleet();
      await warm();
      store.chaos.mode = mode;
      source.version = 2;
      await clock.advance(1_999);
      expect(await ask()).toEqual(both(1));
      await clock.advance(1);
      const asked = ask();
      await clock.advance(5_000);
      expect(await asked).toEqual(both(2));
      const { at, memory } = await one.cache.health();
      expect(Date.parse(at) - Date.parse(memory?.confirmedAt as string)).toBeGreaterThanOrEqual(2_000);
      store.chaos.mode = undefined;
      await clock.advance(3_000);
      expect([await ask(), await isInMemory()]).toEqual([both(1), true]);
    },
  );

  it("stops asking the store when it is not used, and serves again after a read", async () => {
    const { clock, source, other, ask, isInMemory, reads, warm } = createFleet();
    await warm();
    await clock.advance(20_000);
    const before = reads();
    await clock.advance(280_000);
    expect(reads()).toBe(before);
    await other.cache.invalidateTags(["Movie:8"]);
    source.version = 2;
    expect(await isInMemory()).toBe(false);
    expect(await ask()).toEqual(both(1));
    expect(await isInMemory()).toBe(true);
  });

  it("does not serve what was invalidated while it slept", async () => {
    const { clock, source, other, ask, warm } = createFleet();
    await warm();
    await clock.advance(60_000);
    source.version = 2;
    await other.cache.invalidateTags(["Movie:7"]);
    await settle();
    expect(await ask()).toEqual(both(2));
  });

  it("does not serve a value that was invalidated between its read and the reply", async () => {
    const held = gate();
    const state = { isHeld: false };
    const { source, other, ask, isInMemory, one } = createFleet((store) => {
      const { read } = store;
      return Object.assign(withoutMessages(store), {
        read: async (keys: readonly string[]) => {
          const reply = await read.call(store, keys);
          if (state.isHeld && keys.length > 0) {
            state.isHeld = false;
            await held.passed;
          }
          return reply;
        },
      });
    });
    await ask();
    await waitForStores(one, 2);
    state.isHeld = true;
    const asked = ask();
    await settle();
    source.version = 2;
    await other.cache.invalidateTags(["Movie:7"]);
    held.open();
    // It has asked before the invalidation.
    expect(await asked).toEqual(both(1));
    expect(await isInMemory()).toBe(true);
    await one.ask("{ known(id: 8) }");
    expect(await ask()).toEqual(both(2));
  });

  it("does not serve what was read while an invalidation of this process failed", async () => {
    const failing = { isOn: false, held: gate() };
    const { store, source, other, start } = createFleet(withoutMessages);
    const own = new Proxy(store, {
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property, target);
        if (property !== "appendClock") return typeof value === "function" ? value.bind(target) : value;
        return async (records: readonly Buffer[]) => {
          if (!failing.isOn || records.length === 0) return target.appendClock(records);
          await failing.held.passed;
          throw new Error("away");
        };
      },
    });
    const process = start({ memory: { maxStalenessMs: 2_000 }, store: own });
    const query = "{ derived(id: 7) { version } }";
    await dataOf(process.ask("{ derived(id: 8) { version } }"));
    // The position of the value is later than all that the process knows.
    await other.cache.invalidateTags(["Movie:9"]);
    await dataOf(other.ask(query));
    await waitForStores(other);
    failing.isOn = true;
    source.version = 2;
    const invalidated = process.cache.invalidateTags(["Movie:7"]);
    await settle();
    expect(await dataOf(process.ask(query))).toEqual({ derived: { version: 1 } });
    failing.held.open();
    await expect(invalidated).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    expect(await dataOf(process.ask(query))).toEqual({ derived: { version: 2 } });
    failing.isOn = false;
  });

  it("learns within half a second that the store is empty, as after a flush or a restart", async () => {
    const server = { store: undefined as Store | undefined };
    const { clock, source, ask, warm } = createFleet((store) => {
      server.store = store;
      return new Proxy(store, {
        get(_, property) {
          const target = server.store as Store;
          const value: unknown = Reflect.get(target, property, target);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    });
    await warm();
    server.store = memoryStore({ clock });
    source.version = 2;
    await clock.advance(499);
    expect(await ask()).toEqual(both(1));
    await clock.advance(1);
    expect(await ask()).toEqual(both(2));
  });

  it("learns what another cache on the same memory store has invalidated", async () => {
    const { source, start, ask, warm } = createFleet();
    await warm();
    const second = start({ memory: { maxStalenessMs: 2_000 } });
    for (let nth = 0; nth < 3; nth++) await ask(second);
    source.version = 2;
    await second.cache.invalidateTags(["Movie:7"]);
    expect(await ask(second)).toEqual(both(2));
    await settle();
    expect(await ask()).toEqual(both(2));
  });

  it("does not learn that another process has stored a newer value, if nothing was invalidated", async () => {
    const { clock, source, one, other, isInMemory, warm } = createFleet();
    await warm();
    source.version = 2;
    const context = {};
    other.cache.override(context, "REFRESH");
    expect(await dataOf(other.ask(QUERY, context))).toEqual(both(2));
    await clock.advance(500);
    expect([await isInMemory(), await dataOf(one.ask(QUERY))]).toEqual([true, both(1)]);
  });

  it("ends with its cache: no question and no message reaches it any more", async () => {
    const { clock, store, one, other, reads, warm } = createFleet();
    await warm();
    await one.cache.close();
    const before = reads();
    const logReads = store.chaos.calls.get("readClock") as number;
    await other.cache.invalidateTags(["Movie:7"]);
    await clock.advance(5_000);
    // The process that has invalidated reads the log once.
    expect([reads(), store.chaos.calls.get("readClock")]).toEqual([before, logReads + 1]);
  });
});
