import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSchema, graphql } from "graphql";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RULES } from "../../src/tools/cli/lint.js";
import { read, tableUnder } from "../project/source.js";
import { runCli } from "../support/cli-terminal.js";
import { codeBlocks } from "../support/markdown.js";
import { compiledPath } from "../support/programs.js";

const PAGE = "docs/command-line.md";
const blocks = codeBlocks(read(PAGE));
const folder = mkdtempSync(join(tmpdir(), "graphql-cached-docs-"));

/** The part of the inspection that the examples show, since real servers answer with times and process ids. */
const SDL = `
  type Query { cacheInspection: Inspection! }
  type Mutation {
    cacheInvalidate(coordinate: String!, args: CacheKeyPart, soft: Boolean!): Boolean!
    cacheInvalidateAll(coordinate: String!, soft: Boolean!): Boolean!
    cacheInvalidateTags(tags: [String!]!, soft: Boolean!): Boolean!
    cacheClear(soft: Boolean!): Boolean!
    cacheSetMode(mode: CacheMode!, coordinate: String): [Mode!]!
  }
  enum CacheWindow { SINCE_START TEN_MINUTES }
  enum CacheMode { OFF OBSERVE ON }
  scalar CacheKeyPart
  scalar CacheArguments
  type Inspection {
    fields(window: CacheWindow! = SINCE_START): [Field!]!
    advice(maxStaleRatio: Float!): [Advice!]!
    hotKeys(window: CacheWindow!, first: Int!): HotKeys!
    modes: [Mode!]!
    processes: [Process!]!
    entry(coordinate: String!, args: CacheArguments): Entry
    events(first: Int!): [Event!]!
    invalidations(first: Int!): Invalidations!
  }
  type Field { coordinate: String! stats: Stats! maxAge: Float scope: String policy: Policy mode: CacheMode! observed: Observation }
  type Advice {
    coordinate: String! kind: String! reason: String! diff: String comparisons: Float! changesPerHour: Float
    maxChangesPerHour: Float current: Lifetimes! proposed: Lifetimes saving: Saving
  }
  type Lifetimes { maxAge: Float! staleWhileRevalidate: Float! loadsPerSecond: Float! staleRatio: Float maxStaleRatio: Float }
  type Saving { loadsPerSecond: Float! loadMsPerSecond: Float! }
  type Policy {
    maxAge: Float! maxAgeLimit: Float staleWhileRevalidate: Float! refresh: String! neverExpires: Boolean! staleIfError: Float!
    negativeMaxAge: Float! jitter: Float! earlyRefresh: Float! scope: String! readOnly: Boolean! key: [String!] tags: [String!]
    profile: String version: String followsHints: Boolean!
  }
  type Observation {
    reads: Float! hit: Float! stale: Float! miss: Float! bypassed: Float! hitRatio: Float! compared: Float! different: Float!
    comparedStale: Float! differentStale: Float!
  }
  type Stats { reads: Float! hit: Float! stale: Float! staleIfError: Float! loads: Float! failedLoads: Float! hitRatio: Float loadMs: Durations! }
  type Durations { p90Ms: Float }
  type HotKeys { keys: [HotKey!]! maxError: Float! }
  type HotKey { coordinate: String! digest: String! reads: Float! args: CacheArguments source: CacheArguments id: CacheArguments }
  type Mode { coordinate: String mode: CacheMode! setAt: String! setBy: String }
  type Process { id: ID! isThis: Boolean! host: String! pid: Int! version: String! isAlive: Boolean! missing: String }
  type Entry {
    state: String! negative: Boolean! ageMs: Float! freshForMs: Float! loadMs: Float! valueBytes: Int! leaseForMs: Float
    outdated: Boolean! stale: Boolean! use: String! explanation: String! servableForMs: Float lease: Lease tags: Tags invalidation: Invalidation
  }
  type Lease { endsInMs: Float! process: Process }
  type Tags { static: [String!]! resultCount: Int! }
  type Event {
    process: ID! name: String! at: String! firstAt: String! count: Float! coordinate: String digest: String node: String
    detail: String error: String
  }
  type Invalidations { items: [Invalidation!]! }
  type Invalidation {
    id: ID! at: String! kind: String! via: String! mutation: String isConfirmed: Boolean! isClear: Boolean! coordinates: [String!]!
    nameCount: Int! process: Process!
  }`;
const webs = ["web-1", "web-2"].map((host) => ({
  id: host,
  isThis: false,
  host,
  pid: 4711,
  version: "0.1.0",
  isAlive: true,
}));
const stats = (reads: number, hitRatio: number, loads: number, p90Ms: number) => ({
  reads,
  hit: reads * hitRatio,
  stale: 0,
  staleIfError: 0,
  loads,
  failedLoads: 0,
  hitRatio,
  loadMs: { p90Ms },
});
const invalidation = {
  id: "web-2-1",
  at: "2026-11-22T12:04:10.120Z",
  kind: "HARD",
  via: "@invalidates",
  mutation: "Mutation.rate",
  isConfirmed: true,
  isClear: false,
  coordinates: [],
  nameCount: 2,
  process: webs[1],
};
const policy = (settings: object) => ({
  ...{
    maxAge: 300,
    staleWhileRevalidate: 0,
    refresh: "BACKGROUND",
    neverExpires: false,
    staleIfError: 0,
    negativeMaxAge: 10,
  },
  ...{ jitter: 0.1, earlyRefresh: 1, scope: "PUBLIC", readOnly: false, key: null, tags: null, followsHints: false },
  ...settings,
});
const observed = {
  ...{ reads: 1_204, hit: 1_097, stale: 0, miss: 107, bypassed: 0, hitRatio: 0.911 },
  ...{ compared: 1_097, different: 3, comparedStale: 0, differentStale: 0 },
};
const lifetimes = (maxAge: number, loadsPerSecond: number, staleRatio: number, maxStaleRatio: number) => ({
  ...{ maxAge, staleWhileRevalidate: 0, loadsPerSecond, staleRatio, maxStaleRatio },
});
const advice = [
  {
    coordinate: "Query.movie",
    kind: "SHORTER",
    reason:
      "It changes about every 28 min, and hardly more often than every 24 min (180 changes seen). 8.2 % of the reads are outdated.",
    diff: "  type Query {\n-   movie @cached(maxAge: 300)\n+   movie @cached(maxAge: 120)",
    comparisons: 9_120,
    current: lifetimes(300, 5.2, 0.082, 0.094),
    proposed: lifetimes(120, 12.1, 0.034, 0.04),
    saving: { loadsPerSecond: -6.9, loadMsPerSecond: -290 },
  },
  {
    coordinate: "Movie.stars",
    kind: "LONGER",
    reason: "No change was seen in 46 h of watching its values, so it hardly changes more often than every 15 h.",
    diff: "  type Movie {\n-   stars @cached(maxAge: 300)\n+   stars @cached(maxAge: 3600)",
    comparisons: 4_232,
    current: lifetimes(300, 0.0299, 0, 0.003),
    proposed: lifetimes(3_600, 0.0028, 0, 0.032),
    saving: { loadsPerSecond: 0.0271, loadMsPerSecond: 49.9 },
  },
  {
    coordinate: "Product",
    kind: "NONE",
    reason: "Too few reads: 100 say something, and there were 31.",
    comparisons: 12,
    current: lifetimes(60, 0.01, 0, 0),
  },
];
const modes: object[] = [];
const root = {
  cacheInspection: {
    fields: [
      {
        coordinate: "Query.movie",
        stats: stats(120_400, 0.974, 3_130, 42),
        policy: policy({ staleWhileRevalidate: 600, key: ["$args"], tags: ["Movie:{$args.id}"] }),
        mode: "OBSERVE",
        observed,
      },
      {
        coordinate: "Movie.stars",
        stats: stats(61_022, 0.999, 10, 1_840),
        policy: policy({ key: ["$args", "$source.id"], tags: ["Movie:{$source.id}"] }),
        mode: "ON",
      },
      { coordinate: "Product", stats: stats(8_231, 0.61, 3_206, 7.4), policy: policy({ maxAge: 60 }), mode: "ON" },
    ],
    advice,
    hotKeys: {
      keys: [
        { coordinate: "Query.movie", digest: "f3c1", reads: 20_114, args: { id: "7" } },
        { coordinate: "Movie.stars", digest: "77ab", reads: 9_530, args: {}, source: { id: "7" } },
        { coordinate: "Product", digest: "9a0db7e2c4", reads: 1_902 },
      ],
      maxError: 12,
    },
    modes: () => modes,
    processes: webs,
    entry: {
      state: "VALUE",
      negative: false,
      ageMs: 41_200,
      freshForMs: 258_800,
      loadMs: 38,
      valueBytes: 412,
      leaseForMs: null,
      outdated: true,
      stale: false,
      use: "NONE",
      explanation:
        "One of its tags was invalidated after its load began. By @invalidates of Mutation.rate, in process 4711 on web-2 at 2026-11-22T12:04:10.120Z.",
      tags: { static: ["Movie:7"], resultCount: 0 },
      invalidation,
    },
    events: [
      {
        process: "web-1",
        name: "store.failed",
        at: "2026-11-22T12:04:12.004Z",
        firstAt: "2026-11-22T12:04:11.300Z",
        count: 14,
        node: "10.0.0.5:6379",
        detail: "read",
        error: "no reply within 100 ms",
      },
    ],
    invalidations: { items: [invalidation] },
  },
  cacheInvalidate: true,
  cacheInvalidateAll: true,
  cacheInvalidateTags: true,
  cacheClear: true,
  cacheSetMode: ({ mode, coordinate }: { mode: string; coordinate: string }) => {
    modes.push({ coordinate, mode, setAt: "2026-11-22T12:03:55.871Z", setBy: "cacheSetMode on web-1, process 4711" });
    return modes;
  },
};

let server: Server;
beforeAll(async () => {
  const schema = buildSchema(SDL);
  server = createServer(async (request, response) => {
    const { query, variables } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as {
      query: string;
      variables: Record<string, unknown>;
    };
    const answer = await graphql({ schema, source: query, variableValues: variables, rootValue: root });
    response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Splits a command as a shell does, as far as the page uses its syntax. */
const wordsOf = (command: string): string[] =>
  [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");

/** Asked for before any program blocks this process, so that the connection is still open. */
const program = await compiledPath("src/tools/cli/bin.ts");

describe(PAGE, () => {
  it("shows what check prints for the schema above it", async () => {
    const nth = blocks.findIndex(({ text }) => text.startsWith("npx graphql-cached check schema.graphql"));
    const [schema, , output] = blocks.slice(nth - 1);
    writeFileSync(join(folder, "schema.graphql"), schema?.text ?? "");
    const { stdout } = spawnSync(process.execPath, [program, "check", "schema.graphql"], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(stdout.trimEnd()).toBe(output?.text.trimEnd());
  }, 60_000);

  it("shows what check prints for the operations above it", async () => {
    const nth = blocks.findIndex(({ text }) => text.includes("--operations queries"));
    const [schema, operation, , output] = blocks.slice(nth - 2);
    const own = join(folder, "operations");
    mkdirSync(join(own, "queries"), { recursive: true });
    writeFileSync(join(own, "schema.graphql"), schema?.text ?? "");
    writeFileSync(join(own, "queries", "home.graphql"), operation?.text ?? "");
    const argv = ["check", "schema.graphql", "--operations", "queries"];
    const { stdout } = spawnSync(process.execPath, [program, ...argv], {
      cwd: own,
      encoding: "utf8",
    });
    expect(stdout.trimEnd()).toBe(output?.text.trimEnd());
  }, 60_000);

  it.each(["fields", "advise", "top", "entry", "invalidate", "mode", "watch"])(
    "shows what %s prints",
    async (command) => {
      const nth = blocks.findIndex(
        ({ language, text }) => language === "sh" && text.startsWith(`npx graphql-cached ${command}`),
      );
      const [program, output] = blocks.slice(nth);
      const { port } = server.address() as AddressInfo;
      const printed: string[] = [];
      for (const line of (program?.text ?? "").trim().split("\n")) {
        const argv = wordsOf(line).slice(2);
        const { code, out, err } = await runCli([...argv, "--endpoint", `http://127.0.0.1:${port}/graphql`]);
        expect({ code, err }, line).toEqual({ code: 0, err: "" });
        // The page names a server of the reader's.
        printed.push(out.replace(`http://127.0.0.1:${port}`, "http://localhost:4000"));
      }
      expect(printed.join("\n")).toBe(output?.text.trimEnd());
    },
  );

  it("lists the rules of check as --help does", () => {
    const rows = tableUnder("check: find mistakes in a schema", read(PAGE));
    expect(rows.map(([rule, what]) => [rule?.replaceAll("`", ""), what])).toEqual(Object.entries(RULES));
  });
});
