import { outboxSql } from "@graphql-cached/postgres";
import { bloomGuard } from "@graphql-cached/redis-bloom";
import { chaosStore } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import {
  applyCached,
  CachedError,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  memoryStore,
} from "graphql-cached";
import { type RedisClient, redisStore } from "graphql-cached/redis";
import { describe, expect, it } from "vitest";

/** Returns the CachedError that `act` throws. */
function errorOf(act: () => unknown): CachedError {
  try {
    act();
  } catch (error) {
    if (error instanceof CachedError) return error;
    throw error;
  }
  throw new Error("expected act() to throw");
}

const applySchema = (typeDefs: string, options: CacheOptions<never> = {}): unknown =>
  applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, "directive @auth on FIELD_DEFINITION | OBJECT", typeDefs] }),
    createCache({ defaultScope: "PUBLIC", ...(options as CacheOptions) }),
  );

describe("invalid options", () => {
  it("reports all invalid options at once, each with the expected and the given value", () => {
    const { code, message } = errorOf(() =>
      createCache({ leases: { leaseMs: "3s" }, prefx: "x", prefix: "a b", defaults: { maxAge: 1.5 } } as never),
    );
    expect(code).toBe("CACHED_OPTION_INVALID");
    expect(message).toContain('`leases.leaseMs`: expected an integer of at least 100 (milliseconds), got "3s"');
    expect(message).toContain("`prefx`: unknown option; expected one of `store`, `prefix`,");
    expect(message).toContain('`prefix`: expected a string of letters, digits and any of _ . : -, got "a b"');
    expect(message).toContain("`defaults`: `maxAge`: expected an integer of at least 0 (seconds), got 1.5");
  });

  it("names the upper bound of an option whose value exceeds it", () => {
    const { message } = errorOf(() =>
      createCache({ loads: { loadTimeoutMs: 2 ** 31, maxQueuedLoads: 2 ** 53 }, leases: { leaseMs: Infinity } }),
    );
    expect(message).toBe(
      "createCache: `loads.loadTimeoutMs`: expected an integer from 1 to 2147483647 (milliseconds), got 2147483648; " +
        "`loads.maxQueuedLoads`: expected an integer from 0 to 9007199254740991, got 9007199254740992; " +
        "`leases.leaseMs`: expected an integer from 100 to 2147483647 (milliseconds), got Infinity",
    );
    createCache({ loads: { loadTimeoutMs: 2 ** 31 - 1, maxQueuedLoads: 2 ** 53 - 1 } });
  });

  it("explains invalid storage options without ever showing an encryption key", () => {
    const secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0";
    const messages: [CacheOptions, string][] = [
      [
        { codec: { encode: () => "" } as never },
        "`codec`: expected an object with the methods encode and decode, got an object",
      ],
      [
        { codec: { id: "a b", encode: () => "", decode: () => 0 } },
        "`codec`: expected a codec whose `id` is 1 to 32 letters, digits and any of _ . : -, got an object",
      ],
      [
        { storage: { compressAboveBytes: -1 } },
        "`storage.compressAboveBytes`: expected an integer from 0 to 268435456 (bytes), got -1",
      ],
      [
        { loads: { errorBackoffMs: 0 } },
        "`loads.errorBackoffMs`: expected an integer of at least 1 (milliseconds), got 0; write `loads: { errorMaxAgeMs: 0 }` for errors that later callers do not get",
      ],
      [
        { loads: { errorMaxAgeMs: -1 } },
        "`loads.errorMaxAgeMs`: expected a function, or an integer of at least 0 (milliseconds), got -1",
      ],
      [
        { loads: { errorMaxAgeMs: "1s" as never } },
        '`loads.errorMaxAgeMs`: expected a function, or an integer of at least 0 (milliseconds), got "1s"',
      ],
      [
        { storage: { maxValueBytes: "1mb" as never } },
        '`storage.maxValueBytes`: expected an integer from 0 to 268435456 (bytes), got "1mb"',
      ],
      [
        { types: [] as never },
        "`types`: expected an object of value types by name, each { is, encode, decode } and optionally keyOf, got an array",
      ],
      [
        {
          types: {
            Date: { is: () => true, encode: () => 0, decode: () => 0 },
            "a b": { is: () => true, encode: () => 0, decode: () => 0 },
            Money: { is: () => true } as never,
          },
        },
        "`types`: expected an object of value types by name, each { is, encode, decode } and optionally keyOf (`Date` is a reserved name; " +
          '"a b" is not a name of letters, digits and _ . -; `Money` is missing encode and decode), got an object',
      ],
      [
        { encryption: secret as never },
        "`encryption`: expected { keys: [{ id, key }, …] }, where the first key encrypts, got something else",
      ],
      [
        { encryption: { keys: [{ id: "a", key: secret }] } },
        "`encryption`: expected { keys: [{ id, key }, …] }, where the first key encrypts (`keys[0].key`: expected 32 bytes or their base64), got something else",
      ],
    ];
    for (const [options, message] of messages)
      expect(errorOf(() => createCache(options))).toMatchObject({
        code: "CACHED_OPTION_INVALID",
        message: `createCache: ${message}`,
      });
  });

  it("explains how to use value types when the codec does not support them", () => {
    const types = { Money: { is: () => true, encode: () => 0, decode: () => 0 } };
    const codec = { encode: () => "", decode: () => 0 };
    expect(errorOf(() => createCache({ types, codec })).message).toBe(
      "createCache: `types`: expected a codec with the method withTypes, got one without; encode these classes in your codec, or remove `codec`",
    );
  });

  it("requires a prefix for a store that other applications can use", () => {
    const client = { options: {}, pipeline: () => undefined, duplicate: () => undefined } as unknown as RedisClient;
    const { code, message } = errorOf(() => createCache({ store: redisStore({ client }) }));
    expect(code).toBe("CACHED_OPTION_INVALID");
    expect(message).toBe(
      "createCache: `prefix`: expected a name for this application, since any other one can use the same redis store and would share its entries, got undefined; " +
        'pass createCache({ prefix: "shop" }) with a name of your own',
    );
    for (const store of [undefined, memoryStore(), chaosStore(memoryStore())]) createCache({ store });
  });

  it("names the invalid setting of the defaults", () => {
    expect(errorOf(() => createCache({ defaults: { jitter: 2 } })).message).toBe(
      "createCache: `defaults`: `jitter`: expected a number from 0 to 1, got 2",
    );
  });

  it("says where an option belongs that is given outside of its group", () => {
    expect(errorOf(() => createCache({ leaseMs: 5_000, leases: { prefix: "x" } } as never)).message).toBe(
      "createCache: `leases.prefix`: unknown option here; write it outside of the group; " +
        "`leaseMs`: unknown option here; write { leases: { leaseMs } }",
    );
  });

  it("reports options that are invalid together with those that are invalid by themselves", () => {
    const store = Object.assign(memoryStore(), { isShared: true });
    const { message } = errorOf(() => createCache({ store, version: "" }));
    expect(message).toContain("`version`: expected");
    expect(message).toContain("`prefix`: expected a name for this application");
  });

  it("names the store that has an invalid option", () => {
    expect(errorOf(() => memoryStore({ maxBytes: 7 })).message).toContain(
      "`maxBytes`: expected an integer of at least 1024, got 7",
    );
    expect(errorOf(() => redisStore({ client: {} as never })).message).toContain(
      "`client`: expected an ioredis, iovalkey or node-redis client, got an object; pass `new Redis(url)` of ioredis or `await createClient({ url }).connect()` of node-redis",
    );
    expect(
      errorOf(() =>
        redisStore({ client: { pipeline: () => 0, duplicate: () => 0, options: { keyPrefix: "x" } } as never }),
      ).message,
    ).toContain("keyPrefix");
  });

  it("lists every mistake of a loader", () => {
    const { message } = errorOf(() =>
      createCache({ defaultScope: "PUBLIC" }).loader({
        name: "a.b",
        batch: 7,
        maxAge: -1,
        tagz: 1,
        maxBatchSize: 0,
      } as never),
    );
    for (const part of [
      'cache.loader("a.b"): ',
      '`name`: expected letters, digits and any of _ : - (a dot is for fields), got "a.b"',
      "`batch`: expected a function, got 7",
      "`maxAge`: expected an integer",
      "`tagz`: unknown setting; expected one of `maxAge`,",
      "`maxBatchSize`: expected an integer of at least 1, got 0",
    ])
      expect(message).toContain(part);
  });

  for (const [name, value, given] of [
    ["a bigint", 60n, "60"],
    ["a symbol", Symbol("60"), "an instance of Symbol"],
    ["an object without a prototype", Object.create(null), "an object"],
  ] as const)
    for (const setting of ["maxAge", "maxAgeLimit", "negativeMaxAge", "staleWhileRevalidate", "staleIfError"])
      it(`rejects ${name} as the ${setting} of a loader`, () => {
        const settings = { maxAge: 60, [setting]: value as never };
        const batch = async (ids: readonly number[]) => ids;
        expect(
          errorOf(() => createCache({ defaultScope: "PUBLIC" }).loader({ name: "A", batch, ...settings })),
        ).toMatchObject({
          code: "CACHED_OPTION_INVALID",
          message: `cache.loader("A"): \`${setting}\`: expected an integer of at least 0 (seconds), got ${given}`,
        });
      });

  it("rejects an object without a prototype as the name or the version of a loader", () => {
    const bare = Object.create(null) as never;
    const batch = async (ids: readonly number[]) => ids;
    const { message } = errorOf(() =>
      createCache({ defaultScope: "PUBLIC" }).loader({ name: bare, batch, version: bare }),
    );
    expect(message).toBe(
      "cache.loader: `version`: expected a non-empty string, got an object; `name`: expected letters, digits and any of _ : - (a dot is for fields), got an object",
    );
  });

  it("says what it expects of a function that gets null instead of options", () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const none = null as never;
    const messages: readonly [act: () => unknown, message: string][] = [
      [() => createCache(none), "createCache: expected an object of options, got null"],
      [() => cache.loader(none), "cache.loader: expected an object of options, got null"],
      [() => memoryStore(none), "memoryStore: expected an object of options, got null"],
      [() => redisStore(none), "redisStore: expected an object of options, got null"],
      [() => redisStore(undefined as never), "redisStore: expected an object of options, got undefined"],
      [() => bloomGuard(none), "bloomGuard: expected an object of options, got null"],
      [() => outboxSql(none), "outboxSql: expected an object of options, got null"],
    ];
    for (const [act, message] of messages)
      expect(errorOf(act)).toMatchObject({ code: "CACHED_OPTION_INVALID", message });
  });

  it("requires `allow` for the inspection resolvers", () => {
    expect(errorOf(() => inspectionResolvers(createCache({ defaultScope: "PUBLIC" }), {} as never)).message).toContain(
      "`allow`: expected a function",
    );
  });
});

describe("schema mistakes", () => {
  const mistakes: Record<string, [typeDefs: string, code: string, message: string]> = {
    "@cached on a mutation field": [
      "type Query { a: Int } type Mutation { rate: Int @cached(maxAge: 1) }",
      "CACHED_POLICY_INVALID",
      "@cached on `Mutation.rate`: mutation and subscription fields are never cached; remove `@cached`",
    ],
    "@cached on a nested mutation field": [
      "type Query { a: Int } type Mutation { movies: Movies! } type Movies { id: ID rate: Int @cached(maxAge: 1) }",
      "CACHED_POLICY_INVALID",
      "@cached on `Movies.rate`: only mutations can ask for this field, and a hit would skip what it does; remove `@cached`, or move the field to a type that queries reach",
    ],
    "@cached on a subscription field": [
      "type Query { a: Int } type Subscription { rated: Int @cached(maxAge: 1) }",
      "CACHED_POLICY_INVALID",
      "@cached on `Subscription.rated`: mutation and subscription fields are never cached; remove `@cached`",
    ],
    "a default key without a parent id": [
      "type Query { a: Thing } type Thing { b: Int @cached(maxAge: 1) }",
      "CACHED_POLICY_INVALID",
      '@cached on `Thing.b`: `key`: the default key needs `Thing.id`, which does not exist; name what identifies the parent, such as key: ["$args", "$source.code"], or for all of its fields, in `idFields` of applyCached',
    ],
    "PRIVATE without identify": [
      "type Query { me: Int @cached(maxAge: 1, scope: PRIVATE) }",
      "CACHED_SCOPE_MISSING",
      "@cached on `Query.me`: `scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })",
    ],
    "a key path that does not exist": [
      'type Query { a(id: ID): Int @cached(maxAge: 1, key: ["$args.ident"]) }',
      "CACHED_POLICY_INVALID",
      "@cached on `Query.a`: `$args.ident`: unknown argument or input field `ident`; expected one of `id`",
    ],
    "a key path to a missing input field": [
      'input F { genre: String } type Query { a(f: F): Int @cached(maxAge: 1, key: ["$args.f.year"]) }',
      "CACHED_POLICY_INVALID",
      "@cached on `Query.a`: `$args.f.year`: unknown argument or input field `year`; expected one of `genre`",
    ],
    "a key that is not a path": [
      'type Query { a: Int @cached(maxAge: 1, key: ["id"]) }',
      "CACHED_POLICY_INVALID",
      '@cached on `Query.a`: `key`: expected paths such as $args.id, $source.id, $context.locale or $selection, got "id"',
    ],
    "a $source path on a root field": [
      'type Query { a: Int @cached(maxAge: 1, tags: ["A:{$source.id}"]) }',
      "CACHED_POLICY_INVALID",
      "@cached on `Query.a`: `$source.id`: root fields have no parent object; use arguments, such as $args.id",
    ],
    "a malformed tag": [
      'type Query { a: Int @cached(maxAge: 1, tags: ["A:{id}"]) }',
      "CACHED_POLICY_INVALID",
      '@cached on `Query.a`: `tags`: expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got "A:{id}"',
    ],
    "a negative maxAge": [
      "type Query { a: Int @cached(maxAge: -1) }",
      "CACHED_POLICY_INVALID",
      "@cached on `Query.a`: `maxAge`: expected an integer of at least 0 (seconds), got -1",
    ],
    "a negativeMaxAge above maxAge": [
      "type Query { a: Int @cached(maxAge: 1, negativeMaxAge: 2) }",
      "CACHED_POLICY_INVALID",
      "@cached on `Query.a`: `negativeMaxAge`: expected an integer of at most `maxAge` (1), got 2",
    ],
    "a missing maxAge": [
      "type Query { a: Int @cached }",
      "CACHED_POLICY_INVALID",
      "@cached on `Query.a`: `maxAge`: expected an integer of at least 0 (seconds), got nothing; set it here or in createCache({ defaults })",
    ],
    "a field under an auth directive without a scope": [
      "type Query { a: Int @auth @cached(maxAge: 1) }",
      "CACHED_SCOPE_MISSING",
      "@cached on `Query.a`: `scope`: expected a declaration on the field itself, since `@auth` covers it, got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the field gets the same value and its resolver does not check that",
    ],
    "@cached on a field of an interface": [
      "interface I { a: Int @cached(maxAge: 1) } type Query implements I { a: Int }",
      "CACHED_POLICY_INVALID",
      "@cached on `I.a`: interface fields have no resolver; put `@cached` on the fields of the object types",
    ],
  };
  for (const [name, [typeDefs, code, message]] of Object.entries(mistakes))
    it(`rejects ${name} with its coordinate and a remedy`, () => {
      expect(errorOf(() => applySchema(typeDefs))).toMatchObject({ code, message });
    });

  it("rejects a directive argument of the wrong type with its coordinate", () => {
    expect(errorOf(() => applySchema('type Query { a: Int @cached(maxAge: "1 min") }')).message).toContain(
      "@cached on `Query.a`: invalid argument:",
    );
    expect(errorOf(() => applySchema("type Query { a: Int @cached(maxAge: 1, scope: SHARED) }")).message).toContain(
      "@cached on `Query.a`: ",
    );
  });

  it("reports all mistakes of a schema together", () => {
    const fields = Array.from({ length: 50 }, (_, index) => `f${index}: Int @cached(maxAge: -${index + 1})`).join(" ");
    const { code, message } = errorOf(() => applySchema(`type Query { ${fields} }`));
    expect(code).toBe("CACHED_SCHEMA_INVALID");
    expect(message).toContain("applyCached: found 50 mistakes in the schema");
    for (let index = 0; index < 50; index++) expect(message).toContain(`\`Query.f${index}\``);
  });
});

describe("invalidation targets", () => {
  const cache = createCache({ defaultScope: "PUBLIC" });
  applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, "enum G { A B } type Query { top(n: Int = 10, g: G): Int @cached(maxAge: 1) }"],
    }),
    cache,
  );

  it("rejects a coordinate that is not cached", async () => {
    await expect(cache.invalidate({ coordinate: "Query.tpo" })).rejects.toMatchObject({
      code: "CACHED_COORDINATE_UNKNOWN",
      message: "`Query.tpo`: expected a cached field of a schema passed to applyCached; known fields: Query.top",
    });
  });

  it("rejects arguments that do not match the schema", async () => {
    await expect(cache.invalidate({ coordinate: "Query.top", args: { m: 1 } })).rejects.toMatchObject({
      code: "CACHED_KEY_UNUSABLE",
      message: "`Query.top`: unknown argument `m`; known arguments: n, g",
    });
    await expect(cache.invalidate({ coordinate: "Query.top", args: { g: "C" } })).rejects.toMatchObject({
      code: "CACHED_KEY_UNUSABLE",
    });
  });

  it("rejects tags that are not a list of strings", async () => {
    await expect(cache.invalidateTags("Movie:7" as never)).rejects.toMatchObject({ code: "CACHED_OPTION_INVALID" });
  });
});

describe("cache.mutate", () => {
  const mistakes: Readonly<Record<string, readonly [target: unknown, message: string]>> = {
    "a misspelled property": [{ tag: ["M:7"] }, "`tag`: unknown property; known are tags, entries"],
    "the target of a loader's entry": [
      { id: 7, loader: "M" },
      "`loader`: expected `tags` or `entries`, got the target of an entry; " +
        'write { entries: [{ loader: "Movie", id: 7 }] }',
    ],
    "the target of a field's entry": [
      { coordinate: "Query.top", args: {} },
      "`coordinate`: expected `tags` or `entries`, got the target of an entry; " +
        'write { entries: [{ coordinate: "Query.movie", args: { id: 7 } }] }',
    ],
    "no target": [null, '`target`: expected an object such as { tags: ["Movie:7"] }, got null'],
    "a list of tags": [["M:7"], '`target`: expected an object such as { tags: ["Movie:7"] }, got an array'],
    "entries that are not in an array": [
      { entries: { loader: "M", id: 7 } },
      '`entries`: expected an array of targets such as { coordinate: "Query.movie", args: { id: 7 } }, got an object',
    ],
    "an entry that is not a target": [
      { entries: [null] },
      '`entries[0]`: expected an object such as { coordinate: "Query.movie", args: { id: 7 } }, got null',
    ],
  };
  for (const [name, [target, message]] of Object.entries(mistakes))
    it(`does not write, and says what it expects, if it gets ${name}`, async () => {
      const cache = createCache({ defaultScope: "PUBLIC" });
      let writes = 0;
      await expect(cache.mutate(target as never, () => ++writes)).rejects.toMatchObject({
        code: "CACHED_OPTION_INVALID",
        message: `cache.mutate: ${message}`,
      });
      expect(writes).toBe(0);
    });

  it("invalidates nothing if it gets no function that writes", async () => {
    const events: CacheEvent[] = [];
    const cache = createCache({ defaultScope: "PUBLIC", onEvent: (event) => events.push(event) });
    await expect(cache.mutate({ tags: ["M:7"] }, undefined as never)).rejects.toMatchObject({
      code: "CACHED_OPTION_INVALID",
      message: "cache.mutate: `write`: expected a function that makes the change, got undefined",
    });
    expect(events).toEqual([]);
  });

  it("writes if there is nothing to invalidate", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    for (const target of [{}, { tags: undefined, entries: undefined }, { tags: [], entries: [] }])
      expect(await cache.mutate(target, () => "written")).toBe("written");
  });
});
