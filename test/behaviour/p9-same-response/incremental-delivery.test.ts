import { gate, settle } from "@graphql-cached/testing";
import { type GraphQLResolveInfo, parse } from "graphql";
import { expect, it, vi } from "vitest";
import {
  describeOnGraphql17,
  executeIncrementally,
  graphql17,
  type IncrementalResult,
} from "../../support/graphql-17.js";
import { dataOf, memoryWorld, type Process, type World, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  directive @defer(if: Boolean! = true, label: String) on FRAGMENT_SPREAD | INLINE_FRAGMENT
  directive @stream(if: Boolean! = true, label: String, initialCount: Int! = 0) on FIELD
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    movies: [Movie!] @cached(maxAge: 60)
    bySelection: Movie @cached(maxAge: 60, key: ["$selection"])
  }
  type Mutation { rate(id: ID!): Movie @invalidates(tags: ["Movie:{$args.id}"]) }
  type Movie { id: ID! title: String stars: Int @cached(maxAge: 60, tags: ["Movie:{$source.id}"]) }
`;

/** A process that counts its loads; `hold` keeps those of `stars` until it is opened. */
function siteOf(world: World = memoryWorld()) {
  const loads: string[] = [];
  const signals: AbortSignal[] = [];
  const state = { stars: 1, hold: gate() };
  state.hold.open();
  const movie = (id: string): object => ({ id, title: `Movie ${id}` });
  const process = world.process(typeDefs, {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => (loads.push(`movie ${id}`), movie(id)),
      movies: async () => (loads.push("movies"), ["1", "2", "3"].map(movie)),
      bySelection: (_: unknown, __: unknown, ___: unknown, { fieldNodes }: GraphQLResolveInfo) => {
        loads.push("bySelection");
        return { id: "9", title: `${fieldNodes.length} field nodes` };
      },
    },
    Mutation: { rate: (_: unknown, { id }: { id: string }) => (state.stars++, movie(id)) },
    Movie: {
      stars: async ({ id }: { id: string }, _: unknown, __: unknown, info: { getAbortSignal(): AbortSignal }) => {
        loads.push(`stars ${id}`);
        signals.push(info.getAbortSignal());
        const { stars } = state;
        await state.hold.passed;
        return stars;
      },
    },
  });
  return { ...process, loads, state, signals };
}

/** The data of every part, in the order of delivery. */
async function partsOf(result: Promise<IncrementalResult>): Promise<unknown[]> {
  const { initialResult, subsequentResults } = await result;
  expect(initialResult.errors).toBeUndefined();
  const parts: unknown[] = [initialResult.data];
  for await (const { incremental = [], completed = [] } of subsequentResults) {
    parts.push(...incremental.flatMap(({ data, items = [] }) => data ?? items));
    for (const { errors } of completed) expect(errors).toBeUndefined();
  }
  return JSON.parse(JSON.stringify(parts)) as unknown[];
}

const ask = ({ schema }: Process, source: string): Promise<unknown[]> => partsOf(executeIncrementally(schema, source));

const DEFERRED = "{ movie(id: 1) { title ... @defer { stars } } }";

describeOnGraphql17("a response that graphql 17 delivers in parts", () => {
  it("shares the entries of its deferred fields with all other responses", async () => {
    const site = siteOf();
    const parts = [{ movie: { title: "Movie 1" } }, { stars: 1 }];
    expect(await ask(site, DEFERRED)).toEqual(parts);
    await waitForStores(site, 2);
    expect(await ask(site, DEFERRED)).toEqual(parts);
    expect(await ask(site, "{ movie(id: 1) { title stars } }")).toEqual([{ movie: { title: "Movie 1", stars: 1 } }]);
    expect(site.loads).toEqual(["movie 1", "stars 1"]);
  });

  it("reads a field once that several of its parts select", async () => {
    const site = siteOf();
    const query = "{ movie(id: 1) { id } ... @defer { movie(id: 1) { title stars } again: movie(id: 1) { stars } } }";
    expect(await ask(site, query)).toEqual([
      { movie: { id: "1" } },
      { again: { stars: 1 } },
      { title: "Movie 1", stars: 1 },
    ]);
    expect(site.loads).toEqual(["movie 1", "stars 1"]);
    expect(site.outcomes()).toEqual({ loaded: 2 });
  });

  it("streams the items of a cached list", async () => {
    const site = siteOf();
    const query = "{ movies @stream(initialCount: 1) { id stars } }";
    const items = [1, 2, 3].map((id) => ({ id: String(id), stars: 1 }));
    const parts = [{ movies: items.slice(0, 1) }, ...items.slice(1)];
    expect(await ask(site, query)).toEqual(parts);
    await waitForStores(site, 4);
    expect(await ask(site, query)).toEqual(parts);
    expect(await ask(site, "{ movies { id stars } }")).toEqual([{ movies: items }]);
    expect(site.loads).toEqual(["movies", "stars 1", "stars 2", "stars 3"]);
  });

  it("has the fields of each selection if its key has the selection", async () => {
    const site = siteOf();
    const answers: readonly (readonly [string, readonly object[]])[] = [
      ["{ bySelection { id ... @defer { title } } }", [{ bySelection: { id: "9" } }, { title: "1 field nodes" }]],
      [
        "{ bySelection { id } ... @defer { bySelection { title } } }",
        [{ bySelection: { id: "9" } }, { title: "2 field nodes" }],
      ],
      ["{ bySelection { id title } }", [{ bySelection: { id: "9", title: "1 field nodes" } }]],
    ];
    for (let nth = 0; nth < 2; nth++) {
      for (const [query, parts] of answers) expect(await ask(site, query), query).toEqual(parts);
      await waitForStores(site, 3);
    }
    expect(site.loads).toHaveLength(3);
  });

  it("stores no deferred value whose load began before an invalidation", async () => {
    const site = siteOf();
    site.state.hold = gate();
    const { initialResult, subsequentResults } = await executeIncrementally(site.schema, DEFERRED);
    expect(initialResult.data).toEqual({ movie: { title: "Movie 1" } });
    const rest = subsequentResults.next();
    await expect.poll(() => site.loads).toEqual(["movie 1", "stars 1"]);
    site.state.stars = 2;
    await site.cache.invalidateTags(["Movie:1"]);
    expect(await ask(site, "mutation { rate(id: 1) { id } }")).toEqual([{ rate: { id: "1" } }]);
    site.state.hold.open();
    expect((await rest).value).toMatchObject({ incremental: [{ data: { stars: 1 } }] });
    expect(await ask(site, "{ movie(id: 1) { stars } }")).toEqual([{ movie: { stars: 3 } }]);
  });

  it("shows what its mutation has invalidated in no part", async () => {
    const site = siteOf();
    await ask(site, DEFERRED);
    await waitForStores(site, 2);
    const [initial, deferred] = await ask(site, "mutation { rate(id: 1) { title ... @defer { stars } } }");
    expect([initial, deferred]).toEqual([{ rate: { title: "Movie 1" } }, { stars: 2 }]);
    expect(await ask(site, DEFERRED)).toEqual([{ movie: { title: "Movie 1" } }, { stars: 2 }]);
  });

  it("ends the load of a deferred field when its client has gone, unless others wait for it", async () => {
    const site = siteOf();
    site.state.hold = gate();
    const leave = async (id: number): Promise<void> => {
      const query = `{ movie(id: ${id}) { ... @defer { stars } } }`;
      const { subsequentResults } = await executeIncrementally(site.schema, query);
      const rest = subsequentResults.next();
      await expect.poll(() => site.loads).toContain(`stars ${id}`);
      await settle();
      await subsequentResults.return();
      await rest.catch(() => undefined);
      await settle();
    };
    await leave(1);
    expect(site.signals.map(({ aborted }) => aborted)).toEqual([true]);
    const other = ask(site, "{ movie(id: 2) { stars } }");
    await leave(2);
    expect(site.signals.map(({ aborted }) => aborted)).toEqual([true, false]);
    site.state.hold.open();
    expect(await other).toEqual([{ movie: { stars: 1 } }]);
  });

  it("shares its entries in the older form of such responses as well", async () => {
    const site = siteOf();
    for (let nth = 0; nth < 2; nth++) {
      const { initialResult, subsequentResults } = await graphql17.legacyExecuteIncrementally({
        schema: site.schema,
        document: parse(DEFERRED),
      });
      expect(initialResult.data).toEqual({ movie: { title: "Movie 1" } });
      expect((await subsequentResults.next()).value).toMatchObject({ incremental: [{ data: { stars: 1 } }] });
      await waitForStores(site, 2);
    }
    expect(site.loads).toEqual(["movie 1", "stars 1"]);
  });
});

describeOnGraphql17("a cached list that graphql 17 reads item by item", () => {
  it("is passed on untouched to each reader, is not stored, and is reported", async () => {
    let loads = 0;
    async function* numbers(): AsyncGenerator<number> {
      loads++;
      yield 1;
      yield await Promise.resolve(2);
    }
    const warn = vi.fn<(message: string) => void>();
    const site = memoryWorld().process(
      "type Query { numbers: [Int!] @cached(maxAge: 60) }",
      { Query: { numbers } },
      { logger: { info: () => undefined, warn } },
    );
    const answers = await Promise.all([site, site].map((one) => dataOf(one.ask("{ numbers }"))));
    expect(answers).toEqual([{ numbers: [1, 2] }, { numbers: [1, 2] }]);
    expect(await ask(site, "{ numbers other: numbers }")).toEqual([{ numbers: [1, 2], other: [1, 2] }]);
    expect(loads).toBe(4);
    expect(warn.mock.calls).toEqual([[expect.stringContaining("`Query.numbers`: the value is not cached")]]);
  });
});
