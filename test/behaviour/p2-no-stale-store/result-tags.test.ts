import { chaosStore, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { ReadReport } from "../../../src/core/tier/request/request.js";
import { dataOf, memoryWorld, onEachStore, type Process, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movies: [Movie!] @cached(maxAge: 60, tags: ["Movie:{$result[].id}"])
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$result.id}"])
  }
  type Movie {
    id: ID!
    version: Int
  }
`;
const QUERY = "{ movies { id version } }";
/** The tests count loads, so a busy machine must not make the store look unavailable. */
const PATIENT = { storage: { storeTimeoutMs: 5_000 } };

function moviesSource(ids: readonly number[]) {
  const state = { ids, version: 1, loads: 0 };
  const movies = () => {
    state.loads++;
    return state.ids.map((id) => ({ id, version: state.version }));
  };
  const result = () => ({ movies: state.ids.map((id) => ({ id: String(id), version: state.version })) });
  return { state, result, resolvers: { Query: { movies } } };
}

it("reads a value with a thousand tags in one call, also for the first time", async () => {
  const store = chaosStore(memoryStore());
  const { resolvers, result } = moviesSource(Array.from({ length: 1_000 }, (_, id) => id));
  const { ask, events } = memoryWorld(() => store).process(typeDefs, resolvers);
  const readsOf = async (): Promise<number | undefined> => {
    store.chaos.calls.clear();
    expect(await dataOf(ask(QUERY))).toEqual(result());
    return store.chaos.calls.get("read");
  };
  await ask(QUERY);
  await waitForStores({ events });
  expect([await readsOf(), await readsOf()]).toEqual([1, 1]);
});

it("stores each value of a tick unless one of its own tags was invalidated during its load", async () => {
  const { passed, open } = gate();
  const ids = Array.from({ length: 50 }, (_, id) => id);
  const movie = async (_: unknown, { id }: { id: string }) => {
    await passed;
    return { id };
  };
  const { ask, cache, events } = memoryWorld().process(typeDefs, { Query: { movie } });
  const asking = ask(`{ ${ids.map((id) => `m${id}: movie(id: ${id}) { id }`).join(" ")} }`);
  while (events.filter(({ name }) => name === "load.started").length < ids.length) await settle();
  await cache.invalidateTags(["Movie:7"]);
  open();
  await dataOf(asking);
  await waitForStores({ events }, ids.length);
  const stored = events.filter((event) => event.name === "write.finished" && event.isStored);
  const refused = events.filter((event) => event.name === "write.finished" && !event.isStored);
  expect([stored.length, refused.length]).toEqual([ids.length - 1, 1]);
});

onEachStore("tags of a result that a process remembers", (world) => {
  it("never hide that a tag of the value has been invalidated", async () => {
    const shared = world();
    const { state, result, resolvers } = moviesSource([1, 2]);
    const [reader, writer] = [
      shared.process(typeDefs, resolvers, PATIENT),
      shared.process(typeDefs, resolvers, PATIENT),
    ];
    await reader.ask(QUERY);
    await waitForStores(reader);
    await reader.ask(QUERY);
    await reader.ask(QUERY);
    state.version = 2;
    await writer.cache.invalidateTags(["Movie:2"]);
    expect(await dataOf(reader.ask(QUERY))).toEqual(result());
    expect(state.loads).toBe(2);
  });

  it("are not taken for the tags of a value that was stored since and has others", async () => {
    const shared = world();
    const { state, result, resolvers } = moviesSource([1, 2]);
    const [reader, writer] = [
      shared.process(typeDefs, resolvers, PATIENT),
      shared.process(typeDefs, resolvers, PATIENT),
    ];
    await reader.ask(QUERY);
    await waitForStores(reader);
    await reader.ask(QUERY);
    // Another process replaces the value; its tag Movie:3 is unknown to the reader.
    state.ids = [1, 3];
    await writer.cache.invalidate({ coordinate: "Query.movies", args: {} });
    await writer.ask(QUERY);
    await waitForStores(writer);
    expect(await dataOf(reader.ask(QUERY))).toEqual(result());
    expect(state.loads).toBe(2);
    await writer.cache.invalidate({ coordinate: "Query.movies", args: {} });
    state.ids = [1, 4];
    await writer.ask(QUERY);
    await waitForStores(writer, 2);
    state.version = 2;
    await writer.cache.invalidateTags(["Movie:4"]);
    expect(await dataOf(reader.ask(QUERY))).toEqual(result());
    expect(state.loads).toBe(4);
  });
});

it("does not store a value with a tag whose write is in progress", async () => {
  const { state, resolvers } = moviesSource([7]);
  const process = memoryWorld().process(typeDefs, resolvers, PATIENT);
  await process.cache.mutate({ tags: ["Movie:7"] }, async () => {
    for (let nth = 1; nth <= 2; nth++) {
      await dataOf(process.ask(QUERY));
      await waitForStores(process, nth);
    }
  });
  expect(state.loads).toBe(2);
  const writes = process.events.filter((event) => event.name === "write.finished");
  expect(writes.map(({ isStored }) => isStored)).toEqual([false, false]);
});

describe("a value with tags known before its load and derived from it", () => {
  const tagged = /* GraphQL */ `
    type Query {
      movie(id: ID!): Movie
        @cached(maxAge: 60, tags: ["Movie:{$args.id}", "Movie:{$result.id}", "Studio:{$result.studio}"])
    }
    type Movie {
      id: ID!
      studio: String
    }
  `;
  const query = '{ movie(id: "7") { id } }';

  it("is stored with those of its result that are not known before", async () => {
    const store = chaosStore(memoryStore());
    const world = memoryWorld(() => store);
    const own = tagged.replace(', "Studio:{$result.studio}"', "");
    const [loading, reading] = [0, 1].map(() => world.process(own, { Query: { movie: () => ({ id: "7" }) } }));
    await loading?.ask(query);
    await waitForStores(loading as Process);
    store.chaos.calls.clear();
    await reading?.ask(query);
    expect(reading?.outcomes()).toEqual({ hit: 1 });
    // A tag of the result would be read after the value, since this process has not read the value before.
    expect(store.chaos.calls.get("read")).toBe(1);
  });

  it("reports all of them to the observer of a request, when it is loaded, shared and read", async () => {
    const movie = { id: "7", studio: "Ghibli" };
    const { cache, events, ask } = memoryWorld().process(tagged, { Query: { movie: () => movie } });
    const { keys, requestStates } = partsOf(cache, "test");
    const reported: [string, readonly number[] | undefined][] = [];
    const observed = (): object => {
      const context = {};
      const onRead = (_: string, report: ReadReport): unknown =>
        reported.push([report.outcome, report.outcome === "bypassed" ? undefined : report.subjects]);
      requestStates.observe(context, { onRead });
      return context;
    };
    await Promise.all([ask(query, observed()), ask(query, observed())]);
    await waitForStores({ events });
    await ask(query, observed());
    const tags = keys.tags(["Movie:7", "Studio:Ghibli"]);
    expect(reported).toEqual(["loaded", "coalesced", "hit"].map((outcome) => [outcome, tags]));
  });
});
