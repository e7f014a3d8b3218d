import { describe, expect, it } from "vitest";
import { filesIn, importsOf, roomOf } from "./source.js";

/** Who may import whom: a room imports only rooms of a lower rank, or itself. */
const RANKS: Readonly<Record<string, number>> = {
  "errors.ts": 0,
  "clock.ts": 0,
  keys: 1,
  codec: 1,
  policy: 1,
  telemetry: 1,
  generated: 1,
  store: 2,
  tier: 3,
  loader: 4,
  "parts.ts": 5,
  directive: 6,
  inspection: 7,
  "options.ts": 7,
  "assembly.ts": 8,
  "cache.ts": 9,
  "index.ts": 10,
};
/** Edges know the inside up to a rank; nothing knows them. */
const EDGES: Readonly<Record<string, number>> = {
  redis: 2,
  memcached: 2,
  apollo: 9,
  yoga: 9,
  mercurius: 9,
  msgpackr: 1,
  testing: 2,
};
/** Who may know less than his rank says. */
const CEILINGS: Readonly<Record<string, number>> = { "options.ts": 3 };
/** The only readers of what codegen made. */
const GENERATED_READERS = ["directive", "inspection", "index.ts", ...Object.keys(EDGES)];

/** The rooms that may know a package. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  dataloader: ["loader"],
  cockatiel: ["tier"],
  "lru-cache": ["keys", "loader", "store", "tier"],
  graphql: ["directive", "inspection", "generated"],
  "@graphql-tools/utils": ["directive"],
  "cluster-key-slot": ["redis"],
  "@apollo/server": ["apollo"],
  msgpackr: ["msgpackr"],
};
const TYPES_ONLY = ["@apollo/server"];

const files = filesIn("src");

describe("imports", () => {
  it("go down in rank, never across and never up", () => {
    for (const file of files)
      for (const { from, isOwn } of importsOf(file)) {
        const [here, there] = [roomOf(file), roomOf(from)];
        if (!isOwn || here === there) continue;
        expect(there in EDGES, `${file} imports the edge ${from}`).toBe(false);
        const ceiling = EDGES[here] ?? CEILINGS[here];
        const limit = ceiling === undefined ? RANKS[here] : ceiling + 1;
        expect(limit, `${file} is in a room without a rank`).toBeDefined();
        expect(RANKS[there], `${file} imports ${from}`).toBeLessThan(limit as number);
      }
  });

  it("of the generated file stay with those who speak GraphQL", () => {
    for (const file of files)
      if (importsOf(file).some(({ from }) => from.startsWith("src/generated/")))
        expect(GENERATED_READERS, `${file} imports the generated file`).toContain(roomOf(file));
  });

  it("make no circle, types included", () => {
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
      expect(path, `circle: ${[...path, file].join(" → ")}`).not.toContain(file);
      if (done.has(file)) return;
      for (const next of graph.get(file) ?? []) visit(next, [...path, file]);
      done.add(file);
    };
    for (const file of files) visit(file, []);
  });

  it("take packages only where they belong", () => {
    for (const file of files)
      for (const { from, isOwn, isTypeOnly } of importsOf(file)) {
        if (isOwn || from.startsWith("node:")) continue;
        expect(PACKAGES[from] ?? [], `${file} imports ${from}`).toContain(roomOf(file));
        if (TYPES_ONLY.includes(from)) expect(isTypeOnly, `${file} imports ${from} at run time`).toBe(true);
      }
  });

  it("name files, and doors are the only files named index", () => {
    for (const file of files)
      for (const { from, written, isOwn } of importsOf(file))
        if (isOwn) {
          expect(written, file).toMatch(/\.js$/);
          expect(files, `${file} imports ${written}`).toContain(from);
        }
    const doors = files.filter((file) => file.endsWith("/index.ts"));
    expect(doors).toEqual([
      "src/apollo/index.ts",
      "src/index.ts",
      "src/memcached/index.ts",
      "src/mercurius/index.ts",
      "src/msgpackr/index.ts",
      "src/redis/index.ts",
      "src/testing/index.ts",
      "src/yoga/index.ts",
    ]);
  });
});
