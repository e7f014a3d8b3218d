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
    "Content",
    "DirectiveNames",
    "EncryptionKey",
    "EncryptionOptions",
    "EntryTarget",
    "ErrorCode",
    "InspectionOptions",
    "InspectionResolvers",
    "InvalidateOptions",
    "Listener",
    "LoaderOptions",
    "Logger",
    "MemoryStoreOptions",
    "MutateTarget",
    "PolicySettings",
    "Random",
    "ReadOutcome",
    "RefreshJob",
    "RefreshQueue",
    "Store",
    "Unstorable",
    "ValueType",
    "ValueTypes",
    "applyCached",
    "cachedTypeDefs",
    "cachedTypeDefsAs",
    "createCache",
    "inspectionResolvers",
    "inspectionTypeDefs",
    "memoryStore",
  ],
  "src/redis/index.ts": [
    "BloomGuard",
    "BloomGuardOptions",
    "RedisClient",
    "RedisPipeline",
    "RedisStoreOptions",
    "ReplicaWait",
    "bloomGuard",
    "redisStore",
  ],
  "src/memcached/index.ts": ["MemcachedClient", "MemcachedStoreOptions", "memcachedStore"],
  "src/apollo/index.ts": [
    "CachedPluginOptions",
    "KeyValueCache",
    "KeyValueCacheOptions",
    "cachedPlugin",
    "keyValueCache",
  ],
  "src/yoga/index.ts": ["CachedYogaOptions", "CachedYogaPlugin", "useCached"],
  "src/mercurius/index.ts": ["CachedHooksOptions", "MercuriusApp", "cachedHooks"],
  "src/msgpackr/index.ts": ["msgpackrCodec"],
  "src/testing/index.ts": [
    "Chaos",
    "ConformanceCase",
    "ConformanceSubject",
    "FakeClock",
    "Gate",
    "StoreFeature",
    "chaosStore",
    "gate",
    "settle",
    "storeConformance",
  ],
};

/** The names a door file lets out, as it says them: `type ` before those that are gone at run time. */
function exportsOf(door: string): string[] {
  const text = read(door);
  const listed = [...text.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(([, type = "", names]) =>
    (names as string)
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "")
      .map((name) => `${type}${name}`),
  );
  const declared = [...text.matchAll(/^export const (\w+)/gm)].map(([, name]) => name as string);
  return [...listed, ...declared];
}

describe("the doors", () => {
  for (const [door, names] of Object.entries(DOORS))
    it(`of ${door} let out exactly the listed names`, async () => {
      const written = exportsOf(door);
      expect(new Set(written.map((name) => name.replace(/^type /, "")))).toEqual(new Set(names));
      expect(read(door)).not.toMatch(/^export (\*|default|=|(async )?(function|class|interface|type \w|enum))/m);
      const values = written.filter((name) => !name.startsWith("type "));
      const atRunTime = (await import(/* @vite-ignore */ `../../${door}`)) as object;
      expect(new Set(Object.keys(atRunTime))).toEqual(new Set(values));
    });

  it("are the package's exports", () => {
    const { exports } = JSON.parse(read("package.json")) as { exports: Record<string, unknown> };
    expect(Object.keys(exports)).toEqual([
      ".",
      "./redis",
      "./memcached",
      "./apollo",
      "./yoga",
      "./mercurius",
      "./msgpackr",
      "./testing",
      "./schema/cached.graphql",
      "./schema/inspection.graphql",
      "./package.json",
    ]);
  });
});
