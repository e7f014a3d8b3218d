import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import type { Store } from "../../../src/core/store/store.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    byKey(id: ID!): Int @cached(maxAge: 60)
    byTag(id: ID!): Int @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    byResult: [Movie!] @cached(maxAge: 60, tags: ["Movie:{$result[].id}"])
  }
  type Movie {
    id: ID!
    version: Int
  }
`;

/**
 * Creates two processes over one source whose first load is blocked: it has read the old version
 * and returns it once the gate opens.
 */
function blockedSource(world: World) {
  const loadGate = gate();
  const state = { version: 1, loads: 0 };
  const load = async <T>(toResult: (version: number) => T): Promise<T> => {
    const { version } = state;
    if (++state.loads === 1) await loadGate.passed;
    return toResult(version);
  };
  const resolvers = {
    Query: {
      byKey: () => load((version) => version),
      byTag: () => load((version) => version),
      byResult: () => load((version) => [{ id: 7, version }]),
    },
  };
  return {
    state,
    open: loadGate.open,
    first: world.process(typeDefs, resolvers),
    second: world.process(typeDefs, resolvers),
  };
}

const invalidations = [
  [
    "key",
    "{ byKey(id: 7) }",
    ({ cache }: Process) => cache.invalidate({ coordinate: "Query.byKey", args: { id: 7 } }),
    (version: number) => ({ byKey: version }),
  ],
  [
    "tag of the arguments",
    "{ byTag(id: 7) }",
    ({ cache }: Process) => cache.invalidateTags(["Movie:7"]),
    (version: number) => ({ byTag: version }),
  ],
  [
    "tag of the result",
    "{ byResult { version } }",
    ({ cache }: Process) => cache.invalidateTags(["Movie:7"]),
    (version: number) => ({ byResult: [{ version }] }),
  ],
] as const;

onEachStore("invalidation during a load", (world) => {
  for (const [by, query, invalidate, versioned] of invalidations) {
    it(`does not serve a value whose load began before its invalidation by ${by}, even if it is stored`, async () => {
      const { state, open, first, second } = blockedSource(world());
      const earlier = dataOf(first.ask(query));
      while (state.loads === 0) await settle();
      state.version = 2;
      await invalidate(second);
      open();
      expect(await earlier).toEqual(versioned(1));
      expect(await dataOf(first.ask(query))).toEqual(versioned(2));
      expect(await dataOf(second.ask(query))).toEqual(versioned(2));
      expect(state.loads).toBe(2);
      // A store does not know the tags of a value, so it takes one that the next reader refuses.
      if (by !== "key") return;
      expect(first.events.filter((event) => event.name === "write.finished").map((event) => event.isStored)).toContain(
        false,
      );
    });

    it(`does not let a later read in the loading process join a load invalidated by ${by}`, async () => {
      const { state, open, first, second } = blockedSource(world());
      const earlier = first.ask(query);
      while (state.loads === 0) await settle();
      state.version = 2;
      await invalidate(second);
      const later = dataOf(first.ask(query));
      // Tags of a result are unknown until the load ends, so that read waits until the late store is refused.
      // The other reads load at once.
      if (by !== "tag of the result") expect(await later).toEqual(versioned(2));
      open();
      expect(await later).toEqual(versioned(2));
      await earlier;
    });

    it(`does not let a later read in another process wait for a load invalidated by ${by}`, async () => {
      const { state, open, first, second } = blockedSource(world());
      const earlier = first.ask(query);
      while (state.loads === 0) await settle();
      state.version = 2;
      await invalidate(first);
      const later = dataOf(second.ask(query));
      if (by !== "tag of the result") expect(await later).toEqual(versioned(2));
      open();
      expect(await later).toEqual(versioned(2));
      await earlier;
    });

    it(`removes a stored value that is invalidated by ${by}`, async () => {
      const { state, open, first, second } = blockedSource(world());
      open();
      expect(await dataOf(first.ask(query))).toEqual(versioned(1));
      expect(await dataOf(second.ask(query))).toEqual(versioned(1));
      state.version = 2;
      await invalidate(second);
      expect(await dataOf(first.ask(query))).toEqual(versioned(2));
    });
  }

  it("does not store what is loaded during cache.mutate, and reads the new value afterwards", async () => {
    const { state, open, first, second } = blockedSource(world());
    open();
    await first.ask("{ byTag(id: 7) byKey(id: 7) }");
    const target = { tags: ["Movie:7"], entries: [{ coordinate: "Query.byKey", args: { id: 7 } }] };
    const answer = await first.cache.mutate(target, async () => {
      expect(await dataOf(second.ask("{ byTag(id: 7) byKey(id: 7) }"))).toEqual({ byTag: 1, byKey: 1 });
      state.version = 2;
      return "written";
    });
    expect(answer).toBe("written");
    expect(second.outcomes()).toEqual({ "bypassed(WRITE_IN_PROGRESS)": 2 });
    expect(await dataOf(second.ask("{ byTag(id: 7) byKey(id: 7) }"))).toEqual({ byTag: 2, byKey: 2 });
  });

  it("rejects cache.mutate with the error of a failed write and allows stores again", async () => {
    const { open, first } = blockedSource(world());
    open();
    const failure = new Error("no such film");
    await expect(first.cache.mutate({ tags: ["Movie:7"] }, () => Promise.reject(failure))).rejects.toBe(failure);
    await first.ask("{ byTag(id: 7) }");
    expect(first.outcomes()).toEqual({ loaded: 1 });
  });
});

it("does not give a read that has joined a load its value if a tag of the result was invalidated before", async () => {
  const { state, open, first } = blockedSource(memoryWorld());
  const query = "{ byResult { version } }";
  const earlier = first.ask(query);
  while (state.loads === 0) await settle();
  state.version = 2;
  await first.cache.invalidateTags(["Movie:7"]);
  const later = dataOf(first.ask(query));
  // The later read finds the lease taken and joins the load.
  for (let turn = 0; turn < 10; turn++) await settle();
  expect(state.loads).toBe(1);
  open();
  expect(await later).toEqual({ byResult: [{ version: 2 }] });
  await earlier;
});

it.each([
  ["", 0],
  [", although earlier reads wait for it", 2],
])(
  "does not give a later read a load whose tags were checked before their invalidation, while it is stored%s",
  async (_, count) => {
    const world = memoryWorld();
    const loading = gate();
    const storing = gate();
    const state = { version: 1, checked: 0 };
    const inner = world.store();
    // The value is stored only after the test has invalidated its tag.
    const store = new Proxy(inner, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (name === "storeValues")
          return async (...args: Parameters<Store["storeValues"]>) => {
            state.checked++;
            await storing.passed;
            return target.storeValues(...args);
          };
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const load = async (): Promise<unknown> => {
      const { version } = state;
      if (version === 1) await loading.passed;
      return [{ id: 7, version }];
    };
    const resolvers = { Query: { byResult: load } };
    const { cache, ask } = world.process(typeDefs, resolvers, { store, storage: { storeTimeoutMs: 60_000 } } as never);
    const query = "{ byResult { version } }";
    const first = dataOf(ask(query));
    const earlier: Promise<unknown>[] = [];
    for (let nth = 0; nth < count; nth++) {
      await settle();
      earlier.push(dataOf(ask(query)));
    }
    await settle();
    loading.open();
    expect(await first).toEqual({ byResult: [{ version: 1 }] });
    while (state.checked === 0) await settle();

    state.version = 2;
    await cache.invalidateTags(["Movie:7"]);
    const later = dataOf(ask(query));
    for (let turn = 0; turn < 10; turn++) await settle();
    storing.open();
    expect(await later).toEqual({ byResult: [{ version: 2 }] });
    await Promise.all(earlier);
  },
);

it.each([
  ["at once, since its entry is removed", true],
  ["with its next poll if its entry cannot be removed, and the invalidation is in force nevertheless", false],
])(
  "lets a request of another process go on that waits for the load of an invalidated key: %s",
  async (_when, isRemovable) => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    if (!isRemovable) store.remove = () => Promise.reject(new Error("read-only"));
    const state = { version: 1, loads: 0 };
    const held = gate();
    const byKey = async (): Promise<number> => {
      const { version } = state;
      if (++state.loads === 1) await held.passed;
      return version;
    };
    const world = memoryWorld(() => store);
    const [first, second] = [1, 2].map(() => world.process(typeDefs, { Query: { byKey } }, { testing: { clock } })) as [
      Process,
      Process,
    ];
    const query = "{ byKey(id: 7) }";
    const loading = dataOf(first.ask(query));
    await settle();
    const waiting = dataOf(second.ask(query));
    await settle();
    expect(state.loads).toBe(1);
    state.version = 2;
    await first.cache.invalidate({ coordinate: "Query.byKey", args: { id: 7 } });
    await settle();
    expect(state.loads).toBe(isRemovable ? 2 : 1);
    await clock.advance(500);
    expect([await waiting, state.loads]).toEqual([{ byKey: 2 }, 2]);
    held.open();
    expect(await loading).toEqual({ byKey: 1 });
    await settle();
    expect([await dataOf(first.ask(query)), state.loads]).toEqual([{ byKey: 2 }, 2]);
  },
);
