import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { type Cache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { expectNoLeaks, expectOneLoad, expectSameResponse } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sharedServer } from "../../test/support/shared-servers.js";
import { type OpenDatabase, openDatabase } from "./database.js";
import type { SiteContext } from "./resolvers.js";
import { identify, type RunningSite, siteSchema, startSite } from "./site.js";

describe("the film site", () => {
  const statements: string[] = [];
  let folder: string;
  let database: OpenDatabase;
  let site: RunningSite;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "marquee-"));
    database = await openDatabase({ folder, ratings: 5_000, onStatement: (sql) => statements.push(sql) });
    site = await startSite({ database, store: memoryStore(), port: 0, inspectorPort: 0, medianWeight: 5 });
  }, 60_000);
  afterAll(async () => {
    await site.close();
    await database.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function ask(
    query: string,
    from: { user?: string | undefined; url?: string } = {},
  ): Promise<Record<string, unknown>> {
    const { user, url = site.url } = from;
    const headers = { "content-type": "application/json", ...(user === undefined ? {} : { "x-user": user }) };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify({ query }) });
    const { data, errors } = (await response.json()) as { data: Record<string, unknown>; errors?: unknown };
    expect(errors).toBeUndefined();
    return data;
  }

  /** The number of SQL statements that `query` runs. */
  async function statementsOf(query: string, user?: string): Promise<number> {
    statements.length = 0;
    await ask(query, { user });
    return statements.length;
  }

  it("runs SQL for the first homepage and none for the second", async () => {
    const query = "{ top { title year stars director { name } } }";
    expect(await statementsOf(query)).toBeGreaterThan(0);
    expect(await statementsOf(query)).toBe(0);
  });

  it("serves the inspector page on a port of its own, to this machine", async () => {
    const url = site.inspectorUrl as string;
    expect(await (await fetch(url)).text()).toContain("<title>graphql-cached inspector</title>");
    const body = JSON.stringify({ operation: "fields", variables: { window: "SINCE_START" } });
    const headers = { "content-type": "application/json", "x-graphql-cached-inspector": "1" };
    const answer = (await (await fetch(url, { method: "POST", headers, body })).json()) as {
      data: { fields: { coordinate: string }[] };
    };
    expect(answer.data.fields.map(({ coordinate }) => coordinate)).toContain("Query.top");
  });

  it("serves a page from disk that runs queries and shows what was a hit", async () => {
    const html = await (await fetch(site.url, { headers: { accept: "text/html" } })).text();
    expect(html).not.toMatch(/https?:|\/\//);
    const elements = new Map<
      string,
      { value?: string; textContent?: string; rows: string[][] } & Record<string, unknown>
    >();
    const element = (id: string) => {
      const rows: string[][] = [];
      const insertRow = () => {
        const row: string[] = [];
        rows.push(row);
        return {
          insertCell: () => ({
            set textContent(text: string) {
              row.push(text);
            },
          }),
        };
      };
      const known = elements.get(id) ?? { rows, insertRow };
      elements.set(id, known);
      return known;
    };
    const [, script = ""] = /<script>(.*)<\/script>/s.exec(html) ?? [];
    const inSite = (path: string, request: RequestInit) => fetch(new URL(path, site.url), request);
    runInNewContext(script, {
      document: { getElementById: element },
      location: { pathname: "/" },
      performance,
      fetch: inSite,
    });
    Object.assign(element("query"), { value: "{ movie(id: 2999) { title } }" });
    Object.assign(element("user"), { value: "admin" });
    const submit = element("form").onsubmit as (event: object) => Promise<void>;
    for (let run = 0; run < 2; run++) {
      element("outcomes").rows.length = 0;
      await submit({ preventDefault: () => undefined });
    }
    expect(element("outcomes").rows).toEqual([["Query.movie", "hit 1"]]);
    expect(JSON.parse(String(element("response").textContent))).toEqual({
      data: { movie: { title: expect.any(String) } },
    });
  });

  it("shows a new rating on the next page", async () => {
    const query = "{ movie(id: 3000) { title stars } }";
    const before = await ask(query);
    expect(await statementsOf(query)).toBe(0);
    for (let nth = 0; nth < 3; nth++) await ask("mutation { rate(movie: 3000, stars: 10) { id } }");
    const after = await ask(query);
    expect(after).not.toEqual(before);
  });

  it("moves a film to the homepage after new ratings", async () => {
    const query = "{ top(n: 3) { id } }";
    const before = (await ask(query)) as { top: { id: string }[] };
    expect(await statementsOf(query)).toBe(0);
    expect(before.top.map(({ id }) => id)).not.toContain("2900");
    const rate = "rate(movie: 2900, stars: 10) { id }";
    // Sixty ratings, because the homepage weights films with few ratings towards the median.
    await ask(`mutation { ${Array.from({ length: 60 }, (_, nth) => `r${nth}: ${rate}`).join(" ")} }`);
    const after = (await ask(query)) as { top: { id: string }[] };
    expect(after.top.map(({ id }) => id)).toContain("2900");
    expect(await statementsOf(query)).toBe(0);
  });

  it.each([
    ["{ top(n: -1) { id } }", "n must be from 1 to 100, got -1"],
    ["{ movie(id: 1) { similar(first: 101) { id } } }", "first must be from 1 to 100, got 101"],
  ])("rejects an invalid list length: %s", async (query, message) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(site.url, { method: "POST", headers, body: JSON.stringify({ query }) });
    expect(await response.json()).toMatchObject({ errors: [{ message }] });
  });

  it("runs no SQL in a second server on the same Redis and shows ratings made in the first", async () => {
    const server = await sharedServer("redisStandalone");
    const clients = [new Redis(server), new Redis(server)] as const;
    const prefix = `marquee-${process.pid}`;
    const start = (client: Redis): Promise<RunningSite> =>
      startSite({ database, store: redisStore({ client }), prefix, port: 0, medianWeight: 5 });
    const [one, other] = await Promise.all([start(clients[0]), start(clients[1])]);
    const query = "{ movie(id: 2000) { title stars } }";
    const first = await ask(query, { url: one.url });
    statements.length = 0;
    expect(await ask(query, { url: other.url })).toEqual(first);
    expect(statements).toEqual([]);
    await ask("mutation { rate(movie: 2000, stars: 10) { id } }", { url: one.url });
    expect(await ask(query, { url: other.url })).not.toEqual(first);
    await Promise.all([one.close(), other.close()]);
    for (const client of clients) client.disconnect();
  });

  it("settles every statement while and after the database closes", async () => {
    const other = await openDatabase({ folder: join(folder, "other"), ratings: 100 });
    const slow = other.query("SELECT count(*) FROM ratings a, ratings b");
    const closing = other.close();
    await expect(other.query("SELECT 1")).rejects.toThrow("the database is closed");
    await closing;
    await expect(other.query("SELECT 1")).rejects.toThrow("the database is closed");
    expect(await slow).toEqual([{ count: 10_000 }]);
  });

  it("remembers shortly that a film does not exist", async () => {
    expect(await ask("{ movie(id: 999999) { title } }")).toEqual({ movie: null });
    expect(await statementsOf("{ movie(id: 999999) { title } }")).toBe(0);
  });

  it("shows each viewer their own watchlist and none to anonymous callers", async () => {
    const query = "{ me { watchlist { id } } }";
    expect(await ask(query, { user: "alice" })).toEqual({ me: { watchlist: [{ id: "1" }, { id: "7" }] } });
    expect(await ask(query, { user: "bob" })).toEqual({ me: { watchlist: [{ id: "3" }] } });
    expect(await statementsOf(query, "alice")).toBe(0);
    expect(await ask(query)).toEqual({ me: null });
    await ask("mutation { addToWatchlist(movie: 9) { id } }", { user: "bob" });
    expect(await ask(query, { user: "bob" })).toEqual({ me: { watchlist: [{ id: "3" }, { id: "9" }] } });
  });

  it("returns null to anonymous callers and stores nothing for them", async () => {
    const query = "{ me { id watchlist { id } } }";
    const fieldLoads = async (): Promise<unknown> =>
      ask("{ cacheInspection { fields { coordinate stats { loads } } } }", { user: "admin" });
    expect(await ask(query)).toEqual({ me: null });
    const before = await fieldLoads();
    expect(await ask(query)).toEqual({ me: null });
    expect(await fieldLoads()).toEqual(before);
    expect(await ask(query, { user: "carol" })).toEqual({ me: { id: "carol", watchlist: [] } });
    expect(await ask(query)).toEqual({ me: null });
  });

  describe("checked with graphql-cached/testing", () => {
    const createSchema = (cache: Cache<SiteContext>) => siteSchema(database, cache, 5);
    const homepage = "{ top { title stars director { name } } }";
    const film = "query Film($id: ID!) { movie(id: $id) { title stars } }";
    const as = (userId: string | undefined) => (): SiteContext => ({ userId });
    const options = { cache: { identify } };

    it("loads each value once for a stampede on all processes", async () => {
      const loads = await expectOneLoad(createSchema, homepage, { ...options, context: as(undefined), processes: 3 });
      expect(loads).toMatchObject({ "Query.top": 1, Movie: 10, "Movie.stars": 10 });
    });

    it("responds with the cache as without it", async () => {
      const films = [1, 2].map((id) => ({ query: film, variables: { id } }));
      const shorter = '{ top(n: 3) { title } trending(genre: "Drama") { title } }';
      await expectSameResponse(createSchema, [homepage, ...films, shorter], { ...options, context: as(undefined) });
    });

    it("shows nobody the watchlist of another viewer", async () => {
      const identities = { alice: as("alice"), bob: as("bob"), nobody: as(undefined) };
      await expectNoLeaks(createSchema, identities, ["{ me { watchlist { title } } }", homepage], options);
    });
  });

  it("loads the director of many films once", async () => {
    const [first] = await database.query(
      "SELECT director_id AS id FROM movies WHERE director_id IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
    );
    const query = `{ person(id: ${Number(first?.id)}) { filmography { director { name } } } }`;
    statements.length = 0;
    const { person } = (await ask(query)) as { person: { filmography: unknown[] } };
    expect(person.filmography.length).toBeGreaterThan(5);
    // One query for the person, and one for the director of all films unless the homepage has cached it.
    expect(statements.filter((sql) => sql.includes("FROM people")).length).toBeLessThanOrEqual(2);
  });
});
