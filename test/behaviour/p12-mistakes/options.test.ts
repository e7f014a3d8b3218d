import { memcachedStore } from "@graphql-cached/memcached";
import { outboxSql } from "@graphql-cached/postgres";
import { bloomGuard } from "@graphql-cached/redis-bloom";
import { sqliteStore } from "@graphql-cached/sqlite";
import { chaosStore } from "@graphql-cached/testing";
import { applyCached, createCache, inspectionResolvers, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { redisStore } from "graphql-cached/redis";
import { useCached } from "graphql-cached/yoga";
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { OPTIONS_OF } from "../../../src/core/base/option-owners.js";
import { GENERAL_SETTINGS } from "../../../src/core/policy/policy.js";
import { OPTION_GROUPS, OPTIONS } from "../../../src/option-checks.js";
import { errorOf, listen, schemaOf } from "../../support/listen.js";

const allow = (): boolean => true;
const batch = async (ids: readonly number[]) => ids;
const none = null as never;
const secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0";
const valueType = { is: () => true, encode: () => 0, decode: () => 0 };
const client = { pipeline: () => undefined, duplicate: () => undefined, options: {} };
const bare = Object.create(null) as never;
const cache = createCache({ defaultScope: "PUBLIC" });
const schema = schemaOf("type Query { a: Int @cached(maxAge: 60) }", { Query: { a: () => 1 } });
const load = (options: object) => createCache({ defaultScope: "PUBLIC" }).loader({ name: "L", batch, ...options });
const extended = (cached: object) => {
  const plain = schemaOf("type Query { a: Int }");
  Object.assign(plain.getQueryType()?.getFields().a ?? {}, { extensions: { cached: { maxAge: 1, ...cached } } });
  return applyCached(plain, createCache({ defaultScope: "PUBLIC" }));
};

/** Everything that takes options, and how its messages begin. */
const FUNCTIONS: Readonly<Record<string, readonly [begin: string, call: (options: object) => unknown]>> = {
  createCache: ["createCache: ", (options) => createCache(options)],
  applyCached: [
    "applyCached: ",
    (options) => applyCached(schema, createCache({ defaultScope: "PUBLIC" }), options as never),
  ],
  "cache.loader": ['cache.loader("L"): ', (options) => load({ maxAge: 1, ...options })],
  "extensions.cached": ["extensions.cached on `Query.a`: ", extended],
  defaults: ["createCache: `defaults`: ", (defaults) => createCache({ defaults })],
  cachedPlugin: ["cachedPlugin: ", (options) => cachedPlugin(cache, options as never)],
  useCached: ["useCached: ", (options) => useCached(cache, options as never)],
  cachedHooks: [
    "cachedHooks: ",
    (options) => cachedHooks({ graphql: {}, addHook: () => 0 } as never, cache, options as never),
  ],
  inspectionResolvers: ["inspectionResolvers: ", (options) => inspectionResolvers(cache, { allow, ...options })],
  memoryStore: ["memoryStore: ", (options) => memoryStore(options)],
  redisStore: ["redisStore: ", (options) => redisStore({ client: client as never, ...options })],
  memcachedStore: ["memcachedStore: ", (options) => memcachedStore(options as never)],
  sqliteStore: ["sqliteStore: ", (options) => sqliteStore({ path: "cache.db", ...options } as never)],
  bloomGuard: [
    "bloomGuard: ",
    (options) => bloomGuard({ client, prefix: "p", name: "n", capacity: 9, ...options } as never),
  ],
};
const callOf = (name: string) => (FUNCTIONS[name] as (typeof FUNCTIONS)[string])[1];

const isMeant = (what: string): string => `did you mean ${what}?`;
const SECONDS = isMeant("`maxAge`, in seconds");
const MEMORY = isMeant("`memory: { maxStalenessMs }`, or leave it out: memory is on by default");
const inSchema = "it belongs in applyCached(schema, cache, { … })";
const inCache = "it belongs in createCache({ … })";
const inPlugin = "it belongs in the plugin of the server, such as cachedPlugin(cache, { … })";
const inPolicy = "it belongs in a policy: @cached, `policies` of applyCached, or cache.loader";
const POLICY = {
  ttl: SECONDS,
  ttlMs: SECONDS,
  maxage: isMeant("`maxAge`"),
  expiresIn: SECONDS,
  swr: isMeant("`staleWhileRevalidate`"),
  staleWhileRevalidat: isMeant("`staleWhileRevalidate`"),
  sie: isMeant("`staleIfError`"),
  negativeTtl: isMeant("`negativeMaxAge`"),
};

/** Names that people write, by function, and what its message says about them. */
const UNKNOWN: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  createCache: {
    redis: isMeant("`store: redisStore({ client })`"),
    client: isMeant("`store: redisStore({ client })`"),
    memcached: isMeant("`store: memcachedStore({ client })`"),
    sqlite: isMeant("`store: sqliteStore({ path })`"),
    ttl: isMeant("`defaults: { maxAge }`, in seconds"),
    maxAge: isMeant("`defaults: { maxAge }`, in seconds"),
    swr: isMeant("`defaults: { staleWhileRevalidate }`, in seconds"),
    keyPrefix: isMeant("`prefix`"),
    namespace: isMeant("`prefix`"),
    prefx: isMeant("`prefix`"),
    nearCache: MEMORY,
    near: MEMORY,
    l1: MEMORY,
    userId: isMeant("`identify`"),
    sessionId: isMeant("`identify`"),
    onEvents: isMeant("`onEvent`"),
    log: isMeant("`logger`"),
    serializer: isMeant("`codec`"),
    scope: isMeant("createCache({ defaultScope })"),
    leaseMs: "write { leases: { leaseMs } }",
    policies: inSchema,
    entityTags: inSchema,
    idFields: inSchema,
    cacheControl: inSchema,
    exists: inSchema,
    responses: inPlugin,
    edge: inPlugin,
    batch: "it belongs in cache.loader",
  },
  defaults: {
    ...POLICY,
    scope: isMeant("createCache({ defaultScope })"),
    private: isMeant('createCache({ defaultScope: "PRIVATE" })'),
  },
  "extensions.cached": POLICY,
  "cache.loader": {
    ...POLICY,
    batchFn: isMeant("`batch`"),
    batchLoadFn: isMeant("`batch`"),
    load: isMeant("`batch`"),
    key: isMeant("`cacheKeyFn`"),
    keyFn: isMeant("`cacheKeyFn`"),
    tag: isMeant("`tags`"),
    batchSize: isMeant("`maxBatchSize`"),
    store: inCache,
    policies: inSchema,
    errorMaxAgeMs: "it belongs in createCache({ loads })",
  },
  applyCached: {
    entitytags: isMeant("`entityTags`"),
    ttl: "expected one of `policies`, `cacheControl`, `entityTags`, `idFields`, `exists`",
    store: inCache,
    identify: inCache,
    loadTimeoutMs: "it belongs in createCache({ loads })",
    maxAge: inPolicy,
    responses: inPlugin,
  },
  cachedPlugin: {
    alow: "expected one of `allow`, `responses`, `edge`; did you mean `allow`?",
    policies: inSchema,
    staleIfError: inPolicy,
  },
  useCached: { trace: "expected one of `allow`, `responses`, `edge`", entityTags: inSchema },
  cachedHooks: {
    allowed: "expected one of `allow`, `edge`; did you mean `allow`?",
    sharedContextKeys: "it belongs in createCache({ privacy })",
  },
  inspectionResolvers: { alowArguments: "expected one of `allow`" },
  memoryStore: {
    maxbytes: "expected one of `maxBytes`, `clock`; did you mean `maxBytes`?",
    maxValueBytes: "it belongs in createCache({ storage })",
  },
  redisStore: {
    url: "expected one of `client`, `clock`; did you mean `client: new Redis(url)`?",
    defaultScope: inCache,
  },
  memcachedStore: {
    server: "expected one of `client`, `servers`, `maxEntryBytes`, `clock`, `random`; did you mean `servers`?",
  },
  sqliteStore: { size: "expected one of `path`, `database`, `maxBytes`, `clock`" },
  bloomGuard: {
    ratio:
      "known are client, prefix, name, capacity, falsePositiveRatio, timeoutMs, clock; did you mean `falsePositiveRatio`?",
  },
};

describe("an option that a function does not have", () => {
  const cases = Object.entries(UNKNOWN).flatMap(([name, advice]) =>
    Object.entries(advice).map(([option, expected]) => [name, option, expected] as const),
  );
  it.each(cases)("is refused by %s with what is meant, or where it belongs: %s", (name, option, expected) => {
    const { code, message } = errorOf(() => callOf(name)({ [option]: {} }));
    const [begin] = FUNCTIONS[name] as (typeof FUNCTIONS)[string];
    expect(code).toBe(name === "extensions.cached" ? "CACHED_POLICY_INVALID" : "CACHED_OPTION_INVALID");
    expect(message).toMatch(/`: unknown (option|setting)( here)?; /);
    expect(message.startsWith(`${begin}\`${option}\`: unknown `)).toBe(true);
    expect(message).toContain(`; ${expected}`);
  });

  it.each([
    ["loads", "timeoutMs", "loadTimeoutMs"],
    ["storage", "timeout", "storeTimeoutMs"],
    ["invalidation", "replicaLag", "replicaLagMs"],
    ["privacy", "sharedKeys", "sharedContextKeys"],
  ])("is refused with the similar name in its group: %s.%s", (group, name, meant) => {
    expect(errorOf(() => createCache({ [group]: { [name]: 1 } })).message).toContain(isMeant(`\`${meant}\``));
  });

  it("is refused in a directive as well if the schema was built without checks", () => {
    const apply = (sdl: string) => () =>
      applyCached(schemaOf(sdl, {}, { assumeValidSDL: true }), createCache({ defaultScope: "PUBLIC" }));
    expect(errorOf(apply("type Query { a: Int @cached(maxAge: 60, swr: 300) }")).message).toMatch(
      /^@cached on `Query.a`: `swr`: unknown setting; expected one of .*; did you mean `staleWhileRevalidate`\?$/,
    );
    const mutation = 'type Query { a: Int } type Mutation { b: Int @invalidates(tags: ["T"], tag: "x") }';
    expect(errorOf(apply(mutation)).message).toBe(
      "@invalidates on `Mutation.b`: `tag`: unknown argument; expected one of `tags`; did you mean `tags`?",
    );
  });

  it("is found in the place of every option of the cache, of a schema and of a policy", () => {
    const groups = Object.entries(OPTION_GROUPS).filter(([name]) => !["inspection", "testing"].includes(name));
    const known = Object.fromEntries(
      Object.entries(OPTIONS_OF).map(([owner, names]) => [owner, names.split(" ").sort()]),
    );
    const ofCache = [...Object.keys(OPTIONS), "defaults", ...Object.keys(OPTION_GROUPS)].sort();
    expect(known["createCache({ … })"]).toEqual(ofCache);
    for (const [name, rules] of groups)
      expect(known[`createCache({ ${name} })`]).toEqual([...Object.keys(rules)].sort());
    const { message } = errorOf(() => callOf("applyCached")({ unknownOne: 1 }));
    const listed = /expected one of (.*?)(;|$)/.exec(message)?.[1] ?? "";
    expect(known["applyCached(schema, cache, { … })"]).toEqual(listed.split(/\W+/).filter(Boolean).sort());
    const settings = known["a policy: @cached, `policies` of applyCached, or cache.loader"];
    expect([...(settings ?? []), "version"].sort()).toEqual([...GENERAL_SETTINGS, "key", "tags", "version"].sort());
  });
});

const TYPES = "`types`: expected an object of value types by name, each { is, encode, decode } and optionally keyOf";
const ENCRYPTION = "`encryption`: expected { keys: [{ id, key }, …] }, where the first key encrypts";
const ERROR_AGE = "`loads.errorMaxAgeMs`: expected a function, or an integer of at least 0 (milliseconds), got";
const BOUND = "expected an integer from 0 to 268435456 (bytes), got";
const NO_OPTIONS = "expected an object of options, got null";

/** Calls by the messages that they are refused with. */
const MISTAKES: Readonly<Record<string, () => unknown>> = {
  "createCache: `loads.loadTimeoutMs`: expected an integer from 1 to 2147483647 (milliseconds), got 2147483648; `loads.maxQueuedLoads`: expected an integer from 0 to 9007199254740991, got 9007199254740992; `leases.leaseMs`: expected an integer from 100 to 2147483647 (milliseconds), got Infinity":
    () => createCache({ loads: { loadTimeoutMs: 2 ** 31, maxQueuedLoads: 2 ** 53 }, leases: { leaseMs: Infinity } }),
  'createCache: `leases.leaseMs`: expected an integer of at least 100 (milliseconds), got "3s"': () =>
    createCache({ leases: { leaseMs: "3s" as never } }),
  'createCache: `prefix`: expected a string of letters, digits and any of _ . : -, got "a b"': () =>
    createCache({ prefix: "a b" }),
  "createCache: `defaults`: `maxAge`: expected an integer of at least 0 (seconds), got 1.5": () =>
    createCache({ defaults: { maxAge: 1.5 } }),
  "createCache: `defaults`: `jitter`: expected a number from 0 to 1, got 2": () =>
    createCache({ defaults: { jitter: 2 } }),
  "createCache: `leases.prefix`: unknown option here; write it outside of the group": () =>
    createCache({ leases: { prefix: "x" } as never }),
  "createCache: `codec`: expected an object with the methods encode and decode, got an object": () =>
    createCache({ codec: { encode: () => "" } as never }),
  "createCache: `codec`: expected a codec whose `id` is 1 to 32 letters, digits and any of _ . : -, got an object":
    () => createCache({ codec: { id: "a b", encode: () => "", decode: () => 0 } }),
  [`createCache: \`storage.compressAboveBytes\`: ${BOUND} -1`]: () =>
    createCache({ storage: { compressAboveBytes: -1 } }),
  [`createCache: \`storage.maxValueBytes\`: ${BOUND} "1mb"`]: () =>
    createCache({ storage: { maxValueBytes: "1mb" as never } }),
  "createCache: `loads.errorBackoffMs`: expected an integer of at least 1 (milliseconds), got 0; write `loads: { errorMaxAgeMs: 0 }` for errors that later callers do not get":
    () => createCache({ loads: { errorBackoffMs: 0 } }),
  [`createCache: ${ERROR_AGE} -1`]: () => createCache({ loads: { errorMaxAgeMs: -1 } }),
  [`createCache: ${ERROR_AGE} "1s"`]: () => createCache({ loads: { errorMaxAgeMs: "1s" as never } }),
  [`createCache: ${TYPES}, got an array`]: () => createCache({ types: [] as never }),
  [`createCache: ${TYPES} (\`Date\` is a reserved name; "a b" is not a name of letters, digits and _ . -; \`Money\` is missing encode and decode), got an object`]:
    () => createCache({ types: { Date: valueType, "a b": valueType, Money: { is: () => true } as never } }),
  "createCache: `types`: expected a codec with the method withTypes, got one without; encode these classes in your codec, or remove `codec`":
    () => createCache({ types: { Money: valueType }, codec: { encode: () => "", decode: () => 0 } }),
  [`createCache: ${ENCRYPTION}, got something else`]: () => createCache({ encryption: secret as never }),
  [`createCache: ${ENCRYPTION} (\`keys[0].key\`: expected 32 bytes or their base64), got something else`]: () =>
    createCache({ encryption: { keys: [{ id: "a", key: secret }] } }),
  'createCache: `prefix`: expected a name for this application, since any other one can use the same redis store and would share its entries, got undefined; pass createCache({ prefix: "shop" }) with a name of your own':
    () => createCache({ store: redisStore({ client: client as never }) }),
  "memoryStore: `maxBytes`: expected an integer of at least 1024, got 7; pass a number of bytes": () =>
    memoryStore({ maxBytes: 7 }),
  "redisStore: `client`: expected an ioredis, iovalkey or node-redis client, got an object; pass `new Redis(url)` of ioredis or `await createClient({ url }).connect()` of node-redis":
    () => redisStore({ client: {} as never }),
  "redisStore: expected an object of options, got a client; pass redisStore({ client })": () => {
    const redis = new Redis({ lazyConnect: true });
    onTestFinished(() => redis.disconnect());
    return redisStore(redis as never);
  },
  "cache.loader: `version`: expected a non-empty string, got an object; `name`: expected letters, digits and any of _ : - (a dot is for fields), got an object":
    () => load({ name: bare, version: bare }),
  'cache.loader("a.b"): `maxAge`: expected an integer of at least 0 (seconds), got -1; `name`: expected letters, digits and any of _ : - (a dot is for fields), got "a.b"; `batch`: expected a function, got 7; `maxBatchSize`: expected an integer of at least 1, got 0':
    () => load({ name: "a.b", batch: 7, maxAge: -1, maxBatchSize: 0 }),
  [`createCache: ${NO_OPTIONS}`]: () => createCache(none),
  [`cache.loader: ${NO_OPTIONS}`]: () => cache.loader(none),
  [`memoryStore: ${NO_OPTIONS}`]: () => memoryStore(none),
  [`redisStore: ${NO_OPTIONS}`]: () => redisStore(none),
  "redisStore: expected an object of options, got undefined": () => redisStore(undefined as never),
  [`bloomGuard: ${NO_OPTIONS}`]: () => bloomGuard(none),
  [`outboxSql: ${NO_OPTIONS}`]: () => outboxSql(none),
};

describe("an option with a wrong value", () => {
  it.each(Object.entries(MISTAKES))(
    "is refused with what was expected, what was given and a remedy: %s",
    (message, call) => {
      expect(errorOf(call)).toMatchObject({ code: "CACHED_OPTION_INVALID", message });
    },
  );

  it("is reported together with all others, those of the store and of groups included", () => {
    const store = Object.assign(memoryStore(), { isShared: true });
    const { message } = errorOf(() =>
      createCache({ leases: { leaseMs: 1, leasMs: 1 }, prefx: "x", version: "", store } as never),
    );
    const names = ["leases.leaseMs", "leases.leasMs", "prefx", "version", "prefix"];
    for (const name of names) expect(message).toContain(`\`${name}\`: `);
  });

  it.each([
    ["a bigint", 60n, "60"],
    ["a symbol", Symbol("60"), "an instance of Symbol"],
    ["an object without a prototype", bare, "an object"],
  ])("is refused as each duration of a loader if it is %s", (_, value, given) => {
    for (const setting of ["maxAge", "maxAgeLimit", "negativeMaxAge", "staleWhileRevalidate", "staleIfError"])
      expect(errorOf(() => load({ maxAge: 60, [setting]: value })).message).toBe(
        `cache.loader("L"): \`${setting}\`: expected an integer of at least 0 (seconds), got ${given}`,
      );
  });

  it.each<readonly [what: string, memory: unknown, given?: string]>([
    ["true", true, ", got true; omit it, since memory is on by default"],
    ["a longer staleness than two seconds", { maxStalenessMs: 2_001 }],
    ["a negative staleness", { maxStalenessMs: -1 }],
    ["a fraction", { maxStalenessMs: 0.5 }],
    ["no room", { maxBytes: 0 }],
    ["an unknown property", { maxByte: 7 }],
    ["a list", []],
    ["null", null],
    ["a number", 7],
  ])("is refused as the memory if it is %s", (_, memory, given = "") => {
    expect(errorOf(() => createCache({ memory: memory as never })).message).toContain(
      `\`memory\`: expected false, or an object with the optional properties maxBytes (an integer of at least 1) and maxStalenessMs (an integer from 0 to 2000)${given}`,
    );
  });

  it("is refused with its name if it is a keyPrefix, entityTags with other names, or no function that allows", () => {
    const keyPrefix = { ...client, options: { keyPrefix: "x" } } as never;
    expect(errorOf(() => redisStore({ client: keyPrefix })).message).toContain("keyPrefix");
    expect(errorOf(() => callOf("applyCached")({ entityTags: { except: [] } })).message).toContain(
      "the only one is `exceptTypes`",
    );
    expect(errorOf(() => inspectionResolvers(cache, {} as never)).message).toContain("`allow`: expected a function");
  });

  it("is none at the limits, nor without a prefix if nobody else can use the store", () => {
    createCache({ loads: { loadTimeoutMs: 2 ** 31 - 1, maxQueuedLoads: 2 ** 53 - 1 } });
    for (const store of [undefined, memoryStore(), chaosStore(memoryStore())]) createCache({ store });
    for (const memory of [undefined, false, {}, { maxBytes: 1 }, { maxStalenessMs: 0 }, { maxStalenessMs: 2_000 }])
      createCache({ memory: memory as false });
  });
});

const ENTRY = '{ coordinate: "Query.movie", args: { id: 7 } }';

describe("a mistake in a call", () => {
  /** Targets of `cache.mutate` by the messages that they are refused with. */
  const TARGETS: Readonly<Record<string, unknown>> = {
    "`tag`: unknown property; known are tags, entries": { tag: ["M:7"] },
    '`loader`: expected `tags` or `entries`, got the target of an entry; write { entries: [{ loader: "Movie", id: 7 }] }':
      { id: 7, loader: "M" },
    [`\`coordinate\`: expected \`tags\` or \`entries\`, got the target of an entry; write { entries: [${ENTRY}] }`]: {
      coordinate: "Query.top",
      args: {},
    },
    '`target`: expected an object such as { tags: ["Movie:7"] }, got null': null,
    '`target`: expected an object such as { tags: ["Movie:7"] }, got an array': ["M:7"],
    [`\`entries\`: expected an array of targets such as ${ENTRY}, got an object`]: { entries: { loader: "M", id: 7 } },
    [`\`entries[0]\`: expected an object such as ${ENTRY}, got null`]: { entries: [null] },
  };
  it.each(Object.entries(TARGETS))("of cache.mutate is refused before it writes: %s", async (message, target) => {
    let writes = 0;
    await expect(cache.mutate(target as never, () => ++writes)).rejects.toMatchObject({
      code: "CACHED_OPTION_INVALID",
      message: `cache.mutate: ${message}`,
    });
    expect(writes).toBe(0);
  });

  it("of cache.mutate is refused before it invalidates if no function writes, and is none if nothing is invalidated", async () => {
    const { cache: heard, events } = listen();
    await expect(heard.mutate({ tags: ["M:7"] }, undefined as never)).rejects.toMatchObject({
      code: "CACHED_OPTION_INVALID",
      message: "cache.mutate: `write`: expected a function that makes the change, got undefined",
    });
    expect(events).toEqual([]);
    for (const target of [{}, { tags: undefined, entries: undefined }, { tags: [], entries: [] }])
      expect(await heard.mutate(target, () => "written")).toBe("written");
  });

  const unknown = "expected a cached field of a schema passed to applyCached; known fields: Query.top";
  it.each<readonly [call: string, target: unknown, code: string, message: string]>([
    ["invalidate", { coordinate: "Query.tpo" }, "CACHED_COORDINATE_UNKNOWN", `\`Query.tpo\`: ${unknown}`],
    ["invalidate", { coordinate: "Movie" }, "CACHED_COORDINATE_UNKNOWN", 'this name, pass { loader: "Movie" }'],
    ["invalidate", { coordinate: "Query.top", id: 7 }, "CACHED_OPTION_INVALID", "the field belong in `args`"],
    ["invalidate", { coordinate: "Query.top", args: { m: 1 } }, "CACHED_KEY_UNUSABLE", "unknown argument `m`; known"],
    ["invalidate", { coordinate: "Query.top", args: { g: "C" } }, "CACHED_KEY_UNUSABLE", "`Query.top`: "],
    ["invalidateTags", "Movie:7", "CACHED_OPTION_INVALID", "`tags`: expected "],
  ])("of cache.%s is refused: %j", async (call, target, code, message) => {
    const { cache: own } = listen();
    applyCached(schemaOf("enum G { A B } type Query { top(n: Int = 10, g: G): Int @cached(maxAge: 1) }"), own);
    own.loader({ name: "Movie", maxAge: 60, batch });
    const calling = own[call as "invalidate"](target as never);
    await expect(calling).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
  });

  it("of a loader without the context of a request is reported once", async () => {
    const { cache: own, warnings } = listen();
    const loader = own.loader({ name: "Movie", maxAge: 60, batch });
    expect(await loader(undefined as never).load(7)).toBe(7);
    await loader("request" as never).load(8);
    await loader({} as never).load(9);
    expect(warnings).toEqual([
      'cache.loader("Movie"): expected the context of a request, an object, got undefined; without it, each call has a loader of its own, which neither batches nor remembers',
    ]);
  });
});
