import { composeServices } from "@apollo/composition";
import { chaosStore } from "@graphql-cached/testing";
import { graphql, parse } from "graphql";
import { createCache, memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { twoProcesses } from "../../test/support/example-process.js";
import { subgraphSchema } from "./subgraph.js";

const entities = "query ($movies: [_Any!]!) { _entities(representations: $movies) { ... on Movie { title stars } } }";
const movies = ["1", "2", "404"].map((id) => ({ __typename: "Movie", id }));

describe("the federated subgraph", () => {
  it("serves entities that another process has loaded without loading them again", async () => {
    const [one, other] = await twoProcesses("examples/federation/server.ts");
    const expected = { _entities: [{ title: "Metropolis", stars: 4.9 }, { title: "M", stars: 4.8 }, null] };
    expect(await one.ask(entities, { movies })).toEqual(expected);
    expect(one.loads()).toEqual(["movies 1, 2, 404", "stars 1", "stars 2"]);
    expect(await other.ask(entities, { movies })).toEqual(expected);
    expect(other.loads()).toEqual([]);
    expect(await other.ask("{ top { title stars } }")).toMatchObject({ top: [{ title: "Metropolis" }, {}, {}] });
    expect(other.loads()).toEqual(["top", "stars 3"]);
  }, 60_000);

  it("reads the entities of a query in one store read and their fields in another", async () => {
    const store = chaosStore(memoryStore());
    const cache = createCache<object>({ defaultScope: "PUBLIC", store });
    const schema = subgraphSchema(cache, () => undefined);
    const storeCalls = async (): Promise<unknown> => {
      store.chaos.calls.clear();
      await graphql({ schema, source: entities, variableValues: { movies }, contextValue: {} });
      return Object.fromEntries(store.chaos.calls);
    };
    await expect.poll(storeCalls).toEqual({ read: 2 });
    await cache.close();
  });

  it("keeps @cached in the printed SDL and in the composed supergraph", async () => {
    const cache = createCache<object>({ defaultScope: "PUBLIC" });
    const schema = subgraphSchema(cache, () => undefined);
    const { data } = await graphql({ schema, source: "{ _service { sdl } }" });
    const { sdl } = (data as { _service: { sdl: string } })._service;
    expect(sdl).toContain('stars: Float! @cached(maxAge: 60, tags: ["Ratings"])');
    const { errors, supergraphSdl } = composeServices([{ name: "movies", url: "http://movies", typeDefs: parse(sdl) }]);
    expect(errors).toBeUndefined();
    expect(supergraphSdl).toContain('stars: Float! @cached(maxAge: 60, tags: ["Ratings"])');
    await cache.close();
  });
});
