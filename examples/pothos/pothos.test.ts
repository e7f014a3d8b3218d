import { createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { twoProcesses } from "../../test/support/example-process.js";
import { moviesSchema } from "./schema.js";

describe("the code-first schema", () => {
  it("serves what another process has loaded without loading it again", async () => {
    const [one, other] = await twoProcesses("examples/pothos/server.ts");
    const query = "{ movie(id: 1) { title stars } missing: movie(id: 404) { title } }";
    const expected = { movie: { title: "Metropolis", stars: 4.9 }, missing: null };
    expect(await one.ask(query)).toEqual(expected);
    expect(one.loads()).toEqual(["movie 1", "movie 404", "stars 1"]);
    expect(await other.ask(query)).toEqual(expected);
    expect(other.loads()).toEqual([]);
  }, 60_000);

  it("lists the cached coordinates when an invalidation names an unknown one", async () => {
    const cache = createCache<object>({ defaultScope: "PUBLIC" });
    moviesSchema(cache, () => undefined);
    await expect(cache.invalidate({ coordinate: "Query.film" })).rejects.toThrow(
      "`Query.film`: expected a cached field of a schema passed to applyCached; known fields: Movie.stars, Query.movie",
    );
    await cache.close();
  });
});
