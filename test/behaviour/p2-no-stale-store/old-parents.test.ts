import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, onEachStore, type World } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movies: [Movie!]!
    models: [Model!]!
    unrelated: Int @cached(maxAge: 60)
  }
  type Mutation {
    rename(title: String!): Movie! @invalidates(tags: ["Movie:7"])
  }
  type Movie {
    id: ID!
    title: String!
    "Made of its parent."
    label: String! @cached(maxAge: 60, tags: ["Movie:{$source.id}"])
    "Made of its key."
    named: String! @cached(maxAge: 60, tags: ["Movie:{$source.id}"])
    "Made of its parent, whose tag follows from the value."
    copy: Copy! @cached(maxAge: 60, tags: ["Movie:{$result.id}"])
    "Its parent."
    self: Copy! @cached(maxAge: 60, tags: ["Movie:{$source.id}"])
    "Fails for an old parent."
    strict: String! @cached(maxAge: 60, tags: ["Movie:{$source.id}"])
    "Contains its parent."
    inside: Inside! @cached(maxAge: 60, tags: ["Movie:{$source.id}"])
  }
  type Copy {
    id: ID!
    title: String!
  }
  type Inside {
    movie: Copy!
  }
  type Model {
    id: ID!
    label: String! @cached(maxAge: 60, tags: ["Movie:{$source.id}"])
  }
`;

interface Row {
  readonly id: string;
  readonly title: string;
}

class Instance implements Row {
  readonly id = "7";
  readonly title: string;
  constructor(title: string) {
    this.title = title;
  }
}

/** Two processes over one row. Lists read it at once, and return it when `held` has passed. */
function shop(world: World) {
  const state = {
    title: "old",
    lists: 0,
    labels: 0,
    names: 0,
    copies: 0,
    held: Promise.resolve(),
    labelHeld: Promise.resolve(),
    copyHeld: Promise.resolve(),
  };
  const list = async <T>(toRow: (title: string) => T): Promise<T[]> => {
    const row = toRow(state.title);
    state.lists++;
    await state.held;
    return [row];
  };
  const row = (title: string): Row => ({ id: "7", title });
  const label = async ({ title }: Row): Promise<string> => {
    state.labels++;
    await state.labelHeld;
    return `label of ${title}`;
  };
  const resolvers = {
    Query: {
      movies: () => list(row),
      unrelated: () => 1,
      models: () => list((title) => new Instance(title)),
    },
    Mutation: {
      rename: (_: unknown, { title }: { title: string }) => {
        state.title = title;
        return { id: "7", title };
      },
    },
    Movie: {
      label,
      named: ({ id }: Row) => `${++state.names} of ${id}: ${state.title}`,
      copy: async ({ id, title }: Row) => {
        state.copies++;
        await state.copyHeld;
        return { id, title };
      },
      self: (movie: Row) => movie,
      strict: ({ title }: Row) => {
        if (title === "old") throw new Error("too old");
        return title;
      },
      inside: (movie: Row) => ({ movie }),
    },
    Model: { label },
  };
  const first = world.process(typeDefs, resolvers);
  const second = world.process(typeDefs, resolvers);
  /** Changes the row and invalidates its tag in the other process while a query waits for its list. `isTold`: whether another read shows that meanwhile. */
  const changedDuring = async (query: string, isTold: boolean): Promise<unknown> => {
    const listGate = gate();
    state.held = listGate.passed;
    const earlier = dataOf(first.ask(query));
    while (state.lists === 0) await settle();
    state.title = "new";
    await second.cache.invalidateTags(["Movie:7"]);
    if (isTold) await dataOf(first.ask("{ unrelated }"));
    state.held = Promise.resolve();
    listGate.open();
    return earlier;
  };
  return { state, first, second, changedDuring };
}

onEachStore("values that are made of their parent", (world) => {
  for (const [what, field, versioned] of [
    ["reads a property of it", "label", (title: string) => `label of ${title}`],
    ["derives its tag from the value", "copy { title }", (title: string) => ({ title })],
    ["returns it", "self { title }", (title: string) => ({ title })],
    ["returns it inside of another object", "inside { movie { title } }", (title: string) => ({ movie: { title } })],
  ] as const)
    it(`does not serve a value of a resolver that ${what}, which was invalidated before the load and after the parent was read`, async () => {
      const { first, second, changedDuring } = shop(world());
      const query = `{ movies { ${field} } }`;
      const name = field.split(" ")[0] as string;
      const movies = (title: string) => ({ movies: [{ [name]: versioned(title) }] });
      expect(await changedDuring(query, true)).toEqual(movies("old"));
      expect(await dataOf(second.ask(query))).toEqual(movies("new"));
      expect(await dataOf(first.ask(query))).toEqual(movies("new"));
    });

  it("does not share the error of a resolver that fails for a parent from before an invalidation", async () => {
    const { state, first, second } = shop(world());
    const listGate = gate();
    state.held = listGate.passed;
    const query = "{ movies { strict } }";
    const earlier = first.ask(query);
    while (state.lists === 0) await settle();
    state.title = "new";
    await second.cache.invalidateTags(["Movie:7"]);
    state.held = Promise.resolve();
    listGate.open();
    expect((await earlier).errors?.[0]?.message).toBe("too old");
    for (const process of [second, first])
      expect(await dataOf(process.ask(query))).toEqual({ movies: [{ strict: "new" }] });
  });
});

describe("values that are made of an old parent", () => {
  it("gives a request that shares the load of an earlier one a value of its own parent", async () => {
    const { state, first, second } = shop(memoryWorld());
    const listGate = gate();
    state.held = listGate.passed;
    const query = "{ movies { label } }";
    const earlier = dataOf(first.ask(query));
    while (state.lists === 0) await settle();
    state.title = "new";
    await second.cache.invalidateTags(["Movie:7"]);
    // Any read tells the process.
    await dataOf(first.ask("{ unrelated }"));
    const later = Promise.all([dataOf(first.ask(query)), dataOf(first.ask(query))]);
    while (state.lists < 3) await settle();
    listGate.open();
    expect(await earlier).toEqual({ movies: [{ label: "label of old" }] });
    expect(await later).toEqual([{ movies: [{ label: "label of new" }] }, { movies: [{ label: "label of new" }] }]);
    expect(await dataOf(second.ask(query))).toEqual({ movies: [{ label: "label of new" }] });
    expect(state.labels).toBe(2);
  });

  it("lets a request that has joined such a load by its tag load and store the value itself", async () => {
    const { state, first, second } = shop(memoryWorld());
    const [listGate, copyGate] = [gate(), gate()];
    state.held = listGate.passed;
    state.copyHeld = copyGate.passed;
    const query = "{ movies { copy { title } } }";
    const movies = (title: string) => ({ movies: [{ copy: { title } }] });
    const earlier = dataOf(first.ask(query));
    while (state.lists === 0) await settle();
    state.title = "new";
    await second.cache.invalidateTags(["Movie:7"]);
    await dataOf(first.ask("{ unrelated }"));
    state.held = Promise.resolve();
    listGate.open();
    while (state.copies === 0) await settle();
    const later = dataOf(first.ask(query));
    for (let turn = 0; turn < 20; turn++) await settle();
    expect(state.copies).toBe(1);
    copyGate.open();
    expect(await earlier).toEqual(movies("old"));
    expect(await later).toEqual(movies("new"));
    for (const process of [second, first]) expect(await dataOf(process.ask(query))).toEqual(movies("new"));
    expect(state.copies).toBe(2);
  });

  it("gives no request the load of an earlier one without a lease, as during a write", async () => {
    const { state, first, second } = shop(memoryWorld());
    const [listGate, labelGate, writeGate] = [gate(), gate(), gate()];
    state.held = listGate.passed;
    const query = "{ movies { label } }";
    const movies = (title: string) => ({ movies: [{ label: `label of ${title}` }] });
    const earlier = dataOf(first.ask(query));
    while (state.lists === 0) await settle();
    state.held = Promise.resolve();
    state.title = "new";
    await second.cache.invalidateTags(["Movie:7"]);
    const written = second.cache.mutate({ tags: ["Movie:7"] }, () => writeGate.passed);
    await settle();
    await dataOf(first.ask("{ unrelated }"));
    state.labelHeld = labelGate.passed;
    const running = dataOf(first.ask(query));
    while (state.labels === 0) await settle();
    // Both wait for that load to end: the earlier one is to begin the next.
    listGate.open();
    for (let turn = 0; turn < 20; turn++) await settle();
    const later = dataOf(first.ask(query));
    for (let turn = 0; turn < 20; turn++) await settle();
    expect(state.labels).toBe(1);
    labelGate.open();
    expect(await Promise.all([running, earlier, later])).toEqual([movies("new"), movies("old"), movies("new")]);
    writeGate.open();
    await written;
  });

  it("loads once for all earlier requests", async () => {
    const { state, first, second } = shop(memoryWorld());
    const listGate = gate();
    state.held = listGate.passed;
    const query = "{ movies { label } }";
    const earlier = Promise.all(Array.from({ length: 20 }, () => dataOf(first.ask(query))));
    while (state.lists < 20) await settle();
    state.title = "new";
    await second.cache.invalidateTags(["Movie:7"]);
    listGate.open();
    for (const answer of await earlier) expect(answer).toEqual({ movies: [{ label: "label of old" }] });
    expect(state.labels).toBe(1);
    expect(await dataOf(first.ask(query))).toEqual({ movies: [{ label: "label of new" }] });
  });

  it.each([
    ["an object, in a process that hears of the invalidation with the read of the value", "movies", false],
    ["an instance of a class", "models", true],
    ["an instance of a class, in a process that hears of the invalidation with the read of the value", "models", false],
  ])("does not store what is made of %s", async (_, list, isTold) => {
    const { first, second, changedDuring } = shop(memoryWorld());
    const query = `{ ${list} { label } }`;
    expect(await changedDuring(query, isTold)).toEqual({ [list]: [{ label: "label of old" }] });
    expect(await dataOf(second.ask(query))).toEqual({ [list]: [{ label: "label of new" }] });
    expect(await dataOf(first.ask(query))).toEqual({ [list]: [{ label: "label of new" }] });
  });

  it("stores nothing that is made of what a mutation has returned before its own invalidation", async () => {
    const { state, first } = shop(memoryWorld());
    expect(await dataOf(first.ask('mutation { rename(title: "new") { label named } }'))).toEqual({
      rename: { label: "label of new", named: "1 of 7: new" },
    });
    for (const _ of [1, 2])
      expect(await dataOf(first.ask("{ movies { label named } }"))).toEqual({
        movies: [{ label: "label of new", named: "2 of 7: new" }],
      });
    expect(state).toMatchObject({ labels: 2, names: 2 });
  });

  it("loads once for each process that an invalidation by another has found idle, and then no more", async () => {
    const { state, first, second } = shop(memoryWorld());
    const query = "{ movies { label } }";
    await dataOf(first.ask(query));
    state.title = "new";
    await second.cache.invalidateTags(["Movie:7"]);
    for (let nth = 0; nth < 3; nth++)
      expect(await dataOf(first.ask(query))).toEqual({ movies: [{ label: "label of new" }] });
    expect(state.labels).toBe(3);
  });
});
