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

  it("serves a guarded field only to whom the guard admits, instances of a class, and ends on SIGTERM", async () => {
    const [one, other] = await twoProcesses("examples/nestjs/code-first/server.ts");
    const movies = [{ title: "Metropolis" }, { title: "M" }];
    const askAs = (process: typeof one, user: string): Promise<unknown> =>
      process.ask("{ movies { title } tips }", {}, { "x-user": user });
    expect(await askAs(one, "ann")).toEqual({ movies, tips: "tips for ann" });
    expect(new Set(one.loads())).toEqual(new Set(["movies 0,1", "tips ann"]));
    expect(await askAs(other, "ann")).toEqual({ movies, tips: "tips for ann" });
    expect(await askAs(other, "bob")).toEqual({ movies, tips: "tips for bob" });
    await expect(other.ask("{ tips }")).rejects.toThrow("expected");
    expect(other.loads()).toEqual(["tips bob"]);
    // Nest ends with the signal itself.
    expect(await one.stop()).toBe("SIGTERM");
  }, 90_000);
});
