import { memoryStore } from "graphql-cached";
import { chaosStore } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { dataOf, memoryWorld, onEachStore, waitForStores } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movies: [Movie!] @cached(maxAge: 60, tags: ["Movie:{$result[].id}"])
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

it("reads the tags of a value together with it, once the process has read the value before", async () => {
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
  expect([await readsOf(), await readsOf(), await readsOf()]).toEqual([2, 1, 1]);
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
