import { describe, expect, it } from "vitest";
import { twoProcesses } from "../../test/support/example-process.js";

describe("the NestJS application", () => {
  it("serves what another process has loaded without loading it again", async () => {
    const [one, other] = await twoProcesses("examples/nestjs/server.ts");
    const query = "{ movie(id: 1) { title stars } missing: movie(id: 404) { title } }";
    const expected = { movie: { title: "Metropolis", stars: 4.9 }, missing: null };
    expect(await one.ask(query)).toEqual(expected);
    expect(one.loads()).toEqual(["movie 1", "movie 404", "stars 1"]);
    expect(await other.ask(query)).toEqual(expected);
    expect(other.loads()).toEqual([]);
  }, 90_000);
});
