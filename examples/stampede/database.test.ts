import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore } from "graphql-cached";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type OpenDatabase, openDatabase } from "./database.js";
import { startSite, TOP_SQL } from "./site.js";

describe("the site of the stampede", () => {
  const statements: string[] = [];
  let folder: string;
  let database: OpenDatabase;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "stampede-"));
    database = await openDatabase({ folder, ratings: 1_000, onStatement: (sql) => statements.push(sql) });
  });
  afterAll(async () => {
    await database.close();
    await rm(folder, { recursive: true, force: true });
  });

  it.each([
    ["none", 20],
    ["memory", 1],
  ])("with the store %s, twenty requests for a cold homepage run its SQL %d times", async (name, runs) => {
    const site = await startSite(database, name === "memory" ? memoryStore() : "none", "stampede");
    statements.length = 0;
    const ask = async (query: string): Promise<unknown> => {
      const headers = { "content-type": "application/json" };
      return (await fetch(site.url, { method: "POST", headers, body: JSON.stringify({ query }) })).json();
    };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => ask("{ top(n: 3) { title similar { title } } }")),
    );
    for (const answer of answers) {
      expect(answer).toEqual(answers[0]);
      expect(answer).toMatchObject({ data: { top: [{ title: expect.any(String) }, {}, {}] } });
    }
    expect(statements.filter((sql) => sql === TOP_SQL)).toHaveLength(runs);
    await site.close();
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
});
