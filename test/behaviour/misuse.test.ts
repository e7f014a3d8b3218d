import { makeExecutableSchema } from "@graphql-tools/schema";
import {
  applyCached,
  CachedError,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  memoryStore,
} from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
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
    createCache(options as CacheOptions),
  );

describe("invalid options", () => {
  it("reports all invalid options at once, each with the expected and the given value", () => {
    const { code, message } = errorOf(() =>
      createCache({ leases: { leaseMs: "3s" }, prefx: "x", prefix: "a b", defaults: { maxAge: 1.5 } } as never),
    );
    expect(code).toBe("CACHED_OPTION_INVALID");
    expect(message).toContain('`leaseMs` must be a whole number of milliseconds, 100 or more, "3s" came');
    expect(message).toContain("`prefx` is not an option; there are store, prefix,");
    expect(message).toContain('`prefix` must be letters, digits and any of _ . : -, "a b" came');
    expect(message).toContain("defaults: `maxAge` must be a whole number of seconds, 0 or more, 1.5 came");
  });

  it("explains invalid storage options without ever showing an encryption key", () => {
    const secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0";
    const messages: [CacheOptions, string][] = [
      [
        { codec: { encode: () => "" } as never },
        "`codec` must be an object with the methods encode and decode, an object came",
      ],
      [
        { codec: { id: "a b", encode: () => "", decode: () => 0 } },
        "`codec` must be an object whose `id` is 1 to 32 letters, digits and any of _ . : -, an object came",
      ],
      [
        { storage: { compressAboveBytes: -1 } },
        "`compressAboveBytes` must be a whole number of bytes, 0 to 268435456, -1 came",
      ],
      [
        { storage: { maxValueBytes: "1mb" as never } },
        '`maxValueBytes` must be a whole number of bytes, 0 to 268435456, "1mb" came',
      ],
      [
        { types: [] as never },
        "`types` must be an object of value types by name, each { is, encode, decode }, an array came",
      ],
      [
        {
          types: {
            Date: { is: () => true, encode: () => 0, decode: () => 0 },
            "a b": { is: () => true, encode: () => 0, decode: () => 0 },
            Money: { is: () => true } as never,
          },
        },
        "`types` must be an object of value types by name, each { is, encode, decode } (the name `Date` is taken: the codecs store it by themselves, " +
          '"a b" is no name of letters, digits and _ . -, `Money` lacks the function encode and the function decode), an object came',
      ],
      [
        { encryption: secret as never },
        "`encryption` must be { keys: [{ id, key }, …] }, the first of which encrypts, something else came",
      ],
      [
        { encryption: { keys: [{ id: "a", key: secret }] } },
        "`encryption` must be { keys: [{ id, key }, …] }, the first of which encrypts (`keys[0].key` must be 32 bytes, or their base64), something else came",
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
      "createCache: `types` needs a codec with the method `withTypes`, such as the JSON codec or `msgpackrCodec()`, and the given `codec` has none; " +
        "let your codec write these classes itself, or leave `codec` out",
    );
  });

  it("names the profile that has an invalid setting", () => {
    expect(errorOf(() => createCache({ profiles: { hot: { jitter: 2 } } })).message).toBe(
      "createCache: profile `hot`: `jitter` must be a number from 0 to 1, 2 came",
    );
  });

  it("names the store that has an invalid option", () => {
    expect(errorOf(() => memoryStore({ maxBytes: 7 })).message).toContain(
      "`maxBytes`: expected an integer of at least 1024, got 7",
    );
    expect(errorOf(() => redisStore({ client: {} as never })).message).toContain(
      "`client`: expected an ioredis client, got an object",
    );
    expect(
      errorOf(() =>
        redisStore({ client: { pipeline: () => 0, duplicate: () => 0, options: { keyPrefix: "x" } } as never }),
      ).message,
    ).toContain("keyPrefix");
  });

  it("lists every mistake of a loader", () => {
    const { message } = errorOf(() =>
      createCache().loader({ name: "a.b", batch: 7, maxAge: -1, tagz: 1, maxBatchSize: 0 } as never),
    );
    for (const part of [
      "`name` must be a GraphQL name",
      "`batch` must be a function, 7 came",
      "`maxAge` must be",
      "`tagz` is not a setting",
      "`maxBatchSize` must be",
    ])
      expect(message).toContain(part);
  });

  it("requires `allow` for the inspection resolvers", () => {
    expect(errorOf(() => inspectionResolvers(createCache(), {} as never)).message).toContain(
      "`allow` must be a function",
    );
  });
});

describe("schema mistakes", () => {
  const mistakes: Record<string, [typeDefs: string, code: string, message: string]> = {
    "@cached on a mutation field": [
      "type Query { a: Int } type Mutation { rate: Int @cached(maxAge: 1) }",
      "CACHED_POLICY_INVALID",
      "`Mutation.rate`: fields of the mutation and subscription types are never cached; remove `@cached`",
    ],
    "@cached on a subscription field": [
      "type Query { a: Int } type Subscription { rated: Int @cached(maxAge: 1) }",
      "CACHED_POLICY_INVALID",
      "`Subscription.rated`: fields of the mutation and subscription types are never cached; remove `@cached`",
    ],
    "a default key without a parent id": [
      "type Query { a: Thing } type Thing { b: Int @cached(maxAge: 1) }",
      "CACHED_POLICY_INVALID",
      '`Thing.b`: the default key needs `Thing.id`, which does not exist; say what identifies the parent, such as key: ["$args", "$source.code"]',
    ],
    "PRIVATE without identify": [
      "type Query { me: Int @cached(maxAge: 1, scope: PRIVATE) }",
      "CACHED_SCOPE_MISSING",
      "`Query.me`: scope PRIVATE needs to know who is asking; give createCache({ identify: (context) => … })",
    ],
    "a key path that does not exist": [
      'type Query { a(id: ID): Int @cached(maxAge: 1, key: ["$args.ident"]) }',
      "CACHED_POLICY_INVALID",
      "`Query.a`: `$args.ident` leads nowhere: where `ident` was expected there is `id`",
    ],
    "a key path to a missing input field": [
      'input F { genre: String } type Query { a(f: F): Int @cached(maxAge: 1, key: ["$args.f.year"]) }',
      "CACHED_POLICY_INVALID",
      "`Query.a`: `$args.f.year` leads nowhere: where `year` was expected there is `genre`",
    ],
    "a key that is not a path": [
      'type Query { a: Int @cached(maxAge: 1, key: ["id"]) }',
      "CACHED_POLICY_INVALID",
      '`Query.a`: `key` has "id", which is no path; write $args.id, $source.id, $context.locale or $selection',
    ],
    "a $source path on a root field": [
      'type Query { a: Int @cached(maxAge: 1, tags: ["A:{$source.id}"]) }',
      "CACHED_POLICY_INVALID",
      "`Query.a`: `$source.id` leads nowhere: a field of the query type has no parent object",
    ],
    "a malformed tag": [
      'type Query { a: Int @cached(maxAge: 1, tags: ["A:{id}"]) }',
      "CACHED_POLICY_INVALID",
      '`Query.a`: `tags` has "A:{id}", which is no tag; write Movie:{$args.id} or Movie:{$result[].id}',
    ],
    "a negative maxAge": [
      "type Query { a: Int @cached(maxAge: -1) }",
      "CACHED_POLICY_INVALID",
      "`Query.a`: `maxAge` must be a whole number of seconds, 0 or more, -1 came",
    ],
    "a negativeMaxAge above maxAge": [
      "type Query { a: Int @cached(maxAge: 1, negativeMaxAge: 2) }",
      "CACHED_POLICY_INVALID",
      "`Query.a`: `negativeMaxAge` must be at most maxAge (1), 2 came",
    ],
    "a missing maxAge": [
      "type Query { a: Int @cached }",
      "CACHED_POLICY_INVALID",
      "`Query.a`: no `maxAge` is said, neither here nor by a profile or the defaults; say `maxAge`, in seconds",
    ],
    "an unknown profile": [
      'type Query { a: Int @cached(profile: "hot") }',
      "CACHED_POLICY_INVALID",
      '`Query.a`: the profile "hot" does not exist; createCache({ profiles }) has none',
    ],
    "a field under an auth directive without a scope": [
      "type Query { a: Int @auth @cached(maxAge: 1) }",
      "CACHED_SCOPE_MISSING",
      "`Query.a`: it is under `@auth`, and the field does not say who may share its value; say scope: PRIVATE there, or scope: PUBLIC if all who may see it see the same",
    ],
    "@cached on a field of an interface": [
      "interface I { a: Int @cached(maxAge: 1) } type Query implements I { a: Int }",
      "CACHED_POLICY_INVALID",
      "`I.a`: a field of an interface has no resolver; put `@cached` on the fields of the object types",
    ],
  };
  for (const [name, [typeDefs, code, message]] of Object.entries(mistakes))
    it(`rejects ${name} with its coordinate and a remedy`, () => {
      expect(errorOf(() => applySchema(typeDefs))).toMatchObject({ code, message });
    });

  it("rejects a directive argument of the wrong type with its coordinate", () => {
    expect(errorOf(() => applySchema('type Query { a: Int @cached(maxAge: "1 min") }')).message).toContain(
      "`Query.a`: `@cached` has an argument that cannot be read:",
    );
    expect(errorOf(() => applySchema("type Query { a: Int @cached(maxAge: 1, scope: SHARED) }")).message).toContain(
      "`Query.a`: ",
    );
  });

  it("reports all mistakes of a schema together", () => {
    const fields = Array.from({ length: 50 }, (_, index) => `f${index}: Int @cached(maxAge: -${index + 1})`).join(" ");
    const { code, message } = errorOf(() => applySchema(`type Query { ${fields} }`));
    expect(code).toBe("CACHED_SCHEMA_INVALID");
    expect(message).toContain("the schema has 50 mistakes in its use of the cache");
    for (let index = 0; index < 50; index++) expect(message).toContain(`\`Query.f${index}\``);
  });
});

describe("invalidation targets", () => {
  const cache = createCache();
  applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, "enum G { A B } type Query { top(n: Int = 10, g: G): Int @cached(maxAge: 1) }"],
    }),
    cache,
  );

  it("rejects a coordinate that is not cached", async () => {
    await expect(cache.invalidate({ coordinate: "Query.tpo" })).rejects.toMatchObject({
      code: "CACHED_COORDINATE_UNKNOWN",
      message: "`Query.tpo` was expected to be a cached field of a schema given to applyCached; there are Query.top",
    });
  });

  it("rejects arguments that do not match the schema", async () => {
    await expect(cache.invalidate({ coordinate: "Query.top", args: { m: 1 } })).rejects.toMatchObject({
      code: "CACHED_KEY_UNUSABLE",
      message: "`Query.top`: it has no argument `m`; there are n, g",
    });
    await expect(cache.invalidate({ coordinate: "Query.top", args: { g: "C" } })).rejects.toMatchObject({
      code: "CACHED_KEY_UNUSABLE",
    });
  });

  it("rejects tags that are not a list of strings", async () => {
    await expect(cache.invalidateTags("Movie:7" as never)).rejects.toMatchObject({ code: "CACHED_OPTION_INVALID" });
  });
});
