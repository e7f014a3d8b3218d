import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import { type GraphQLSchema, graphql } from "graphql";
import {
  applyCached,
  type CacheOptions,
  cachedTypeDefs,
  controlResolvers,
  controlTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  invalidationResolvers,
  invalidationTypeDefs,
} from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterEach, describe, expect, it } from "vitest";
import type { Terminal } from "../../src/tools/cli/terminal.js";
import { ROOT, read } from "../project/source.js";
import { runCli } from "../support/cli-terminal.js";
import { compiledPath } from "../support/programs.js";
import { sharedServer } from "../support/shared-servers.js";

const quiet = { info: () => undefined, warn: () => undefined };
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Caller {
  readonly isAdmin: boolean;
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

async function serve(handler: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listen(createServer(handler))}/graphql`;
}

/** Serves a schema as a GraphQL server does. Callers with the header x-admin are administrators. */
const serveSchema = (schema: GraphQLSchema): Promise<string> =>
  serve((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", async () => {
      const { query, variables } = JSON.parse(body) as { query: string; variables: Record<string, unknown> };
      const contextValue: Caller = { isAdmin: request.headers["x-admin"] === "yes" };
      const answer = await graphql({ schema, source: query, variableValues: variables, contextValue });
      response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
    });
  });

const allow = ({ isAdmin }: Caller): boolean => isAdmin;
const films = `type Query { movie(id: ID!): String @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) }  type Mutation { ok: Int }`;
const stars = `
  extend type Query { star(id: ID!): Star }
  type Star { id: ID! name: String @cached(maxAge: 60) role(as: Int!): String @cached(maxAge: 60) }`;
const starResolvers = {
  Query: { star: (_: unknown, star: { id: string }) => star },
  Star: { name: () => "Ann", role: () => "Eve" },
};

/** A server with a cached field, a loader, the inspection and both kinds of mutations. */
async function startServer(options: CacheOptions<Caller> = {}, { hasStars = false } = {}) {
  let loads = 0;
  const cache = createCache<Caller>({ logger: quiet, ...options });
  closing.push(() => cache.close());
  const people = cache.loader({
    name: "Person",
    maxAge: 60,
    batch: async (ids: readonly number[]) => ids.map((id) => `person ${id}`),
  });
  const resolvers = { Query: { movie: (_: unknown, { id }: { id: string }) => `film ${id}, load ${++loads}` } };
  const access = { allow };
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [
        cachedTypeDefs,
        inspectionTypeDefs,
        invalidationTypeDefs,
        controlTypeDefs,
        films,
        hasStars ? stars : "",
      ],
      resolvers: [
        resolvers,
        hasStars ? starResolvers : {},
        inspectionResolvers(cache, access),
        invalidationResolvers(cache, access),
        controlResolvers(cache, access),
      ] as unknown as IResolvers[],
    }),
    cache,
  );
  const url = await serveSchema(schema);
  const ask = async (source: string): Promise<unknown> =>
    (await graphql({ schema, source, contextValue: { isAdmin: false } })).data;
  return { cache, url, ask, people, admin: ["--endpoint", url, "--header", "x-admin: yes"] };
}

/** A server whose store is away, and that can be away itself. */
async function startFlakyServer() {
  const isAway = { now: false };
  const event = { process: "p1", name: "store.failed", at: "2026-01-01T00:00:00.000Z", firstAt: "", count: 1 };
  const cacheInspection = { fields: [], events: [{ ...event, detail: "read" }], invalidations: null, processes: [] };
  const errors = [{ message: "the store did not reply", path: ["cacheInspection", "invalidations"] }];
  const url = await serve(async (request, response) => {
    const query = Buffer.concat(await request.toArray()).toString();
    response.statusCode = isAway.now ? 503 : 200;
    const answer = { data: { cacheInspection }, ...(query.includes("invalidations") ? { errors } : {}) };
    response.setHeader("content-type", "application/json").end(isAway.now ? "away" : JSON.stringify(answer));
  });
  return { isAway, url };
}

/** A server whose counts since the start are those of `at`. */
async function startCountingServer() {
  const at = { seconds: 0, reads: 1_000, name: "Query.movie" };
  const stats = { reads: 1_000, hit: 700, stale: 100, staleIfError: 0, loads: 200, failedLoads: 3, hitRatio: 0.8 };
  const none = {
    ...stats,
    reads: 10,
    hit: 10,
    stale: 0,
    loads: 0,
    failedLoads: 0,
    hitRatio: 1,
    loadMs: { p90Ms: null },
  };
  const url = await serve((_, response) => {
    const coordinate = at.name;
    const until = new Date(at.seconds * 1_000).toISOString();
    const cacheInspection = {
      fields: [{ coordinate, stats: { ...stats, loadMs: { p90Ms: 42 } } }],
      subtrees: [{ coordinate, subtrees: { stats: none } }],
      totals: [
        {
          coordinate,
          stats: { reads: at.reads, loads: at.reads / 5, until },
          subtrees: { stats: { reads: at.reads / 2, loads: 0 } },
        },
      ],
      hotKeys: { keys: [{ coordinate, digest: "ab", reads: 3, args: { id: "7".repeat(90) } }], maxError: 2 },
      modes: [],
      processes: [
        { isThis: false, host: "web".repeat(20), pid: 1, version: "0.1.0", isAlive: false, missing: "was killed" },
      ],
    };
    response.setHeader("content-type", "application/json").end(JSON.stringify({ data: { cacheInspection } }));
  });
  return { at, url };
}

/** Returns the first three pages of `top` in a terminal, with what happens after each. */
async function pagesOf(url: string, terminal: Partial<Terminal>, happens: (nth: number) => void = () => undefined) {
  let nth = 0;
  const sleep = async (): Promise<boolean> => {
    happens(nth);
    return ++nth < 3;
  };
  const { out } = await runCli(["top", "--endpoint", url], { isTty: true, sleep, ...terminal });
  return out.split("(cleared)\n").filter((page) => page !== "");
}

/** Lines of text output keep to 80 columns and have no control characters. */
function expectReadable(out: string): void {
  for (const line of out.split("\n")) {
    expect(line.length, line).toBeLessThanOrEqual(80);
    expect(line).not.toMatch(/\p{Cc}/u);
  }
}

describe("graphql-cached fields", () => {
  it("lists fields and loaders with policy, key and tags, and those that are asked for only", async () => {
    const { admin } = await startServer({ defaults: { staleWhileRevalidate: 5 } });
    const { code, out, err } = await runCli(["fields", ...admin]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out.replaceAll(/\n {3,}/g, " ")).toMatch(
      /^Query\.movie\n {2}policy +maxAge: 60, staleWhileRevalidate: 5, .*scope: PUBLIC\n {2}key +\$args\n {2}tags +Movie:\{\$args\.id\}\nPerson\n/,
    );
    expect(out).toMatch(/^ {2}key +the id\n {2}tags +computed by the loader$/m);
    expect(out).not.toContain("neverExpires");
    expectReadable(out);
    const one = await runCli(["fields", "Person", "--json", ...admin]);
    const { fields } = JSON.parse(one.out) as { fields: object[] };
    expect(fields).toMatchObject([{ coordinate: "Person", policy: { neverExpires: false, key: null }, mode: "ON" }]);
    expect(await runCli(["fields", "Query.none", ...admin])).toMatchObject({ code: 2, out: "" });
  });

  it("asks an older server for what it knows", async () => {
    const old =
      "type Query { cacheInspection: Old! } type Old { fields: [Field!]! } type Field { coordinate: String! maxAge: Float scope: String }";
    const fields = [{ coordinate: "Query.top", maxAge: 60, scope: "PUBLIC" }];
    const resolvers = { Query: { cacheInspection: () => ({ fields }) } };
    const url = await serveSchema(makeExecutableSchema({ typeDefs: old, resolvers }));
    const { code, out } = await runCli(["fields", "--endpoint", url]);
    expect(code).toBe(0);
    expect(out).toMatch(/^Query\.top\n {2}policy +maxAge: 60, scope: PUBLIC\nNote: this server's inspection has no/);
  });
});

describe("graphql-cached top", () => {
  it("shows the parent of hot keys", async () => {
    const { admin, ask } = await startServer({}, { hasStars: true });
    await runCli(["top", "--once", ...admin]);
    await ask("{ star(id: 7) { name role(as: 1) } }");
    const { out } = await runCli(["top", "--once", ...admin]);
    expect(out).toMatch(/^Star\.name +1 of Star \{"id":"7"\}$/m);
    expect(out).toMatch(/^Star\.role +1 \{"as":1\} of Star \{"id":"7"\}$/m);
  });

  it("shows the reads and loads a second since the page before, of what has counts of both", async () => {
    const { url, at } = await startCountingServer();
    const pages = await pagesOf(url, { env: { NO_COLOR: "1" } }, (nth) => {
      at.seconds += 5;
      at.reads += nth === 0 ? 60 : -100;
    });
    expect(pages.map((page) => page.includes("/S"))).toEqual([false, true, true]);
    expect(pages[1]).toContain("/graphql · last 10m · /S over 5 s");
    expect(pages[1]).toMatch(/READS +\/S +HIT +LOADS +\/S +FAILED +P90 LOAD$/m);
    expect(pages[1]).toMatch(/^Query\.movie +1000 +12 +80% +200 +2\.4 +3 +42 ms$/m);
    expect(pages[1]).toMatch(/^Query\.movie \(subtree\) +10 +6\.0 +100% +0 +0 +0/m);
    // Processes that have ended are forgotten, with their counts.
    expect(pages[2]).toMatch(/^Query\.movie +1000 +80% +200 +3 +42 ms$/m);
  });

  it("colours a terminal unless NO_COLOR or TERM forbids it, and other output only with FORCE_COLOR", async () => {
    const { url } = await startCountingServer();
    const isColoured = async (env: Readonly<Record<string, string>>, isTty = true) => {
      const [page = ""] = await pagesOf(url, { env, isTty });
      return page.includes("\u001b[33m  80%\u001b[39m") && page.includes("\u001b[31m     3\u001b[39m");
    };
    expect(await isColoured({})).toBe(true);
    expect(await isColoured({ NO_COLOR: "" })).toBe(true);
    for (const env of [{ NO_COLOR: "1" }, { TERM: "dumb" }, { FORCE_COLOR: "0" }] as Record<string, string>[])
      expect(await isColoured(env), JSON.stringify(env)).toBe(false);
    expect(await isColoured({}, false)).toBe(false);
    expect(await isColoured({ FORCE_COLOR: "1", NO_COLOR: "1" }, false)).toBe(true);
  });

  it.each([30, 40, 55, 80, 132])("keeps to a terminal of %i columns", async (columns) => {
    const { url, at } = await startCountingServer();
    const name = `Query.${"long".repeat(13)}`;
    at.name = name;
    const pages = await pagesOf(url, { env: { NO_COLOR: "1" }, columns }, () => at.seconds++);
    for (const page of pages)
      for (const line of page.split("\n")) expect(line.length, line).toBeLessThanOrEqual(Math.max(columns, 36));
    expect(pages[2]?.includes(`${name} `)).toBe(columns === 132);
    expect(pages[2]).toMatch(/READS.* HIT/);
  });

  it("shows reads, hits and loads of fields and loaders, and the processes", async () => {
    const { admin, ask, people } = await startServer();
    for (let nth = 0; nth < 4; nth++) await ask("{ movie(id: 7) }");
    await people({ isAdmin: false }).load(1);
    const { code, out, err } = await runCli(["top", "--once", "--window", "start", ...admin]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/^Query\.movie +4 +75% +1 +0/m);
    expect(out).toMatch(/^Person +1 +0% +1 +0/m);
    expect(out).toContain("None yet: reads are counted by key while they are asked for.");
    expect(out).toMatch(new RegExp(`^\\S+ +${process.pid} \\d`, "m"));
    expectReadable(out);
    await ask("{ movie(id: 7) }");
    const later = await runCli(["top", "--once", ...admin]);
    expect(later.out).toMatch(/^Query\.movie +1 \{"id":"7"\}$/m);
  });

  it("sorts and limits the fields, and prints JSON", async () => {
    const { admin, ask, people } = await startServer();
    await ask("{ movie(id: 7) }");
    await people({ isAdmin: false }).loadMany([1, 2, 3]);
    const options = ["top", "--window", "start", ...admin];
    const fieldsIn = (out: string): string[] =>
      [...out.matchAll(/^(Query\.movie|Person) /gm)].map(([, name = ""]) => name);
    expect(fieldsIn((await runCli([...options, "--sort", "loads"])).out)).toEqual(["Person", "Query.movie"]);
    const limited = await runCli([...options, "--limit", "1"]);
    expect(fieldsIn(limited.out)).toEqual(["Person"]);
    expect(limited.out).toContain("and 1 more; --limit shows them");
    const { fields } = JSON.parse((await runCli([...options, "--json"])).out) as { fields: { coordinate: string }[] };
    expect(new Set(fields.map(({ coordinate }) => coordinate))).toEqual(new Set(["Person", "Query.movie"]));
  });

  it("refreshes in a terminal until the user ends it", async () => {
    const { admin } = await startServer();
    const waits: number[] = [];
    const sleep = async (ms: number): Promise<boolean> => waits.push(ms) < 3;
    const { code, out } = await runCli(["top", "--every", "2", ...admin], { isTty: true, sleep });
    expect(code).toBe(0);
    expect(waits).toEqual([2_000, 2_000, 2_000]);
    expect(out.match(/\(cleared\)/g)).toHaveLength(3);
  });

  it("goes on in a terminal when a server that has answered is away for a moment", async () => {
    const { isAway, url } = await startFlakyServer();
    let waits = 0;
    const sleep = async (): Promise<boolean> => {
      isAway.now = waits === 0;
      return waits++ < 2;
    };
    const { code, out } = await runCli(["top", "--endpoint", url], { isTty: true, sleep });
    expect(code).toBe(0);
    expect(out.split("(cleared)").map((page) => page.includes("HTTP 503"))).toEqual([false, false, true, false]);
    isAway.now = true;
    expect((await runCli(["top", "--endpoint", url], { isTty: true, sleep })).code).toBe(2);
  });

  it("lists the processes that are alive or that have left something out, and counts the others", async () => {
    const ended = { isThis: false, host: "web-1", version: "0.1.0", isAlive: false, missing: null };
    const processes = [
      { ...ended, pid: 1, isThis: true, isAlive: true },
      { ...ended, pid: 2 },
      { ...ended, pid: 3, missing: "was killed" },
      { ...ended, pid: 4, isAlive: true },
      { ...ended, pid: 5 },
    ];
    const url = await serve((_, response) => {
      const cacheInspection = { fields: [], hotKeys: { keys: [], maxError: 0 }, modes: [], processes };
      response.setHeader("content-type", "application/json").end(JSON.stringify({ data: { cacheInspection } }));
    });
    const pageOf = async (...argv: string[]) => (await runCli(["top", "--endpoint", url, ...argv])).out;
    expect((await pageOf()).split("PROCESSES")[1]?.replaceAll(/ +/g, " ").split("\n").slice(1)).toEqual([
      "web-1 1 0.1.0",
      "web-1 3 0.1.0 gone",
      " was killed",
      "web-1 4 0.1.0",
      "2 have ended in the last 70 minutes.",
    ]);
    expect(await pageOf("--limit", "1")).toContain("and 2 more; --limit shows them");
  });

  it("asks an older server for what it knows, and says what it lacks", async () => {
    const old = `
      type Query { cacheInspection: CacheInspection! }
      type CacheInspection { fields: [CacheFieldStats!]! }
      type CacheFieldStats { coordinate: String! stats: CacheStats! }
      type CacheStats { reads: Int! hit: Int! stale: Int! staleIfError: Int! loads: Int! failedLoads: Int! }`;
    const stats = { reads: 10, hit: 5, stale: 1, staleIfError: 0, loads: 4, failedLoads: 0 };
    const resolvers = {
      Query: { cacheInspection: () => ({ fields: [{ coordinate: "Query.\u001b[31mold", stats }] }) },
    };
    const url = await serveSchema(makeExecutableSchema({ typeDefs: old, resolvers }));
    const { code, out } = await runCli(["top", "--endpoint", url]);
    expect(code).toBe(0);
    expect(out).toContain(`${url} · since the start`);
    expect(out).toMatch(/^Query\.�\[31mold +10 +60% +4 +0$/m);
    expect(out.replaceAll(/\n +/g, " ")).toContain(
      "Note: this server's inspection has no `fields`, `hotKeys`, `modes`, `processes`, or an older form of them; update graphql-cached there",
    );
    expectReadable(out);
    expect(await runCli(["mode", "--endpoint", url])).toMatchObject({ code: 2, out: "" });
    expect((await runCli(["mode", "--endpoint", url])).err.replaceAll(/\n +/g, " ")).toContain(
      "this server's inspection has no `modes`",
    );
    expect((await runCli(["mode", "off", "--endpoint", url])).err.replaceAll(/\n +/g, " ")).toContain(
      "this server has no mutation `cacheSetMode`, or an older form of it; add controlTypeDefs",
    );
    expect((await runCli(["watch", "--once", "--endpoint", url])).code).toBe(2);
  });
});

describe("graphql-cached entry", () => {
  it("shows the entry of a field and of a loader", async () => {
    const { admin, ask, people } = await startServer();
    await ask("{ movie(id: 7) }");
    await people({ isAdmin: false }).load(1);
    const found = await runCli(["entry", "Query.movie", "--args", '{"id": 7}', ...admin]);
    expect(found).toMatchObject({ code: 0, err: "" });
    expect(found.out).toMatch(/^Query\.movie\n {2}state +value/);
    expect(found.out).toMatch(/^ {2}fresh for +(5\d|60)(\.\d)? s$/m);
    expectReadable(found.out);
    const json = JSON.parse((await runCli(["entry", "Person", "--id", "1", "--json", ...admin])).out) as {
      entry: object;
    };
    expect(json.entry).toMatchObject({ state: "VALUE", outdated: false });
  });

  it("names the invalidation because of which an entry is not served", async () => {
    const { admin, ask, cache } = await startServer();
    await ask("{ movie(id: 7) }");
    await cache.invalidateTags(["Movie:7"]);
    const { code, out } = await runCli(["entry", "Query.movie", "--args", '{"id": 7}', ...admin]);
    expect(code).toBe(0);
    expect(out).toMatch(/^ {2}state +value, not served$/m);
    expect(out).not.toContain("fresh for");
    expect(out.replaceAll(/\n +/g, " ")).toMatch(
      /why .* By cache\.invalidateTags, in process \d+ on \S+ at \d{4}-\S+Z\./,
    );
    expectReadable(out);
  });

  it("says that there is no entry, for which key, and what the key is made of", async () => {
    const { admin } = await startServer();
    const field = await runCli(["entry", "Query.movie", "--args", '{"id": 8}', ...admin]);
    expect(field).toMatchObject({ code: 0, err: "" });
    expect(field.out).toBe(
      'Query.movie: the store has no entry for this key.\n  looked for    --args {"id":8}\n  key           $args',
    );
    const loader = await runCli(["entry", "Person", "--id", "8", ...admin]);
    expect(loader.out).toBe("Person: the store has no entry for this key.\n  looked for    --id 8");
  });

  it.each([
    [["Query.movie", "--args", "{id: 7}"], "--args: expected JSON, such as '{\"id\": 7}'"],
    [["Query.movie", "--args", '{"no": 7}'], "unknown argument `no`; known arguments: id"],
    [["Query.none"], "expected a cached field of a schema passed to applyCached"],
    [[], "expected one coordinate"],
    [["Query.movie", "id=7"], "got Query.movie id=7; pass the rest of the key as --args '{\"id\": 7}' or --id 7"],
  ])("exits with 2 for %j", async (argv, message) => {
    const { admin } = await startServer();
    const { code, out, err } = await runCli(["entry", ...argv, ...admin]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err.replaceAll(/\n +/g, " ")).toContain(message);
  });
});

describe("graphql-cached invalidate", () => {
  it.each([
    [
      ["Query.movie", "--args", '{"id": "7"}'],
      "Invalidated one entry of Query.movie.",
      "film 7, load 3",
      "film 8, load 2",
    ],
    [["Query.movie", "--all"], "Invalidated all entries of Query.movie.", "film 7, load 3", "film 8, load 4"],
    [["--tag", "Movie:8"], "Invalidated entries with the tag Movie:8.", "film 7, load 1", "film 8, load 3"],
    [
      ["--tag", "Movie:8", "--tag", "Movie:7"],
      "Invalidated entries with the tags Movie:8, Movie:7.",
      "film 7, load 3",
      "film 8, load 4",
    ],
    [["--all"], "Invalidated everything.", "film 7, load 3", "film 8, load 4"],
  ])("%j", async (argv, message, seven, eight) => {
    const { admin, ask } = await startServer();
    const both = "{ seven: movie(id: 7) eight: movie(id: 8) }";
    await ask(both);
    expect(await runCli(["invalidate", ...argv, ...admin])).toEqual({ code: 0, out: message, err: "" });
    expect(await ask(both)).toEqual({ seven, eight });
  });

  it("invalidates softly", async () => {
    const { admin, ask } = await startServer();
    await ask("{ movie(id: 7) }");
    const { out } = await runCli(["invalidate", "--tag", "Movie:7", "--soft", "--json", ...admin]);
    expect(JSON.parse(out)).toEqual({ invalidated: { tags: ["Movie:7"], soft: true } });
  });

  it.each([
    [[], "expected what to invalidate, got nothing"],
    [["Movie:7"], "expected a coordinate such as Query.movie, got Movie:7; for a tag, pass --tag Movie:7"],
    [["Query.movie", "--tag", "x"], "expected either a coordinate, --tag or --all"],
    [["Query.movie", "--all", "--args", "{}"], "expected a coordinate without --all besides the parts of a key"],
    [["Query.movie"], "argument `id`: expected a value of type `ID!`, got nothing"],
  ])("exits with 2 for %j", async (argv, message) => {
    const { admin } = await startServer();
    const { code, out, err } = await runCli(["invalidate", ...argv, ...admin]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err.replaceAll(/\n +/g, " ")).toContain(message);
  });
});

const WEB_2 = { id: "p2", host: "web-2", pid: 7 };
const invalidationOf = (nth: number, at: string) => ({
  id: `p2-${nth}`,
  at,
  kind: "HARD",
  via: "cache.invalidate",
  mutation: null as string | null,
  isConfirmed: true,
  isClear: false,
  coordinates: [],
  nameCount: 1,
  process: WEB_2,
});

/** Serves answers to the inspection query of `watch`, one after the other. `sleep` ends the command after the last. */
async function serveAnswers(answers: readonly { readonly events: object[]; readonly items: object[] }[]) {
  let asked = 0;
  const url = await serve((_, response) => {
    const { events, items } = answers[asked++] as (typeof answers)[number];
    const cacheInspection = { events, invalidations: { items }, processes: [WEB_2] };
    response.setHeader("content-type", "application/json").end(JSON.stringify({ data: { cacheInspection } }));
  });
  return { url, sleep: async (): Promise<boolean> => asked < answers.length };
}

const SOME_MISSING =
  "Note: there were 500 invalidations or more since the last answer; earlier ones of them are not shown; ask more often, with --every";

describe("graphql-cached watch", () => {
  it("prints events and invalidations once each, the oldest first", async () => {
    const types = `
      type Query { cacheInspection: CacheInspection! }
      type CacheInspection { events(first: Int!): [Event!]! invalidations(first: Int!): Invalidations! }
      type Event { process: ID! name: String! at: String! firstAt: String! count: Float! coordinate: String digest: String node: String detail: String error: String }
      type Invalidations { items: [Invalidation!]! }
      type Invalidation { id: ID! at: String! kind: String! via: String! mutation: String isConfirmed: Boolean! isClear: Boolean! coordinates: [String!]! nameCount: Int! process: Ref! }
      type Ref { id: ID! host: String pid: Int }`;
    const event = (second: number, error: string) => ({
      process: "p1",
      name: "load.failed",
      at: `2026-01-01T00:00:0${second}.000Z`,
      firstAt: "",
      count: second,
      coordinate: "Query.movie",
      error,
    });
    const invalidation = {
      ...invalidationOf(1, "2026-01-01T00:00:02.000Z"),
      via: "@invalidates",
      mutation: "Mutation.rate",
      nameCount: 2,
    };
    let events = [event(1, "away")];
    const url = await serveSchema(
      makeExecutableSchema({
        typeDefs: types,
        resolvers: { Query: { cacheInspection: () => ({ events, invalidations: { items: [invalidation] } }) } },
      }),
    );
    const sleep = async (): Promise<boolean> => {
      const isLast = events.length > 1;
      events = [event(3, "gone\u001b[2J"), event(1, "away")];
      return !isLast;
    };
    const { code, out } = await runCli(["watch", "--endpoint", url], { sleep });
    expect(code).toBe(0);
    expect(out.replaceAll(/\n +/g, " ").split("\n")).toEqual([
      "2026-01-01T00:00:01.000Z load.failed Query.movie away [p1]",
      "2026-01-01T00:00:02.000Z invalidation hard: 2 keys and tags by @invalidates on Mutation.rate [web-2, process 7]",
      "2026-01-01T00:00:03.000Z load.failed Query.movie gone�[2J (3 times) [p1]",
    ]);
    expectReadable(out);
    const json = await runCli(["watch", "--once", "--json", "--endpoint", url]);
    expect(json.out.split("\n").map((line) => (JSON.parse(line) as { name: string }).name)).toEqual([
      "load.failed",
      "invalidation",
      "load.failed",
    ]);
  });

  it("prints every one of many equal invalidations, the oldest first, and says when some may be missing", async () => {
    const newest = (count: number, until: number) =>
      Array.from({ length: count }, (_, index) => invalidationOf(until - index, "2026-01-01T00:00:02.000Z"));
    // 1, then 499 more, then more than one answer holds.
    const lists = [newest(1, 1), newest(500, 500), newest(500, 1_100)];
    const { url, sleep } = await serveAnswers(lists.map((items) => ({ events: [], items })));
    const { out, err } = await runCli(["watch", "--json", "--endpoint", url], { sleep });
    const ids = out.split("\n").map((line) => (JSON.parse(line) as { id: string }).id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toHaveLength(1_000);
    const expected = lists.flatMap((list) => list.toReversed().map(({ id }) => id));
    expect(ids).toEqual([...new Set(expected)]);
    expect(err.replaceAll(/\n +/g, " ")).toBe(SOME_MISSING);
  });

  it("says that some invalidations may be missing if there was none at first, and nothing of those before", async () => {
    const { cache, admin } = await startServer();
    const invalidate = async (count: number): Promise<void> => {
      for (let nth = 0; nth < count; nth++) await cache.invalidateTags([`Movie:${nth}`]);
    };
    const rounds = [600, 0];
    const sleep = async (): Promise<boolean> => {
      await invalidate(rounds[0] ?? 0);
      return rounds.shift() !== undefined;
    };
    const { out, err } = await runCli(["watch", "--json", ...admin], { sleep });
    const ids = out.split("\n").map((line) => (JSON.parse(line) as { id: string }).id);
    expect(new Set(ids).size).toBe(500);
    expect(ids).toHaveLength(500);
    expect(err.replaceAll(/\n +/g, " ")).toBe(SOME_MISSING);
    const again = await runCli(["watch", "--once", "--json", ...admin]);
    expect({ count: again.out.split("\n").length, err: again.err }).toEqual({ count: 500, err: "" });
  });

  it("prints an event once although answers differ by milliseconds and reports of events are late", async () => {
    const at = (ms: number) => new Date(Date.UTC(2026, 0) + ms).toISOString();
    const event = (ms: number, count: number) => ({
      process: "p2",
      name: "load.failed",
      at: at(ms),
      firstAt: at(0),
      count,
    });
    const invalidation = (nth: number, ms: number) => invalidationOf(nth, at(ms));
    // Two servers behind one address: the second one has the last report of the first one's event.
    const answers = [
      { events: [event(2_000, 2)], items: [invalidation(2, 1_000), invalidation(1, 500)] },
      { events: [event(1_001, 1)], items: [invalidation(2, 1_001), invalidation(1, 499)] },
      { events: [event(2_001, 2)], items: [invalidation(3, 3_000), invalidation(2, 1_002), invalidation(1, 500)] },
      { events: [event(4_000, 3)], items: [] },
      { events: [event(4_000, 3)], items: [invalidation(3, 2_999), invalidation(2, 1_000), invalidation(1, 500)] },
    ];
    const { url, sleep } = await serveAnswers(answers);
    const { out } = await runCli(["watch", "--endpoint", url], { sleep });
    const invalidated = "invalidation hard: 1 key or tag by cache.invalidate [web-2, process 7]";
    expect(out.replaceAll(/\n +/g, " ").split("\n")).toEqual([
      `${at(500)} ${invalidated}`,
      `${at(1_000)} ${invalidated}`,
      `${at(2_000)} load.failed (2 times) [web-2, process 7]`,
      `${at(3_000)} ${invalidated}`,
      `${at(4_000)} load.failed (3 times) [web-2, process 7]`,
    ]);
  });

  it("goes on without the history, or without the server, and reports that once", async () => {
    const { isAway, url } = await startFlakyServer();
    let waits = 0;
    const sleep = async (): Promise<boolean> => {
      isAway.now = waits === 1 || waits === 2;
      return waits++ < 4;
    };
    const { code, out, err } = await runCli(["watch", "--endpoint", url], { sleep });
    expect({ code, out }).toEqual({ code: 0, out: "2026-01-01T00:00:00.000Z store.failed read [p1]" });
    const isMissing = "Note: `invalidations` is missing: the store did not reply";
    expect(err.replaceAll(/\n +/g, " ").split("\n")).toEqual([
      isMissing,
      expect.stringContaining("(HTTP 503)"),
      isMissing,
    ]);
    isAway.now = true;
    expect((await runCli(["watch", "--endpoint", url], { sleep })).code).toBe(2);
  });

  it("shows the events and the invalidations of a server", async () => {
    const { admin, cache } = await startServer();
    await cache.invalidateTags(["Movie:7"]);
    const failing = cache.loader({
      name: "Failing",
      maxAge: 60,
      batch: () => Promise.reject(new Error("the source is away")),
    });
    await failing({ isAdmin: false })
      .load(1)
      .catch(() => undefined);
    const { code, out } = await runCli(["watch", "--once", ...admin]);
    expect(code).toBe(0);
    expect(out.replaceAll(/\n +/g, " ")).toMatch(/load\.failed Failing/);
    expect(out.replaceAll(/\n +/g, " ")).toMatch(/invalidation hard: \d keys and tags by cache\.invalidateTags \[/);
    expectReadable(out);
  });
});

describe("the program", () => {
  it("prints its version", async () => {
    const { version } = JSON.parse(read("package.json")) as { version: string };
    expect(await runCli(["--version"])).toEqual({ code: 0, out: version, err: "" });
  });

  it("prints to its streams, and ends without an error on SIGINT", async () => {
    const { url, cache } = await startServer();
    await cache.invalidateTags(["Movie:7"]);
    const program = spawn(process.execPath, [await compiledPath("src/tools/cli/bin.ts"), "watch"], {
      cwd: ROOT,
      env: { ...process.env, GRAPHQL_CACHED_ENDPOINT: url, GRAPHQL_CACHED_HEADERS: "x-admin: yes" },
    });
    let [out, err] = ["", ""];
    program.stderr.on("data", (chunk) => {
      err += chunk;
    });
    program.stdout.on("data", (chunk) => {
      if (out === "") program.kill("SIGINT");
      out += chunk;
    });
    const [code] = (await once(program, "close")) as [number];
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("cache.invalidateTags");
  }, 60_000);
});

describe("a server that cannot be asked", () => {
  const commands = [["top"], ["entry", "Query.movie"], ["invalidate", "--all"], ["mode"], ["mode", "off"], ["watch"]];
  const failures = async (options: readonly string[]): Promise<string[]> => {
    const messages: string[] = [];
    for (const command of commands) {
      const { code, out, err } = await runCli([...command, ...options]);
      expect({ command, code, out }).toEqual({ command, code: 2, out: "" });
      expectReadable(
        err
          .split("\n")
          .filter((line) => !line.includes("http"))
          .join("\n"),
      );
      messages.push(err.replaceAll(/\n +/g, " "));
    }
    return messages;
  };

  it("that denies access is named with the `allow` that did", async () => {
    const { url } = await startServer();
    for (const message of await failures(["--endpoint", url]))
      expect(message).toMatch(
        /denied: `allow` of (inspection|invalidation|control)Resolvers does not admit this caller; pass credentials/,
      );
  });

  it("without the inspection is named as such", async () => {
    const url = await serveSchema(makeExecutableSchema({ typeDefs: "type Query { a: Int }" }));
    for (const message of await failures(["--endpoint", url]))
      expect(message).toMatch(
        /this server has no (inspection of graphql-cached; add inspectionTypeDefs|mutation `cache\w+`)/,
      );
  });

  it("that answers with a page or with nothing is named as no GraphQL endpoint", async () => {
    const page = await serve((_, response) =>
      response.setHeader("content-type", "text/html").end("<html>\u001b[31m</html>"),
    );
    for (const message of await failures(["--endpoint", page]))
      expect(message).toContain(
        "expected the answer of a GraphQL server, got text/html (HTTP 200); is this the URL of the GraphQL endpoint?",
      );
    const login = await serve((_, response) => response.writeHead(401).end());
    for (const message of await failures(["--endpoint", login]))
      expect(message).toContain("the server denies access; pass the credentials");
    const json = await serve((_, response) => response.setHeader("content-type", "application/json").end("[]"));
    for (const message of await failures(["--endpoint", json]))
      expect(message).toContain("got application/json (HTTP 200)");
    const broken = await serve((_, response) => response.setHeader("content-type", "application/json").end('{"data":'));
    for (const message of await failures(["--endpoint", broken]))
      expect(message).toContain("got invalid JSON (HTTP 200)");
    const mute = await serve((_, response) =>
      response.setHeader("content-type", "application/json").end('{"errors":[{}]}'),
    );
    for (const message of await failures(["--endpoint", mute])) expect(message).toContain("an error without a message");
    const empty = await serve((_, response) =>
      response.setHeader("content-type", "application/json").end('{"data":{"cacheInspection":{}}}'),
    );
    for (const message of await failures(["--endpoint", empty]))
      expect(message).toMatch(/expected (`\w+`(, )?)+ in the answer, got none; is this the URL of a GraphQL server\?/);
  });

  it("that does not exist, or does not answer in time, is named as such", async () => {
    const port = await listen(createServer());
    await closing.pop()?.();
    for (const message of await failures(["--endpoint", `http://127.0.0.1:${port}/`]))
      expect(message).toContain("nothing listens there (ECONNREFUSED); is the server running?");
    const silent = await serve(() => undefined);
    for (const message of await failures(["--endpoint", silent, "--timeout", "20"]))
      expect(message).toContain("no answer within 20 ms");
  });

  it("whose certificate is not trusted is named with the remedy", async () => {
    const folder = mkdtempSync(join(tmpdir(), "graphql-cached-tls-"));
    closing.push(() => rmSync(folder, { recursive: true }));
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const subject = ["-subj", "/CN=localhost", "-days", "2"];
    execFileSync(
      "openssl",
      ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, ...subject],
      { stdio: "ignore" },
    );
    const port = await listen(
      createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }) as unknown as Server,
    );
    const { code, err } = await runCli(["top", "--endpoint", `https://127.0.0.1:${port}/graphql`]);
    expect(code).toBe(2);
    expect(err.replaceAll(/\n +/g, " ")).toMatch(/its certificate is not trusted \(\w+\); set NODE_EXTRA_CA_CERTS/);
  });

  it.each([
    [[], "expected a server to ask, got none; pass --endpoint"],
    [["--endpoint", "localhost"], "--endpoint: expected a URL such as"],
    [
      ["--endpoint", "http://a", "--header", "sec\u0000ret"],
      "header 1: expected the form 'name: value', got something else",
    ],
    [["--endpoint", "http://a", "--timeout", "soon"], "--timeout: expected a number of milliseconds"],
    [
      ["--endpoint", "http://a", "--timeout", "99999999999"],
      "--timeout: expected a number of milliseconds from 1 to 3600000, got 99999999999",
    ],
    [["--endpoint", "http://a", "--redis", "redis://a"], "expected either --endpoint or --redis, got both"],
    [["--redis", "redis://localhost"], "expected the `prefix` option of the caches on this Redis server"],
    [["--redis", "localhost", "--prefix", "shop"], "--redis: expected a URL such as redis://localhost:6379"],
    [
      ["--redis", "redis://localhost/notadb", "--prefix", "shop"],
      "--redis: expected the number of a database after the /, such as redis://localhost:6379/1",
    ],
    [["--endpoint", "http://anna:secret@:99999/"], "--endpoint: expected a URL such as http://localhost:4000/graphql"],
    [
      ["--redis", "redis://127.0.0.1:1", "--prefix", "shop"],
      "Redis at 127.0.0.1:1: cannot be used: connect ECONNREFUSED",
    ],
  ])("is refused or named for %j", async (options, message) => {
    for (const failure of await failures(options)) expect(failure).toContain(message);
  });

  it("is sent the name and password of its URL, which are never printed", async () => {
    const seen: (string | undefined)[] = [];
    const denying = await serve((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(401).end();
    });
    const { err } = await runCli(["top", "--endpoint", denying.replace("http://", "http://anna:s%40cret@")]);
    expect(seen).toEqual([`Basic ${Buffer.from("anna:s@cret").toString("base64")}`]);
    for (const text of [err, ...(await failures(["--endpoint", "ftp://anna:s%40cret@localhost/"]))])
      expect(text).not.toContain("cret");
  });

  it("takes the endpoint and secret headers from the environment", async () => {
    const { url } = await startServer();
    const env = { GRAPHQL_CACHED_ENDPOINT: url, GRAPHQL_CACHED_HEADERS: "x-other: 1\nx-admin: yes\n" };
    expect((await runCli(["mode"], { env })).code).toBe(0);
  });
});

describe("a Redis server instead of an endpoint", async () => {
  const address = await sharedServer("redisStandalone");
  const url = `redis://${address.host}:${address.port}`;

  async function startOnRedis() {
    const client = new Redis({ ...address });
    closing.push(() => client.disconnect());
    const prefix = `cli-${process.pid}-${Math.random().toString(36).slice(2)}`;
    const server = await startServer({ store: redisStore({ client }), prefix, storage: { storeTimeoutMs: 5_000 } });
    return { ...server, redis: ["--redis", url, "--prefix", prefix] };
  }

  it("sets and shows modes", async () => {
    const { redis, ask } = await startOnRedis();
    await ask("{ movie(id: 7) }");
    expect((await runCli(["mode", "Query.movie", "off", ...redis])).out).toMatch(/^Query\.movie +off/);
    expect((await runCli(["mode", ...redis])).out).toMatch(/^Query\.movie +off/);
    expect((await runCli(["mode", "Query.none", "off", ...redis])).err).toContain("Query.none");
  });

  it.each([
    [["--tag", "Movie:7"], "film 7, load 3", "film 8, load 2"],
    [["Query.movie", "--all"], "film 7, load 3", "film 8, load 4"],
    [["--all"], "film 7, load 3", "film 8, load 4"],
  ])("invalidates %j", async (argv, seven, eight) => {
    const { redis, ask } = await startOnRedis();
    const both = "{ seven: movie(id: 7) eight: movie(id: 8) }";
    await ask(both);
    // A value that is still being stored has no entry yet.
    await ask(both);
    expect(await runCli(["invalidate", ...argv, ...redis])).toMatchObject({ code: 0, err: "" });
    expect(await ask(both)).toEqual({ seven, eight });
  });

  it("takes fields and loaders of other releases by the names that those have left, and refuses names that no release has", async () => {
    const { redis, ask } = await startOnRedis();
    await ask("{ movie(id: 7) }");
    const client = new Redis({ ...address });
    closing.push(() => client.disconnect());
    const prefix = redis.at(-1) as string;
    const other = createCache({ store: redisStore({ client }), prefix, storage: { storeTimeoutMs: 5_000 } });
    let loads = 0;
    const later = other.loader({
      name: "Later",
      maxAge: 60,
      batch: async (ids: readonly number[]) => ids.map(() => ++loads),
    });
    await later({}).load(1);
    await expect
      .poll(async () => (await later({}).load(1), (await client.get(`${prefix}:#settings`)) ?? ""))
      .toContain("Later");
    const before = loads;
    await other.settled();
    expect(await later({}).load(1)).toBe(before);
    expect(await runCli(["invalidate", "Later", "--all", ...redis])).toMatchObject({ code: 0, err: "" });
    expect(await later({}).load(1)).toBe(before + 1);
    const { code, err } = await runCli(["invalidate", "Latter", "--all", ...redis]);
    expect([code, err.replaceAll(/\n +/g, " ")]).toEqual([
      2,
      expect.stringMatching(
        /expected a field or loader that has entries under the prefix .*, got "?Latter"?; known are Later, /,
      ),
    ]);
    expect((await runCli(["mode", "Later", "off", ...redis])).out).toMatch(/^Later +off/);
    await later({}).load(1);
    expect(await later({}).load(1)).toBe(before + 3);
    await other.close();
  });

  it("is asked in the database that its URL names, and in no other", async () => {
    const { redis } = await startOnRedis();
    const [, , , prefix] = redis as [string, string, string, string];
    const { code, out, err } = await runCli(["invalidate", "--all", "--redis", `${url}/9999`, "--prefix", prefix]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain("cannot be used: ERR DB index is out of");
  });

  it("shows what processes have reported", async () => {
    const { redis, ask, cache } = await startOnRedis();
    await ask("{ movie(id: 7) }");
    await cache.close();
    const { code, out } = await runCli(["top", "--window", "start", ...redis]);
    expect(code).toBe(0);
    expect(out).toMatch(/^Query\.movie +1 +0% +1 +0/m);
    // The program is no process of the fleet that anybody wants to see.
    expect(out).toMatch(/^PROCESSES +PID VERSION\n1 has ended in the last 70 minutes\.$/m);
    const other = await runCli(["top", "--redis", url, "--prefix", `none-${process.pid}`]);
    expect(other.out).toContain("No process has reported; is it the prefix of your caches?");
  });

  it("lists fields and loaders without their policies", async () => {
    const { redis, ask, cache } = await startOnRedis();
    await ask("{ movie(id: 7) }");
    await cache.close();
    const { code, out } = await runCli(["fields", ...redis]);
    expect(code).toBe(0);
    expect(out).toMatch(/^Query\.movie\n {2}policy +known to other processes only$/m);
  });

  it("says what needs the schema", async () => {
    const { redis } = await startOnRedis();
    expect((await runCli(["entry", "Query.movie", ...redis])).err.replaceAll(/\n +/g, " ")).toContain(
      "does not know the schema, with which keys are made; pass --endpoint",
    );
    expect(
      (await runCli(["invalidate", "Query.movie", "--args", "{}", ...redis])).err.replaceAll(/\n +/g, " "),
    ).toContain("pass --endpoint, or --all for all entries of the coordinate");
    expect((await runCli(["invalidate", "Query.none", "--all", ...redis])).err.replaceAll(/\n +/g, " ")).toContain(
      "expected a field or loader that has entries under the prefix",
    );
  });
});
