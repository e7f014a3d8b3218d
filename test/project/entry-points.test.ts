import { describe, expect, it } from "vitest";
import { entryPointOf, filesIn, read } from "./source.js";

/** Everything that is public, by entry point. A change of the public API shows here. */
const ENTRY_POINTS: Readonly<Record<string, readonly string[]>> = {
  "src/index.ts": [
    "BatchCall",
    "ApplyCachedOptions",
    "CacheControlOptions",
    "FieldExistence",
    "Cache",
    "CacheEvent",
    "CacheExtension",
    "Counts",
    "Tracing",
    "CacheHealth",
    "CacheOptions",
    "CachedError",
    "CachedFunction",
    "CachedLoader",
    "CachedRead",
    "EdgeOptions",
    "EntityTagsOptions",
    "FunctionCall",
    "FunctionOptions",
    "LoaderOptions",
    "RefreshJob",
    "ResponsesOptions",
    "ResultControl",
    "ResultSettings",
    "applyCached",
    "cachedTypeDefs",
    "createCache",
    "extensionOf",
    "inspectionResolvers",
    "inspectionTypeDefs",
    "memoryStore",
    "resultControl",
  ],
  "src/servers/apollo/index.ts": ["CachedPlugin", "CachedPluginOptions", "cachedPlugin", "stringifyResult"],
  "src/core/codec/index.ts": [
    "Codec",
    "Content",
    "Dialect",
    "TooLarge",
    "Unreadable",
    "Unstorable",
    "ValueType",
    "ValueTypes",
    "fromPlain",
    "jsonCodec",
    "toPlain",
  ],
  "packages/inspector/src/index.ts": [
    "EndpointHeaders",
    "InspectorHandler",
    "InspectorOptions",
    "InspectorRequest",
    "inspectorHandler",
  ],
  "packages/memcached/src/index.ts": ["MemcachedClient", "MemcachedStoreOptions", "memcachedStore"],
  "packages/sqlite/src/index.ts": ["SqliteDatabase", "SqliteStatement", "SqliteStoreOptions", "sqliteStore"],
  "src/servers/mercurius/index.ts": ["CachedHooksOptions", "MercuriusApp", "cachedHooks"],
  "packages/observability/src/opentelemetry/index.ts": ["Instrumentation", "OpenTelemetryOptions", "instrumentCache"],
  "packages/observability/src/prometheus/index.ts": ["CollectOptions", "MetricsCollection", "collectMetrics"],
  "packages/postgres/src/index.ts": [
    "Listen",
    "NotificationClient",
    "OutboxConsumer",
    "OutboxDatabase",
    "OutboxOptions",
    "OutboxSqlOptions",
    "invalidateFromOutbox",
    "listenWith",
    "outboxSql",
  ],
  "packages/redis-bloom/src/index.ts": ["BloomGuard", "BloomGuardOptions", "bloomGuard"],
  "src/stores/redis/index.ts": [
    "IoredisClient",
    "NodeRedisClient",
    "RedisClient",
    "RedisPipeline",
    "RedisStoreOptions",
    "Script",
    "ScriptArgument",
    "ScriptArguments",
    "ScriptCall",
    "defineScript",
    "problemOfClient",
    "redisStore",
    "runScripts",
  ],
  "src/core/store/index.ts": [
    "AcquireRequest",
    "Cancel",
    "Clock",
    "ClockHead",
    "ClockListener",
    "ClockLog",
    "ClockOrigin",
    "ClockRecord",
    "ConnectionFailure",
    "ConnectionState",
    "ConnectionUse",
    "CopiedClock",
    "Decision",
    "EXPECTED_TIMER_MS",
    "Entry",
    "EntryState",
    "Grant",
    "HEAD_BYTES",
    "Hold",
    "LOG_HEAD_BYTES",
    "LeaseTimes",
    "NO_EPOCH",
    "OptionRules",
    "REPORTS_WANTED_MS",
    "Random",
    "ReadRecord",
    "Reading",
    "Release",
    "ServerOffset",
    "Store",
    "StoreListener",
    "StoreNames",
    "StoreOutcome",
    "StoreRead",
    "StoreRequest",
    "StoredClock",
    "StoredEntry",
    "Subject",
    "Wake",
    "asError",
    "throwIfAllFailed",
    "throwIfAnyFailed",
    "appendToClock",
    "appendToCopies",
    "checkOptionNames",
    "checkOptionRules",
    "checkPrefix",
    "decisions",
    "describeSetting",
    "errorTypeOf",
    "inOneLine",
    "isTimerMs",
    "laterHead",
    "MAX_AHEAD_MICROS",
    "learnOffset",
    "messageOf",
    "newTokens",
    "readEntry",
    "readHead",
    "readLog",
    "readRecords",
    "readStoredEntry",
    "systemClock",
    "systemRandom",
    "transitions",
    "within",
    "writeRecord",
    "writeStoredEntry",
  ],
  "packages/testing/src/index.ts": [
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
  "src/servers/yoga/index.ts": ["CachedYogaOptions", "CachedYogaPlugin", "useCached"],
};

/** The names that an entry point exports as written: with `type ` in front if they do not exist at run time. */
function exportsOf(path: string): string[] {
  const text = read(path);
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

describe("entry points", () => {
  it.each(Object.entries(ENTRY_POINTS))("%s exports exactly the listed names", async (path, names) => {
    const written = exportsOf(path);
    expect(new Set(written.map((name) => name.replace(/^type /, "")))).toEqual(new Set(names));
    const values = written.filter((name) => !name.startsWith("type "));
    const atRunTime = (await import(/* @vite-ignore */ `../../${path}`)) as object;
    expect(new Set(Object.keys(atRunTime))).toEqual(new Set(values));
  });

  it("are the package's exports and the only files named index", () => {
    const { exports } = JSON.parse(read("package.json")) as { exports: Record<string, unknown> };
    const paths = Object.keys(exports).filter((path) => !/\.(json|graphql)$/.test(path));
    const files = new Set(paths.map(entryPointOf));
    expect(files).toEqual(new Set(filesIn("src").filter((file) => file.endsWith("/index.ts"))));
    const listed = Object.keys(ENTRY_POINTS);
    expect(files).toEqual(new Set(listed.filter((file) => file.startsWith("src/"))));
    const inPackages = filesIn("packages").filter((file) => /\/src\/(.*\/)?index\.ts$/.test(file));
    expect(new Set(inPackages)).toEqual(new Set(listed.filter((file) => file.startsWith("packages/"))));
  });
});

it("is published with its provenance and its security policy", () => {
  const { files, publishConfig } = JSON.parse(read("package.json")) as { files: string[]; publishConfig: object };
  expect(files).toContain("SECURITY.md");
  expect(publishConfig).toMatchObject({ provenance: true });
});
