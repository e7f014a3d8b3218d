import { describe, expect, it } from "vitest";
import { filesIn, importsOf, moduleOf } from "./source.js";

/** Modules by rank: a module imports only modules of a lower rank, or itself. */
const RANKS: Readonly<Record<string, number>> = {
  "errors.ts": 0,
  "clock.ts": 0,
  "deferred.ts": 0,
  "async-context.ts": 0,
  "graphql-version.ts": 0,
  "version.ts": 0,
  keys: 1,
  codec: 1,
  policy: 1,
  telemetry: 1,
  generated: 1,
  store: 2,
  fleet: 3,
  tier: 3,
  loader: 4,
  "schema-rules.ts": 4,
  "parts.ts": 5,
  directive: 6,
  inspection: 7,
  "options.ts": 7,
  "assembly.ts": 8,
  "cache.ts": 9,
  "index.ts": 10,
};
/** Adapters import modules up to a rank; nothing but the command line imports an adapter. */
const ADAPTERS: Readonly<Record<string, number>> = {
  redis: 2,
  memcached: 2,
  apollo: 9,
  yoga: 9,
  mercurius: 9,
  msgpackr: 1,
  opentelemetry: 9,
  postgres: 9,
  prometheus: 9,
  testing: 9,
  types: 1,
  cli: 9,
};
/** Modules that may import less than their rank allows. */
const CEILINGS: Readonly<Record<string, number>> = { "options.ts": 3 };
/** The modules that import the generated file. */
const GENERATED_READERS = ["directive", "inspection", "index.ts", ...Object.keys(ADAPTERS)];

/** The modules that may import a package. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  dataloader: ["loader"],
  "lru-cache": ["keys", "loader", "store", "tier"],
  graphql: [
    "graphql-version.ts",
    "schema-rules.ts",
    "directive",
    "inspection",
    "generated",
    "yoga",
    "mercurius",
    "testing",
    "cli",
  ],
  "@apollo/server": ["apollo"],
  msgpackr: ["msgpackr"],
  "@opentelemetry/api": ["opentelemetry"],
  "prom-client": ["prometheus"],
  ioredis: ["cli"],
};
const TYPES_ONLY = ["@apollo/server"];

const files = filesIn("src");

describe("imports", () => {
  it("go down in rank only", () => {
    for (const file of files)
      for (const { from, isOwn } of importsOf(file)) {
        const [here, there] = [moduleOf(file), moduleOf(from)];
        if (!isOwn || here === there) continue;
        if (here === "cli" && there in ADAPTERS) continue;
        expect(there in ADAPTERS, `${file} imports the adapter ${from}`).toBe(false);
        const ceiling = ADAPTERS[here] ?? CEILINGS[here];
        const limit = ceiling === undefined ? RANKS[here] : ceiling + 1;
        expect(limit, `${file} has no rank`).toBeDefined();
        expect(RANKS[there], `${file} imports ${from}`).toBeLessThan(limit as number);
      }
  });

  it("of the generated file stay within the GraphQL modules", () => {
    for (const file of files)
      if (importsOf(file).some(({ from }) => from.startsWith("src/generated/")))
        expect(GENERATED_READERS, `${file} imports the generated file`).toContain(moduleOf(file));
  });

  it("have no cycles, type imports included", () => {
    const graph = new Map(
      files.map((file) => [
        file,
        importsOf(file)
          .filter(({ isOwn }) => isOwn)
          .map(({ from }) => from),
      ]),
    );
    const done = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      expect(path, `cycle: ${[...path, file].join(" → ")}`).not.toContain(file);
      if (done.has(file)) return;
      for (const next of graph.get(file) ?? []) visit(next, [...path, file]);
      done.add(file);
    };
    for (const file of files) visit(file, []);
  });

  it("use packages only in the modules that may", () => {
    for (const file of files)
      for (const { from, isOwn, isTypeOnly } of importsOf(file)) {
        if (isOwn || from.startsWith("node:")) continue;
        expect(PACKAGES[from] ?? [], `${file} imports ${from}`).toContain(moduleOf(file));
        if (TYPES_ONLY.includes(from)) expect(isTypeOnly, `${file} imports ${from} at run time`).toBe(true);
      }
  });

  it("name existing files with their extension", () => {
    for (const file of files)
      for (const { from, written, isOwn } of importsOf(file))
        if (isOwn) {
          expect(written, file).toMatch(/\.js$/);
          expect(files, `${file} imports ${written}`).toContain(from);
        }
  });
});
