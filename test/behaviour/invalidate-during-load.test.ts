import { gate, settle } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { dataOf, onEachStore, type Process, type World } from "../support/world.js";

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

/** A source whose first load is held in the middle: it has read the old version and answers once the gate is open. */
function heldSource(world: World) {
  const door = gate();
  const state = { version: 1, loads: 0 };
  const load = async <T>(answer: (version: number) => T): Promise<T> => {
    const { version } = state;
    if (++state.loads === 1) await door.passed;
    return answer(version);
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
    open: door.open,
    first: world.process(typeDefs, resolvers),
    second: world.process(typeDefs, resolvers),
  };
}

const ways = [
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

onEachStore("an invalidation wins against a load under way", (world) => {
  for (const [by, query, invalidate, versioned] of ways) {
    it(`a value whose load began before its invalidation by ${by} is not stored, and the next read is new`, async () => {
      const { state, open, first, second } = heldSource(world());
      const early = dataOf(first.ask(query));
      while (state.loads === 0) await settle();
      state.version = 2;
      await invalidate(second);
      open();
      expect(await early).toEqual(versioned(1));
      expect(await dataOf(first.ask(query))).toEqual(versioned(2));
      expect(await dataOf(second.ask(query))).toEqual(versioned(2));
      expect(state.loads).toBe(2);
      expect(first.events.filter((event) => event.name === "write.finished").map((event) => event.isStored)).toContain(
        false,
      );
    });

    it(`a reader in the loading process that starts after the invalidation by ${by} does not join the load`, async () => {
      const { state, open, first, second } = heldSource(world());
      const early = first.ask(query);
      while (state.loads === 0) await settle();
      state.version = 2;
      await invalidate(second);
      const late = dataOf(first.ask(query));
      // The late reader of a result's tag has to see the fill refused before he can go on; the others load at once.
      if (by !== "tag of the result") expect(await late).toEqual(versioned(2));
      open();
      expect(await late).toEqual(versioned(2));
      await early;
    });

    it(`a reader in another process that starts after the invalidation by ${by} does not wait for the old load`, async () => {
      const { state, open, first, second } = heldSource(world());
      const early = first.ask(query);
      while (state.loads === 0) await settle();
      state.version = 2;
      await invalidate(first);
      const late = dataOf(second.ask(query));
      if (by !== "tag of the result") expect(await late).toEqual(versioned(2));
      open();
      expect(await late).toEqual(versioned(2));
      await early;
    });

    it(`a stored value is gone after its invalidation by ${by}`, async () => {
      const { state, open, first, second } = heldSource(world());
      open();
      expect(await dataOf(first.ask(query))).toEqual(versioned(1));
      expect(await dataOf(second.ask(query))).toEqual(versioned(1));
      state.version = 2;
      await invalidate(second);
      expect(await dataOf(first.ask(query))).toEqual(versioned(2));
    });
  }

  it("what is loaded inside a write bracket is not stored, and the next read after it is new", async () => {
    const { state, open, first, second } = heldSource(world());
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

  it("a write that fails inside its bracket fails with its own error, and the bracket ends", async () => {
    const { open, first } = heldSource(world());
    open();
    const failure = new Error("no such film");
    await expect(first.cache.mutate({ tags: ["Movie:7"] }, () => Promise.reject(failure))).rejects.toBe(failure);
    await first.ask("{ byTag(id: 7) }");
    expect(first.outcomes()).toEqual({ loaded: 1 });
  });
});
