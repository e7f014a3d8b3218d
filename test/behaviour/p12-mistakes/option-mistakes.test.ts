import { Readable } from "node:stream";
import { memcachedStore } from "@graphql-cached/memcached";
import { bloomGuard } from "@graphql-cached/redis-bloom";
import { sqliteStore } from "@graphql-cached/sqlite";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import Fastify from "fastify";
import { type GraphQLSchema, graphql } from "graphql";
import {
  applyCached,
  type CachedError,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  memoryStore,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { redisStore } from "graphql-cached/redis";
import { useCached } from "graphql-cached/yoga";
import { describe, expect, it } from "vitest";

const allow = (): boolean => true;
const batch = async (ids: readonly number[]) => ids;
const schemaOf = (sdl: string, resolvers: object = {}, options: object = {}): GraphQLSchema =>
  makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers: resolvers as IResolvers, ...options });

function messageOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return (error as CachedError).message;
  }
  return "accepted";
}

/** A logger and its lines, without the beginning that all of them have. */
function log() {
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line.replace("graphql-cached: ", ""));
  return { lines, logger: { info: write, warn: write } };
}

describe("a name that other caches use", () => {
  it.each([
    ["redis", "`store: redisStore({ client })`"],
    ["client", "`store: redisStore({ client })`"],
    ["memcached", "`store: memcachedStore({ client })`"],
    ["sqlite", "`store: sqliteStore({ path })`"],
    ["ttl", "`defaults: { maxAge }`, in seconds"],
    ["maxAge", "`defaults: { maxAge }`, in seconds"],
    ["swr", "`defaults: { staleWhileRevalidate }`, in seconds"],
    ["keyPrefix", "`prefix`"],
    ["namespace", "`prefix`"],
    ["prefx", "`prefix`"],
    ["nearCache", "`memory: { maxStalenessMs }`, or leave it out: memory is on by default"],
    ["near", "`memory: { maxStalenessMs }`, or leave it out: memory is on by default"],
    ["l1", "`memory: { maxStalenessMs }`, or leave it out: memory is on by default"],
    ["userId", "`identify`"],
    ["sessionId", "`identify`"],
    ["onEvents", "`onEvent`"],
    ["log", "`logger`"],
    ["serializer", "`codec`"],
  ])("is reported with the name that createCache has for it: %s", (name, meant) => {
    expect(messageOf(() => createCache({ [name]: {} }))).toMatch(
      new RegExp(`^createCache: \`${name}\`: unknown option; expected one of .*`),
    );
    expect(messageOf(() => createCache({ [name]: {} }))).toContain(`; did you mean ${meant}?`);
  });

  it.each([
    ["loads", "timeoutMs", "`loadTimeoutMs`"],
    ["storage", "timeout", "`storeTimeoutMs`"],
    ["invalidation", "replicaLag", "`replicaLagMs`"],
    ["privacy", "sharedKeys", "`sharedContextKeys`"],
  ])("is reported with the similar name in its group: %s.%s", (group, name, meant) => {
    expect(messageOf(() => createCache({ [group]: { [name]: 1 } }))).toContain(`did you mean ${meant}?`);
  });

  const POLICY: readonly [name: string, meant: string][] = [
    ["ttl", "`maxAge`, in seconds"],
    ["ttlMs", "`maxAge`, in seconds"],
    ["maxage", "`maxAge`"],
    ["expiresIn", "`maxAge`, in seconds"],
    ["swr", "`staleWhileRevalidate`"],
    ["staleWhileRevalidat", "`staleWhileRevalidate`"],
    ["sie", "`staleIfError`"],
    ["negativeTtl", "`negativeMaxAge`"],
  ];
  it.each(POLICY)("is reported everywhere with the name that a policy has for it: %s", (name, meant) => {
    const schema = schemaOf("type Query { a: Int }");
    Object.assign(schema.getQueryType()?.getFields().a ?? {}, { extensions: { cached: { maxAge: 1, [name]: 1 } } });
    const unknown = `\`${name}\`: unknown setting; expected one of `;
    for (const [where, message] of [
      [
        "extensions.cached on `Query.a`: ",
        messageOf(() => applyCached(schema, createCache({ defaultScope: "PUBLIC" }))),
      ],
      [
        'cache.loader("L"): ',
        messageOf(() =>
          createCache({ defaultScope: "PUBLIC" }).loader({ name: "L", maxAge: 1, batch, [name]: 1 } as never),
        ),
      ],
      ["createCache: `defaults`: ", messageOf(() => createCache({ defaults: { [name]: 1 } }))],
    ] as const) {
      expect(message).toContain(where + unknown);
      expect(message).toContain(`; did you mean ${meant}?`);
    }
  });

  it.each([
    ["defaults", { scope: "PUBLIC" }, "`scope`: unknown setting", "createCache({ defaultScope })"],
    ["defaults", { private: true }, "`private`: unknown setting", 'createCache({ defaultScope: "PRIVATE" })'],
    ["scope", "PUBLIC", "`scope`: unknown option", "createCache({ defaultScope })"],
  ])("of a scope for all is reported with the option that sets it: %s %j", (name, value, unknown, meant) => {
    const message = messageOf(() => createCache({ [name]: value }));
    expect(message).toContain(unknown);
    expect(message).toContain(`; did you mean ${meant}?`);
  });

  it.each([
    ["batchFn", "`batch`"],
    ["batchLoadFn", "`batch`"],
    ["load", "`batch`"],
    ["key", "`cacheKeyFn`"],
    ["keyFn", "`cacheKeyFn`"],
    ["tag", "`tags`"],
    ["batchSize", "`maxBatchSize`"],
  ])("is reported with the name that a loader has for it: %s", (name, meant) => {
    expect(
      messageOf(() =>
        createCache({ defaultScope: "PUBLIC" }).loader({ name: "L", maxAge: 1, batch, [name]: batch } as never),
      ),
    ).toContain(`\`${name}\`: unknown setting; expected one of`);
    expect(
      messageOf(() =>
        createCache({ defaultScope: "PUBLIC" }).loader({ name: "L", maxAge: 1, batch, [name]: batch } as never),
      ),
    ).toContain(`; did you mean ${meant}?`);
  });

  it("is reported in a directive also if the schema was built without checks", () => {
    const build = (sdl: string) => () =>
      applyCached(schemaOf(sdl, {}, { assumeValidSDL: true }), createCache({ defaultScope: "PUBLIC" }));
    expect(messageOf(build("type Query { a: Int @cached(maxAge: 60, swr: 300) }"))).toMatch(
      /^@cached on `Query.a`: `swr`: unknown setting; expected one of .*; did you mean `staleWhileRevalidate`\?$/,
    );
    expect(messageOf(build('type Query { a: Int } type Mutation { b: Int @invalidates(tags: ["T"], tag: "x") }'))).toBe(
      "@invalidates on `Mutation.b`: `tag`: unknown argument; expected one of `tags`; did you mean `tags`?",
    );
  });

  it("is reported by applyCached with all options that there are", () => {
    const apply = (options: object) => () =>
      applyCached(schemaOf("type Query { a: Int }"), createCache({ defaultScope: "PUBLIC" }), options);
    const known = "expected one of `policies`, `cacheControl`, `entityTags`, `idFields`, `exists`";
    expect(messageOf(apply({ entitytags: true }))).toBe(
      `applyCached: \`entitytags\`: unknown option; ${known}; did you mean \`entityTags\`?`,
    );
    expect(messageOf(apply({ ttl: 5 }))).toBe(`applyCached: \`ttl\`: unknown option; ${known}`);
    expect(messageOf(apply({ entityTags: { except: [] } }))).toContain("the only one is `exceptTypes`");
  });

  const cache = createCache({ defaultScope: "PUBLIC" });
  const client = { pipeline: () => undefined, duplicate: () => undefined, options: {} };
  /** Everything that takes options, each with a name that it does not have. */
  const OTHERS: readonly [caller: string, call: () => unknown, unknown: string][] = [
    [
      "memoryStore",
      () => memoryStore({ maxbytes: 2048 } as never),
      "`maxbytes`: unknown option; expected one of `maxBytes`, `clock`; did you mean `maxBytes`?",
    ],
    [
      "redisStore",
      () => redisStore({ url: "redis://localhost" } as never),
      "`url`: unknown option; expected one of `client`, `clock`; did you mean `client: new Redis(url)`?",
    ],
    [
      "memcachedStore",
      () => memcachedStore({ server: "localhost" } as never),
      "`server`: unknown option; expected one of `client`, `servers`, `maxEntryBytes`, `clock`, `random`; did you mean `servers`?",
    ],
    [
      "sqliteStore",
      () => sqliteStore({ path: "cache.db", size: 9 } as never),
      "`size`: unknown option; expected one of `path`, `database`, `maxBytes`, `clock`",
    ],
    [
      "bloomGuard",
      () => bloomGuard({ client, prefix: "p", name: "n", capacity: 9, ratio: 1 } as never),
      "`ratio`: unknown option; known are client, prefix, name, capacity, falsePositiveRatio, timeoutMs, clock; did you mean `falsePositiveRatio`?",
    ],
    [
      "cachedPlugin",
      () => cachedPlugin(cache, { alow: allow } as never),
      "`alow`: unknown option; expected one of `allow`, `responses`, `edge`; did you mean `allow`?",
    ],
    [
      "useCached",
      () => useCached(cache, { trace: true } as never),
      "`trace`: unknown option; expected one of `allow`, `responses`, `edge`",
    ],
    [
      "cachedHooks",
      () => cachedHooks(Fastify() as never, cache, { allowed: allow } as never),
      "`allowed`: unknown option; expected one of `allow`, `edge`; did you mean `allow`?",
    ],
    [
      "inspectionResolvers",
      () => inspectionResolvers(cache, { allow, alowArguments: allow } as never),
      "`alowArguments`: unknown option; expected one of `allow`",
    ],
  ];
  it.each(OTHERS)("is reported by %s", (caller, call, unknown) => {
    expect(messageOf(call)).toBe(`${caller}: ${unknown}`);
  });
});

describe("memory", () => {
  const EXPECTED =
    "`memory`: expected false, or an object with the optional properties maxBytes (an integer of at least 1) and maxStalenessMs (an integer from 0 to 2000)";
  const messageFor = (memory: unknown): string =>
    messageOf(() => createCache({ prefix: "a", memory: memory as never }));

  it("refuses `true` with what to write instead", () => {
    expect(messageFor(true)).toContain(`${EXPECTED}, got true; omit it, since memory is on by default`);
  });

  it.each([
    ["a longer staleness than two seconds", { maxStalenessMs: 2_001 }],
    ["a negative staleness", { maxStalenessMs: -1 }],
    ["a fraction", { maxStalenessMs: 0.5 }],
    ["no room", { maxBytes: 0 }],
    ["an unknown property", { maxByte: 7 }],
    ["a list", []],
    ["null", null],
    ["a number", 7],
  ])("refuses %s", (_, memory) => {
    expect(messageFor(memory)).toContain(EXPECTED);
  });

  it.each([[undefined], [false], [{}], [{ maxBytes: 1 }], [{ maxStalenessMs: 0 }], [{ maxStalenessMs: 2_000 }]])(
    "takes %j",
    (memory) => {
      expect(() => createCache({ prefix: "a", memory: memory as false | undefined })).not.toThrow();
    },
  );
});

describe("a duration that looks like milliseconds", () => {
  const hint = (setting: string, given: number, duration: string, meant: number): string =>
    `\`${setting}\` is in seconds, and ${given} are ${duration}; did you mean ${meant}?`;
  const GIVEN: readonly [given: number, duration: string, meant: number][] = [
    [10_000, "2.8 hours", 10],
    [30_000, "8.3 hours", 30],
    [60_000, "16.7 hours", 60],
    [300_000, "3.5 days", 300],
    [900_000, "10.4 days", 900],
    [3_600_000, "41.7 days", 3_600],
    [86_400_000, "1000 days", 86_400],
  ];

  it.each(GIVEN)("is reported for fields, types, loaders and defaults: %d", async (given, duration, meant) => {
    const expected = hint("maxAge", given, duration, meant);
    const { lines, logger } = log();
    const cache = createCache({ defaultScope: "PUBLIC", logger, defaults: { staleIfError: given } });
    cache.loader({ name: "L", maxAge: given, batch });
    const sdl = `type Query { a: Int @cached(maxAge: ${given}) b: T } type T @cached(maxAge: 1, staleWhileRevalidate: ${given}) { id: Int }`;
    applyCached(schemaOf(sdl, { Query: { a: () => 1, b: () => ({}) } }), cache);
    expect(lines).toEqual([
      `createCache: \`defaults\`: ${hint("staleIfError", given, duration, meant)}`,
      `cache.loader("L"): ${expected}`,
      `@cached on \`T\`: ${hint("staleWhileRevalidate", given, duration, meant)}`,
      `@cached on \`Query.a\`: ${expected}`,
    ]);
  });

  it.each([
    0, 60, 1_000, 5_000, 3_600, 10_800, 18_000, 36_000, 86_400, 432_000, 604_800, 2_592_000, 31_536_000, 12_345,
    2_147_483_647,
  ])("is not %d, which people write in seconds", (given) => {
    const { lines, logger } = log();
    const cache = createCache({ defaultScope: "PUBLIC", logger });
    applyCached(schemaOf(`type Query { a: Int @cached(maxAge: ${given}) }`), cache);
    expect(lines).toEqual([]);
  });
});

describe("@cached on a field without a resolver", () => {
  const sdl =
    "type Query { movie: Movie @cached(maxAge: 60) top: Int @cached(maxAge: 60) } type Movie { id: ID! title: String @cached(maxAge: 60) stars: Int @cached(maxAge: 60) }";
  const line =
    "@cached on fields without a resolver, which read a property of their parent, so that nothing is saved: `Query.top`, `Movie.title`; give them a resolver, or cache the field that loads the parent; it is right if the property is a method, as with rootValue";

  it("is reported once when the schema is applied", () => {
    const { lines, logger } = log();
    const resolvers = { Query: { movie: () => ({ id: 1 }) }, Movie: { stars: () => 1 } };
    const cache = createCache({ defaultScope: "PUBLIC", logger });
    applyCached(schemaOf(sdl, resolvers), cache);
    expect(lines).toEqual([line]);
  });

  it("is not reported if the schema has no resolvers at all, since the parents have methods then", async () => {
    const { lines, logger } = log();
    const cache = createCache({ defaultScope: "PUBLIC", logger });
    const schema = applyCached(schemaOf(sdl), cache);
    const rootValue = { top: () => 7 };
    expect((await graphql({ schema, source: "{ top }", rootValue })).data).toEqual({ top: 7 });
    expect(lines).toEqual([]);
  });
});

describe("messages that name a remedy", () => {
  it("name a loader's own options, and not `key`", async () => {
    const { lines, logger } = log();
    const cache = createCache({ defaultScope: "PUBLIC", logger });
    const loader = cache.loader({
      name: "Movie",
      maxAge: 60,
      batch: async (ids: readonly number[], { tenant }: { tenant: string }) => ids.map(() => tenant),
    });
    await loader({ tenant: "a" }).load(1);
    await cache.close();
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("`context.tenant`");
    expect(lines[0]).toContain("`Movie`");
    expect(lines[0]).toContain("id of the loader");
    expect(lines[0]).not.toContain("`key`");
  });

  it.each([
    [
      "a stream of Node.js",
      () => Readable.from(["a"]),
      "a stream can be read once; read it to its end and return the data",
    ],
    [
      "a web stream",
      () => new Blob(["a"]).stream(),
      "a stream can be read once; read it to its end and return the data",
    ],
    ["an async generator", async function* () {}, "a stream can be read once; read it to its end and return the data"],
    ["a response", () => new Response("{}"), "read it, with .json() or .text(), and return the data"],
    ["headers", () => new Headers(), "return plain data made of it"],
    ["an emitter", () => new EventTarget(), "return plain data made of it"],
  ])("tell what to do about %s, which is no entity", async (_, make, remedy) => {
    const { lines, logger } = log();
    const cache = createCache({ defaultScope: "PUBLIC", logger });
    const schema = applyCached(
      schemaOf("scalar Any type Query { a: Any @cached(maxAge: 60) }", { Query: { a: () => ({ body: make() }) } }),
      cache,
    );
    await graphql({ schema, source: "{ a }" });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(remedy);
    expect(lines[0]).not.toContain("{ is, encode, decode }");
  });
});
