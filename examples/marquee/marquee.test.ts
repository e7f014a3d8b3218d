import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore } from "graphql-cached";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type OpenDatabase, openDatabase } from "./database.js";
import { type RunningSite, startSite } from "./site.js";

describe("the film site", () => {
  const statements: string[] = [];
  let folder: string;
  let database: OpenDatabase;
  let site: RunningSite;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "marquee-"));
    database = await openDatabase({ folder, ratings: 5_000, onStatement: (sql) => statements.push(sql) });
    site = await startSite({ database, store: memoryStore(), port: 0, pull: 5 });
  }, 60_000);
  afterAll(async () => {
    await site.close();
    await database.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function ask(query: string, user?: string): Promise<Record<string, unknown>> {
    const headers = { "content-type": "application/json", ...(user === undefined ? {} : { "x-user": user }) };
    const response = await fetch(site.url, { method: "POST", headers, body: JSON.stringify({ query }) });
    const { data, errors } = (await response.json()) as { data: Record<string, unknown>; errors?: unknown };
    expect(errors).toBeUndefined();
    return data;
  }

  /** The statements that `query` really runs. */
  async function statementsOf(query: string, user?: string): Promise<number> {
    statements.length = 0;
    await ask(query, user);
    return statements.length;
  }

  it("runs SQL for the first homepage and none for the second", async () => {
    const query = "{ top { title year stars director { name } } }";
    expect(await statementsOf(query)).toBeGreaterThan(0);
    expect(await statementsOf(query)).toBe(0);
  });

  it("shows a rating on the next page", async () => {
    const query = "{ movie(id: 3000) { title stars } }";
    const before = await ask(query);
    expect(await statementsOf(query)).toBe(0);
    for (let nth = 0; nth < 3; nth++) await ask("mutation { rate(movie: 3000, stars: 10) { id } }");
    const after = await ask(query);
    expect(after).not.toEqual(before);
  });

  it("puts a film on the homepage that new ratings bring there", async () => {
    const query = "{ top(n: 3) { id } }";
    const before = (await ask(query)) as { top: { id: string }[] };
    expect(await statementsOf(query)).toBe(0);
    expect(before.top.map(({ id }) => id)).not.toContain("2900");
    const rate = "rate(movie: 2900, stars: 10) { id }";
    // Sixty, since the homepage draws a film with few ratings towards the median.
    await ask(`mutation { ${Array.from({ length: 60 }, (_, nth) => `r${nth}: ${rate}`).join(" ")} }`);
    const after = (await ask(query)) as { top: { id: string }[] };
    expect(after.top.map(({ id }) => id)).toContain("2900");
    expect(await statementsOf(query)).toBe(0);
  });

  it("remembers shortly that a film does not exist", async () => {
    expect(await ask("{ movie(id: 999999) { title } }")).toEqual({ movie: null });
    expect(await statementsOf("{ movie(id: 999999) { title } }")).toBe(0);
  });

  it("shows each viewer his own watchlist, and nobody's to somebody unknown", async () => {
    const query = "{ me { watchlist { id } } }";
    expect(await ask(query, "alice")).toEqual({ me: { watchlist: [{ id: "1" }, { id: "7" }] } });
    expect(await ask(query, "bob")).toEqual({ me: { watchlist: [{ id: "3" }] } });
    expect(await statementsOf(query, "alice")).toBe(0);
    expect(await ask(query)).toEqual({ me: null });
    await ask("mutation { addToWatchlist(movie: 9) { id } }", "bob");
    expect(await ask(query, "bob")).toEqual({ me: { watchlist: [{ id: "3" }, { id: "9" }] } });
  });

  it("answers nobody with null, before and after somebody has asked, and stores nothing of it", async () => {
    const query = "{ me { id watchlist { id } } }";
    const stored = async (): Promise<unknown> =>
      ask("{ cacheInspection { fields { coordinate stats { loads } } } }", "admin");
    expect(await ask(query)).toEqual({ me: null });
    const before = await stored();
    expect(await ask(query)).toEqual({ me: null });
    expect(await stored()).toEqual(before);
    expect(await ask(query, "carol")).toEqual({ me: { id: "carol", watchlist: [] } });
    expect(await ask(query)).toEqual({ me: null });
  });

  it("asks for the director of many films once", async () => {
    const [first] = await database.query(
      "SELECT director_id AS id FROM movies WHERE director_id IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
    );
    const query = `{ person(id: ${Number(first?.id)}) { filmography { director { name } } } }`;
    statements.length = 0;
    const { person } = (await ask(query)) as { person: { filmography: unknown[] } };
    expect(person.filmography.length).toBeGreaterThan(5);
    // The person himself, and once the director of all these films, unless he is known from the homepage.
    expect(statements.filter((sql) => sql.includes("FROM people")).length).toBeLessThanOrEqual(2);
  });
});
