import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { losableStore } from "../../support/losable-store.js";
import { dataOf, memoryWorld, onEachStore, pair, type World } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movies: [Movie!]!
    ownMovies: [Movie!]! @cached(maxAge: 60, scope: PRIVATE)
    models: [Model!]!
    unrelated: Int @cached(maxAge: 60)
  }
  type Mutation { rename(title: String!): Movie! @invalidates(tags: ["Movie:7"]) }
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
  type Copy { id: ID! title: String! }
  type Inside { movie: Copy! }
  type Model { id: ID! label: String! @cached(maxAge: 60, tags: ["Movie:{$source.id}"]) }
`;

class Row {
  readonly id = "7";
  readonly title: string;
  constructor(title: string) {
    this.title = title;
  }
}

/** What a field of the movie is if it is made of a row with this title. */
const IN_MOVIE = {
  label: (title: string) => ({ label: `label of ${title}` }),
  "copy { title }": (title: string) => ({ copy: { title } }),
  "self { title }": (title: string) => ({ self: { title } }),
  "inside { movie { title } }": (title: string) => ({ inside: { movie: { title } } }),
} as const;
const labels = (title: string) => ({ movies: [IN_MOVIE.label(title)] });
const copies = (title: string) => ({ movies: [IN_MOVIE["copy { title }"](title)] });
const LABELS = "{ movies { label } }";
const COPIES = "{ movies { copy { title } } }";

/** Two processes over one row. Lists, labels and copies wait for the promises in `held`; lists have read the row by then. */
function shop(world: World) {
  const counts = { lists: 0, labels: 0, names: 0, copies: 0 };
  const held: Partial<Record<"lists" | "labels" | "copies", Promise<void>>> = {};
  let row = new Row("old");
  const list = async <T>(value: T): Promise<T[]> => {
    counts.lists++;
    await held.lists;
    return [value];
  };
  const label = async ({ title }: Row): Promise<string> => {
    counts.labels++;
    await held.labels;
    return `label of ${title}`;
  };
  const resolvers = {
    Query: {
      movies: () => list({ ...row }),
      ownMovies: () => list({ ...row }),
      models: () => list(row),
      unrelated: () => 1,
    },
    Mutation: {
      rename: (_: unknown, { title }: Row) => {
        row = new Row(title);
        return { ...row };
      },
    },
    Movie: {
      label,
      named: ({ id }: Row) => `${++counts.names} of ${id}: ${row.title}`,
      copy: async ({ id, title }: Row) => {
        counts.copies++;
        await held.copies;
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
  const [first, second] = pair(() => world.process(typeDefs, resolvers, { identify: () => null }));
  const rename = async (): Promise<void> => {
    row = new Row("new");
    await second.cache.invalidateTags(["Movie:7"]);
  };
  /**
   * Begins requests in the first process that have read the row when the second one changes and invalidates it. `isTold`: whether another
   * read shows that to the first process. The returned function lets them go on with the row that they have read.
   */
  const begin = async (query: string, { isTold = false, count = 1 } = {}) => {
    const { passed, open } = gate();
    held.lists = passed;
    const earlier = Array.from({ length: count }, () => first.ask(query));
    while (counts.lists < count) await settle();
    await rename();
    if (isTold) await dataOf(first.ask("{ unrelated }"));
    return () => {
      delete held.lists;
      open();
      return Promise.all(earlier);
    };
  };
  return { counts, held, first, second, begin, rename };
}

/** Both processes answer with the new row. */
async function expectNew({ first, second }: ReturnType<typeof shop>, query: string, expected: unknown): Promise<void> {
  for (const { ask } of [second, first]) expect(await dataOf(ask(query))).toEqual(expected);
}

onEachStore("values that are made of their parent", (world) => {
  it.each([
    ["reads a property of it", "label"],
    ["derives its tag from the value", "copy { title }"],
    ["returns it", "self { title }"],
    ["returns it inside of another object", "inside { movie { title } }"],
  ] as const)(
    "does not serve a value of a resolver that %s, which was invalidated before the load and after the parent was read",
    async (_, field) => {
      const site = shop(world());
      const query = `{ movies { ${field} } }`;
      const movies = (title: string) => ({ movies: [IN_MOVIE[field](title)] });
      const goOn = await site.begin(query, { isTold: true });
      expect((await goOn())[0]).toMatchObject({ data: movies("old") });
      await expectNew(site, query, movies("new"));
    },
  );

  it("does not share the error of a resolver that fails for a parent from before an invalidation", async () => {
    const site = shop(world());
    const goOn = await site.begin("{ movies { strict } }");
    expect((await goOn())[0]?.errors?.[0]?.message).toBe("too old");
    await expectNew(site, "{ movies { strict } }", { movies: [{ strict: "new" }] });
  });
});

describe("a value that is made of an old parent", () => {
  it("is not that of later requests that share the load of the earlier one, which get one of their own parent", async () => {
    const site = shop(memoryWorld());
    const goOn = await site.begin(LABELS, { isTold: true });
    const later = [0, 1].map(() => dataOf(site.first.ask(LABELS)));
    while (site.counts.lists < 3) await settle();
    expect((await goOn())[0]).toMatchObject({ data: labels("old") });
    expect(await Promise.all(later)).toEqual([labels("new"), labels("new")]);
    await expectNew(site, LABELS, labels("new"));
    expect(site.counts.labels).toBe(2);
  });

  it("lets a request that has joined such a load by its tag load and store the value itself", async () => {
    const site = shop(memoryWorld());
    const copying = gate();
    site.held.copies = copying.passed;
    const goOn = await site.begin(COPIES, { isTold: true });
    const earlier = goOn();
    while (site.counts.copies === 0) await settle();
    const later = dataOf(site.first.ask(COPIES));
    for (let turn = 0; turn < 20; turn++) await settle();
    expect(site.counts.copies).toBe(1);
    copying.open();
    expect((await earlier)[0]).toMatchObject({ data: copies("old") });
    expect(await later).toEqual(copies("new"));
    await expectNew(site, COPIES, copies("new"));
    expect(site.counts.copies).toBe(2);
  });

  it.each([
    ["during a write", false],
    ["during a write under a clock that has begun anew at an earlier position", true],
  ])("is given to no other request when it is loaded without a lease, as %s", async (_, isLost) => {
    const { store, lose } = losableStore(new FakeClock());
    const { counts, held, first, second, begin } = shop(memoryWorld(() => store));
    const [labelling, writing] = [gate(), gate()];
    await dataOf(first.ask("{ unrelated }"));
    const goOn = await begin(LABELS);
    delete held.lists;
    if (isLost) lose(60_000);
    const written = second.cache.mutate({ tags: ["Movie:7"] }, () => writing.passed);
    await settle();
    await dataOf(first.ask("{ unrelated }"));
    held.labels = labelling.passed;
    const running = dataOf(first.ask(LABELS));
    while (counts.labels === 0) await settle();
    // Both wait for that load to end: the earlier one is to begin the next.
    const earlier = goOn();
    for (let turn = 0; turn < 20; turn++) await settle();
    const later = dataOf(first.ask(LABELS));
    for (let turn = 0; turn < 20; turn++) await settle();
    expect(counts.labels).toBe(1);
    labelling.open();
    expect([await running, await later]).toEqual([labels("new"), labels("new")]);
    expect((await earlier)[0]).toMatchObject({ data: labels("old") });
    writing.open();
    await written;
  });

  it("is loaded once for all earlier requests", async () => {
    const site = shop(memoryWorld());
    const goOn = await site.begin(LABELS, { count: 20 });
    for (const { data } of await goOn()) expect(data).toMatchObject(labels("old"));
    expect(site.counts.labels).toBe(1);
    await expectNew(site, LABELS, labels("new"));
  });

  it.each([
    ["an object, in a process that hears of the invalidation with the read of the value", "movies", false],
    ["an instance of a class", "models", true],
    ["an instance of a class, in a process that hears of the invalidation with the read of the value", "models", false],
  ])("is not stored if it is made of %s", async (_, list, isTold) => {
    const site = shop(memoryWorld());
    const query = `{ ${list} { label } }`;
    const goOn = await site.begin(query, { isTold });
    expect((await goOn())[0]).toMatchObject({ data: { [list]: [{ label: "label of old" }] } });
    await expectNew(site, query, { [list]: [{ label: "label of new" }] });
  });

  it.each([
    ["of a guest", "on"],
    ["that is off", "off"],
  ] as const)("is not stored if it is made below a cached field %s", async (_, mode) => {
    const site = shop(memoryWorld());
    for (const { cache } of [site.first, site.second]) cache.setMode(mode, "Query.ownMovies");
    const query = "{ ownMovies { label } }";
    const goOn = await site.begin(query, { isTold: true });
    expect((await goOn())[0]).toMatchObject({ data: { ownMovies: [{ label: "label of old" }] } });
    await expectNew(site, query, { ownMovies: [{ label: "label of new" }] });
  });

  it.each([
    [LABELS, labels],
    [COPIES, copies],
  ])(
    "is not stored if an empty store has taken the place of the one that had the invalidation: %s",
    async (query, movies) => {
      for (const behindMs of [0, 60_000]) {
        const clock = new FakeClock();
        const { store, lose } = losableStore(clock);
        const site = shop(memoryWorld(() => store));
        await dataOf(site.first.ask("{ unrelated }"));
        await clock.advance(1_000);
        const goOn = await site.begin(query);
        await clock.advance(1_000);
        lose(behindMs);
        // Under the new clock, which is behind, at an earlier position than that of the parent.
        if (behindMs > 0) await site.rename();
        expect((await goOn())[0]).toMatchObject({ data: movies("old") });
        await expectNew(site, query, movies("new"));
      }
    },
  );

  it("is not stored if it is made of what a mutation has returned before its own invalidation", async () => {
    const { counts, first } = shop(memoryWorld());
    const label = "label of new";
    expect(await dataOf(first.ask('mutation { rename(title: "new") { label named } }'))).toEqual({
      rename: { label, named: "1 of 7: new" },
    });
    for (const _ of [1, 2])
      expect(await dataOf(first.ask("{ movies { label named } }"))).toEqual({
        movies: [{ label, named: "2 of 7: new" }],
      });
    expect(counts).toMatchObject({ labels: 2, names: 2 });
  });

  it("is loaded once for each process that an invalidation by another has found idle, and then no more", async () => {
    const { counts, first, rename } = shop(memoryWorld());
    await dataOf(first.ask(LABELS));
    await rename();
    for (let nth = 0; nth < 3; nth++) expect(await dataOf(first.ask(LABELS))).toEqual(labels("new"));
    expect(counts.labels).toBe(3);
  });
});
