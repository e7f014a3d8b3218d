import { describe, expect, it } from "vitest";
import { read } from "./source.js";

/** Everything that is public. A widening shows here. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  "src/index.ts": [
    "BypassReason",
    "Cache",
    "CacheEvent",
    "CacheOptions",
    "CachedError",
    "CachedLoader",
    "Clock",
    "Codec",
    "EntryTarget",
    "ErrorCode",
    "InspectionOptions",
    "InspectionResolvers",
    "Listener",
    "LoaderOptions",
    "Logger",
    "MemoryStoreOptions",
    "MutateTarget",
    "PolicySettings",
    "Random",
    "ReadOutcome",
    "Store",
    "Unstorable",
    "applyCached",
    "cachedTypeDefs",
    "createCache",
    "inspectionResolvers",
    "inspectionTypeDefs",
    "memoryStore",
  ],
  "src/redis/index.ts": ["RedisClient", "RedisPipeline", "RedisStoreOptions", "redisStore"],
  "src/apollo/index.ts": ["CachedPluginOptions", "cachedPlugin"],
  "src/testing/index.ts": [
    "Chaos",
    "ConformanceCase",
    "ConformanceSubject",
    "FakeClock",
    "Gate",
    "chaosStore",
    "gate",
    "settle",
    "storeConformance",
  ],
};

function namesOf(door: string): string[] {
  const text = read(door);
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, names]) =>
    (names as string).split(","),
  );
  const declared = [...text.matchAll(/^export const (\w+)/gm)].map(([, name]) => name as string);
  return [...listed.map((name) => name.trim().replace(/^type /, "")).filter((name) => name !== ""), ...declared].sort();
}

describe("the doors", () => {
  for (const [door, names] of Object.entries(DOORS))
    it(`of ${door} let out exactly the listed names`, () => {
      expect(namesOf(door)).toEqual([...names].sort());
    });

  it("are the package's exports", () => {
    const { exports } = JSON.parse(read("package.json")) as { exports: Record<string, unknown> };
    expect(Object.keys(exports)).toEqual([
      ".",
      "./redis",
      "./apollo",
      "./testing",
      "./schema/cached.graphql",
      "./schema/inspection.graphql",
      "./package.json",
    ]);
  });
});
