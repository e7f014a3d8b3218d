import { describe, expect, it } from "vitest";
import { twoProcesses } from "../../test/support/example-process.js";

describe("the NestJS application", () => {
  it("answers what another process has loaded, without loading", async () => {
    const [one, other] = await twoProcesses("examples/nestjs/server.ts");
    const query = "{ movie(id: 1) { title stars } nobody: movie(id: 404) { title } }";
    const found = { movie: { title: "Metropolis", stars: 4.9 }, nobody: null };
    expect(await one.ask(query)).toEqual(found);
    expect(one.loads()).toEqual(["movie 1", "movie 404", "stars 1"]);
    expect(await other.ask(query)).toEqual(found);
    expect(other.loads()).toEqual([]);
  }, 90_000);
});
