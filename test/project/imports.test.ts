import { describe, expect, it } from "vitest";
import { filesIn, importsOf, moduleOf, roomOf } from "./source.js";

/** Modules by rank: a module imports only modules of a lower rank, or itself. */
const RANKS: Readonly<Record<string, number>> = {
  "built-in.ts": 0,
  "errors.ts": 1,
  "clock.ts": 1,
  "deferred.ts": 0,
  "graphql-version.ts": 1.1,
  "known-resolvers.ts": 1,
  "multimap.ts": 0,
  "option-names.ts": 1.5,
  "option-owners.ts": 0,
  "state-of.ts": 1,
  "version.ts": 0,
  keys: 2,
  codec: 2,
  policy: 2,
  telemetry: 2,
  generated: 2,
  store: 3,
  memory: 3.5,
  tier: 4,
  loader: 5,
  "schema-rules.ts": 5,
  "parts.ts": 6,
  directive: 7,
  inspection: 8,
  responses: 8,
  edge: 8.5,
  adapter: 8.7,
  "options.ts": 8,
  "option-checks.ts": 8,
  "assembly.ts": 9,
  "cache.ts": 10,
  "extension.ts": 10.5,
  "index.ts": 11,
};
/** Adapters import modules up to a rank; nothing imports an adapter. */
const ADAPTERS: Readonly<Record<string, number>> = {
  redis: 3,
  apollo: 10,
  yoga: 10,
  mercurius: 10,
  cli: 10,
};
/** Modules that may import less than their rank allows. */
const CEILINGS: Readonly<Record<string, number>> = { "options.ts": 4, "option-checks.ts": 4 };
/** The modules that import the generated file. */
const GENERATED_READERS = ["directive", "inspection", "index.ts", ...Object.keys(ADAPTERS)];

/** The modules that may import a package. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  dataloader: ["loader"],
  "lru-cache": ["keys", "loader", "memory", "responses", "store", "tier"],
  graphql: [
    "adapter",
    "graphql-version.ts",
    "known-resolvers.ts",
    "schema-rules.ts",
    "directive",
    "edge",
    "inspection",
    "responses",
    "cache.ts",
    "generated",
    "yoga",
    "mercurius",
    "apollo",
    "cli",
  ],
  "@apollo/server": ["apollo"],
};
const TYPES_ONLY = ["@apollo/server"];

/** The rooms that a file may import: what is not in one's list could be deleted without touching it. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: ["core"],
  stores: ["core", "stores"],
  servers: ["core", "servers", "tools"],
  tools: ["core", "tools"],
};

/** The folders of `src/core/tier`: each imports only from those before it, or itself. */
const TIER = ["tick", "shared", "entry", "request", "memory", "source", "lease", "invalidation", "read"];
const tierFolderOf = (file: string): string | undefined => /^src\/core\/tier\/([^/]+)\//.exec(file)?.[1];

const files = filesIn("src");

describe("imports", () => {
  it("go down in rank only", () => {
    for (const file of files)
      for (const { from, isOwn } of importsOf(file)) {
        const [here, there] = [moduleOf(file), moduleOf(from)];
        if (!isOwn || here === there) continue;
        if (here === "option-checks.ts" && there === "options.ts") continue;
        expect(there in ADAPTERS, `${file} imports the adapter ${from}`).toBe(false);
        const ceiling = ADAPTERS[here] ?? CEILINGS[here];
        const limit = ceiling === undefined ? RANKS[here] : ceiling + 1;
        expect(limit, `${file} has no rank`).toBeDefined();
        expect(RANKS[there], `${file} imports ${from}`).toBeLessThan(limit as number);
      }
  });

  it("leave the core without stores, servers and tools", () => {
    for (const file of files) {
      const room = roomOf(file);
      if (room === undefined) continue;
      for (const { from, isOwn } of importsOf(file)) {
        const there = roomOf(from);
        if (!isOwn || there === undefined) continue;
        expect(MAY_IMPORT[room], `${file} imports ${from}`).toContain(there);
      }
    }
  });

  it("of the folders of the tier go one way", () => {
    for (const file of files.filter((one) => one.startsWith("src/core/tier/")))
      for (const { from } of importsOf(file)) {
        const there = tierFolderOf(from);
        expect(TIER, `${file} is in no folder`).toContain(tierFolderOf(file));
        if (there !== undefined)
          expect(TIER.indexOf(there), `${file} imports ${from}`).toBeLessThanOrEqual(
            TIER.indexOf(tierFolderOf(file) as string),
          );
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
