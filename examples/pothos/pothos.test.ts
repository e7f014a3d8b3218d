import { createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { twoProcesses } from "../../test/support/example-process.js";
import { moviesSchema } from "./schema.js";

describe("the code-first schema", () => {
  it("answers what another process has loaded, without loading", async () => {
    const [one, other] = await twoProcesses("examples/pothos/server.ts");
    const query = "{ movie(id: 1) { title stars } nobody: movie(id: 404) { title } }";
    const found = { movie: { title: "Metropolis", stars: 4.9 }, nobody: null };
    expect(await one.ask(query)).toEqual(found);
    expect(one.loads()).toEqual(["movie 1", "movie 404", "stars 1"]);
    expect(await other.ask(query)).toEqual(found);
    expect(other.loads()).toEqual([]);
  }, 60_000);

  it("is told of mistakes in its extensions like any schema", async () => {
    const cache = createCache<object>();
    moviesSchema(cache, () => undefined);
    await expect(cache.invalidate({ coordinate: "Query.film" })).rejects.toThrow(
      "`Query.film`: expected a cached field of a schema passed to applyCached; known fields: Movie.stars, Query.movie",
    );
    await cache.close();
  });
});
