import { randomUUID } from "node:crypto";
import { graphql } from "graphql";
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { sharedServer } from "../../test/support/shared-servers.js";
import { type Database, simulatedDatabase } from "./database.js";
import { createSiteCache, createSiteSchema } from "./site.js";

const HOME = "{ top(first: 3) { title stars director { name } } me { watched { title } } }";

interface Site {
  /** Sends a query and returns its data and the SQL that has run. */
  ask(query: string, userId?: string): Promise<{ data: unknown; sql: string[] }>;
}

/** Starts the site as one process does. */
function startSite(store: Store = memoryStore(), { database, sql } = recordedDatabase(), prefix = "marquee"): Site {
  const cache = createSiteCache(store, prefix);
  onTestFinished(() => cache.close());
  const schema = createSiteSchema(cache, database);
  return {
    async ask(source, userId) {
      sql.length = 0;
      const { data, errors } = await graphql({ schema, source, contextValue: { userId } });
      expect(errors).toBeUndefined();
      await cache.settled();
      return { data, sql: [...sql] };
    },
  };
}

function recordedDatabase(): { database: Database; sql: string[] } {
  const sql: string[] = [];
  return { database: simulatedDatabase((statement) => sql.push(statement.sql)), sql };
}

describe("the film site", () => {
  it("runs SQL for the first homepage, no statement twice for the same rows, and none for the second", async () => {
    const { ask } = startSite();
    const first = await ask("{ top { title stars director { name } } }");
    expect(first.sql).toHaveLength(4);
    expect(new Set(first.sql).size).toBe(4);
    expect(await ask("{ top { title stars director { name } } }")).toEqual({ data: first.data, sql: [] });
  });

  it("loads the list and one rating again after a film was rated", async () => {
    const { ask } = startSite();
    const query = "{ top(first: 2) { id stars } }";
    expect((await ask(query)).data).toEqual({
      top: [
        { id: "1", stars: 9.15 },
        { id: "8", stars: 9 },
      ],
    });
    await ask("mutation { rate(film: 8, stars: 10) { id } }", "alice");
    const after = await ask(query);
    expect(after.data).toEqual({
      top: [
        { id: "1", stars: 9.15 },
        { id: "8", stars: 190 / 21 },
      ],
    });
    expect(after.sql).toEqual([expect.stringContaining("ORDER BY avg(stars)"), expect.stringContaining("film_id IN")]);
  });

  it("shows each visitor the films that they have watched, and guests none", async () => {
    const { ask } = startSite();
    const query = "{ me { watched { id } } }";
    expect((await ask(query, "alice")).data).toEqual({ me: { watched: [{ id: "7" }, { id: "14" }, { id: "5" }] } });
    expect((await ask(query, "bob")).data).toEqual({ me: { watched: [{ id: "9" }, { id: "4" }] } });
    expect((await ask(query, "alice")).sql).toEqual([]);
    expect(await ask(query)).toEqual({ data: { me: null }, sql: [] });
  });

  it("runs no SQL in a second process on the same Redis, and shows there what was rated in the first", async () => {
    const server = await sharedServer("redisStandalone");
    const source = recordedDatabase();
    const prefix = `marquee-${randomUUID()}`;
    const [one, other] = [1, 2].map(() => {
      const client = new Redis(server);
      onTestFinished(() => client.disconnect());
      return startSite(redisStore({ client }), source, prefix);
    }) as [Site, Site];
    const { data } = await one.ask(HOME, "alice");
    expect(await other.ask(HOME, "alice")).toEqual({ data, sql: [] });
    await one.ask("mutation { rate(film: 1, stars: 1) { id } }", "alice");
    expect((await other.ask(HOME, "alice")).data).not.toEqual(data);
  });

  it.each([
    ["{ top(first: 0) { id } }", "first: expected an integer from 1 to 100, got 0"],
    ["mutation { rate(film: 1, stars: 11) { id } }", "stars: expected an integer from 1 to 10, got 11"],
  ])("rejects %s", async (source, message) => {
    const cache = createSiteCache(memoryStore(), "marquee");
    const schema = createSiteSchema(cache, recordedDatabase().database);
    const { errors } = await graphql({ schema, source, contextValue: { userId: "alice" } });
    expect(errors).toMatchObject([{ message, extensions: { code: "BAD_USER_INPUT" } }]);
    await cache.close();
  });
});
