import { ApolloServer } from "@apollo/server";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { expect, it, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { inspect } from "../../support/inspection.js";
import { dataOf, memoryWorld, onEachStore, type Process, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): String @cached(maxAge: 60, tags: ["Movie:{$args.id}", "Genre:{$result}"])
  }
`;
const QUERY = '{ movie(id: "7") }';
const TARGET = 'coordinate: "Query.movie", args: { id: "7" }';

const entryOf = async ({ cache }: Process, selection: string): Promise<unknown> =>
  (await inspect(cache, `entry(${TARGET}) { ${selection} }`)).entry;

onEachStore("The inspection", (world) => {
  it("says which process holds the lease on an entry, since when, and that callers wait", async () => {
    const shared = world();
    const loading = gate();
    const movie = () => loading.passed.then(() => "Ran");
    const [holder, other] = [0, 1].map(() => shared.process(typeDefs, { Query: { movie } })) as [Process, Process];
    expect(await entryOf(other, "state")).toBeNull();
    const startedAt = Date.now();
    const loads = [holder.ask(QUERY)];
    await vi.waitFor(() => expect(holder.events.map(({ name }) => name)).toContain("load.started"));
    const id = partsOf(holder.cache, "test").processId;
    const selection =
      "state use reason explanation invalidation { via } ageMs lease { process { id isThis } since endsInMs }";
    const entry = { state: "PENDING", use: "NONE", reason: "LOADING", invalidation: null, ageMs: 0 };
    for (const [process, isThis] of [
      [holder, true],
      [other, false],
    ] as const) {
      const shown = await entryOf(process, selection);
      expect(shown).toMatchObject({ ...entry, lease: { process: { id, isThis }, endsInMs: expect.any(Number) } });
      const { since } = (shown as { lease: { since: string } }).lease;
      // By the clock of the store, as well as it is known.
      expect(Date.parse(since)).toBeGreaterThan(startedAt - 1_000);
      expect(Date.parse(since)).toBeLessThan(Date.now() + 1_000);
    }
    expect(await entryOf(other, "lease { hasWaiters }")).toEqual({ lease: { hasWaiters: false } });
    loads.push(other.ask(QUERY));
    if (holder.cache !== undefined && partsOf(holder.cache, "test").store.name !== "memcached")
      await vi.waitFor(
        async () => expect(await entryOf(other, "lease { hasWaiters }")).toEqual({ lease: { hasWaiters: true } }),
        { timeout: 10_000 },
      );
    loading.open();
    for (const load of loads) expect(await dataOf(load)).toEqual({ movie: "Ran" });
    await waitForStores(holder);
    expect(await entryOf(other, "state use lease { since }")).toEqual({ state: "VALUE", use: "FRESH", lease: null });
  });

  it("shows the tags, the variant and the remaining times of an entry", async () => {
    const process = world().process(
      typeDefs,
      { Query: { movie: () => "Ran" } },
      {
        defaults: { staleWhileRevalidate: 40, staleIfError: 20 },
      },
    );
    await process.ask(QUERY);
    await waitForStores(process);
    const variant = [...partsOf(process.cache, "test").rules.fields.values()][0]?.variant.id;
    const shown = (await entryOf(
      process,
      "tags { static resultCount } variant digest freshForMs servableForMs explanation",
    )) as { freshForMs: number; servableForMs: number };
    expect(shown).toMatchObject({
      tags: { static: ["Movie:7"], resultCount: 2 },
      variant,
      digest: process.events.flatMap((event) => ("digest" in event ? [event.digest] : []))[0],
      explanation: "It is fresh and will be served.",
    });
    expect(shown.servableForMs - shown.freshForMs).toBeCloseTo(40_000);
  });

  it("names the invalidation that has removed the entry, not one of another entry", async () => {
    const process = world().process(typeDefs, { Query: { movie: () => "Ran" } });
    await process.ask(QUERY);
    await waitForStores(process);
    for (const id of ["7", "8"]) await process.cache.invalidate({ coordinate: "Query.movie", args: { id } });
    const { invalidations } = await inspect(process.cache, "invalidations { items { keys } }");
    const [, first] = (invalidations as { items: readonly object[] }).items;
    expect(await entryOf(process, "reason invalidation { keys }")).toEqual({ reason: "REMOVED", invalidation: first });
    const other = await inspect(process.cache, `entry(${TARGET.replace('"7"', '"9"')}) { reason }`);
    expect(other.entry).toBeNull();
  });

  it("lists the newest invalidations of this process first", async () => {
    const process = world().process(typeDefs, { Query: { movie: () => "Ran" } });
    await process.ask(QUERY);
    await process.cache.invalidateTags(["Movie:7", "Movie:8"], { soft: true });
    await process.cache.invalidate({ coordinate: "Query.movie" });
    await process.cache.clear();
    const { invalidations } = await inspect(
      process.cache,
      "invalidations(first: 4) { count items { kind via isClear coordinates keys tags nameCount process { isThis pid } } }",
    );
    const names = { isClear: false, coordinates: [], keys: [], tags: [], nameCount: 0 };
    const own = { isThis: true, pid: globalThis.process.pid };
    expect(invalidations).toEqual({
      count: 3,
      items: [
        { ...names, kind: "HARD", via: "cache.clear", isClear: true, process: own },
        { ...names, kind: "HARD", via: "cache.invalidate", coordinates: ["Query.movie"], process: own },
      ],
    });
    const all = await inspect(process.cache, "invalidations { isThisProcessOnly items { kind tags nameCount } }");
    const { isThisProcessOnly, items } = all.invalidations as { isThisProcessOnly: boolean; items: object[] };
    expect(isThisProcessOnly).toBe(partsOf(process.cache, "test").store.name === "memcached");
    // The tag of the type, `Movie:*`, is invalidated as well.
    expect(items.at(-1)).toMatchObject({
      kind: "SOFT",
      nameCount: 3,
      tags: [/./, /./, /./].map((one) => expect.stringMatching(one)),
    });
  });
});

it("a trace does not take an invalidation for the cause of a miss whose value had expired without it", async () => {
  const clock = new FakeClock(1_000_000);
  const settings = { testing: { clock }, defaults: { jitter: 0, earlyRefresh: 0 } };
  const world = memoryWorld(() => memoryStore({ clock }));
  const { cache, schema } = world.process(typeDefs, { Query: { movie: () => "Ran" } }, settings);
  const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache, { allow: () => true })] });
  const traced = async (): Promise<unknown> => {
    const { body } = await server.executeOperation({ query: QUERY, extensions: { cached: true } });
    await settle();
    return body.kind === "single" ? body.singleResult.extensions?.cached : undefined;
  };
  await traced();
  await clock.advance(1_000);
  await cache.invalidateTags(["Movie:7"]);
  expect(await traced()).toMatchObject({ "Query.movie": { loaded: 1, invalidatedBy: [{ reads: 1 }] } });
  expect(await traced()).toEqual({ "Query.movie": { hit: 1 } });
  await clock.advance(60_000);
  expect(await traced()).toEqual({ "Query.movie": { loaded: 1 } });
  await server.stop();
});
