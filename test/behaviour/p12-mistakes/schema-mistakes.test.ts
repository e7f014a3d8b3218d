import { Readable } from "node:stream";
import { GraphQLObjectType, GraphQLSchema, GraphQLString, graphql } from "graphql";
import { applyCached, type CachedError } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { errorOf, listen, schemaOf } from "../../support/listen.js";

const seconds = (setting: string, got: string): string =>
  `\`${setting}\`: expected an integer of at least 0 (seconds), got ${got}`;
const JITTER = "`jitter`: expected a number from 0 to 1, got";
const isNoPath = (got: string): string =>
  `\`key\`: expected paths such as $args.id, $source.id, $context.locale or $selection, got "${got}"`;
const isNoTag = (got: string): string =>
  `\`tags\`: expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got "${got}"`;
const isUnknown = (path: string, name: string, known = "`genre`, `inner`"): string =>
  `\`${path}\`: unknown argument or input field \`${name}\`; expected one of ${known}`;
const ROOTLESS = "`$source.id`: root fields have no parent object; use arguments, such as $args.id";
const NEVER = "mutation and subscription fields are never cached; remove `@cached`";
const SHARED =
  "`scope`: expected a declaration on the field itself, since `@auth` covers it, got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the field gets the same value and its resolver does not check that";
/** The message, or how it ends: graphql-js words what is wrong with the type of an argument. */
type Mistake = string | RegExp;
const ofType = (type: string): Mistake => endsWith(`Expected a value of the type ${type}.`);
const endsWith = (text: string): Mistake => new RegExp(`^invalid argument: [^]*${text.replaceAll(/[[\]]/g, "\\$&")}`);
const isNoScope = endsWith("Expected one of PUBLIC, PRIVATE, without quotes.");

/** Directives of query fields with the arguments `(id: ID, f: F)`. */
const FIELDS: Readonly<Record<string, Mistake>> = {
  "@cached": `${seconds("maxAge", "nothing")}; set it here or in createCache({ defaults })`,
  "@cached(maxAge: -1)": seconds("maxAge", "-1"),
  "@cached(maxAge: 1, staleWhileRevalidate: -2)": seconds("staleWhileRevalidate", "-2"),
  "@cached(maxAge: 1, staleIfError: -3)": seconds("staleIfError", "-3"),
  "@cached(maxAge: 5, negativeMaxAge: -4)": seconds("negativeMaxAge", "-4"),
  "@cached(maxAge: 5, negativeMaxAge: 6)": "`negativeMaxAge`: expected an integer of at most `maxAge` (5), got 6",
  "@cached(maxAge: 1, jitter: 2)": `${JITTER} 2`,
  "@cached(maxAge: 1, jitter: -0.5)": `${JITTER} -0.5`,
  "@cached(maxAge: 1, earlyRefresh: -1)": "`earlyRefresh`: expected a number of at least 0, got -1",
  '@cached(maxAge: "1 min")': ofType("Int"),
  "@cached(maxAge: 0.5)": ofType("Int"),
  '@cached(maxAge: 1, staleWhileRevalidate: "x")': ofType("Int"),
  "@cached(maxAge: 1, refresh: LATER)": endsWith("Expected one of "),
  "@cached(maxAge: 1, scope: SHARED)": isNoScope,
  "@cached(maxAge: 1, scope: private)": isNoScope,
  '@cached(maxAge: 1, scope: "PRIVATE")': isNoScope,
  '@cached(maxAge: 1, neverExpires: "yes")': ofType("Boolean"),
  '@cached(maxAge: 1, jitter: "some")': ofType("Float"),
  '@cached(maxAge: 1, earlyRefresh: "eager")': ofType("Float"),
  "@cached(maxAge: 1, tags: 7)": ofType("[String!]"),
  '@cached(maxAge: 1, version: "")': '`version`: expected a non-empty string, got ""',
  "@cached(maxAge: 1, scope: PRIVATE)":
    "`scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })",
  '@cached(maxAge: 1, key: [""])': isNoPath(""),
  '@cached(maxAge: 1, key: ["$result.id"])': isNoPath("$result.id"),
  '@cached(maxAge: 1, key: ["$args[]"])': isNoPath("$args[]"),
  '@cached(maxAge: 1, key: ["$selection.id"])': isNoPath("$selection.id"),
  '@cached(maxAge: 1, key: ["$args.__proto__"])': isNoPath("$args.__proto__"),
  '@cached(maxAge: 1, key: ["$variables.id"])': isNoPath("$variables.id"),
  '@cached(maxAge: 1, key: ["$args.ident"])': isUnknown("$args.ident", "ident", "`id`, `f`"),
  '@cached(maxAge: 1, key: ["$args.f.year"])': isUnknown("$args.f.year", "year"),
  '@cached(maxAge: 1, key: ["$args.f.inner.day"])': isUnknown("$args.f.inner.day", "day"),
  '@cached(maxAge: 1, key: ["$source.id"])': ROOTLESS,
  '@cached(maxAge: 1, tags: ["A:{$args.id"])': isNoTag("A:{$args.id"),
  '@cached(maxAge: 1, tags: ["A:{$args.no}"])': isUnknown("$args.no", "no", "`id`, `f`"),
  '@cached(maxAge: 1, tags: ["B:{$args.f.no}"])': isUnknown("$args.f.no", "no"),
  '@cached(maxAge: 1, tags: ["A:{$source.id}"])': ROOTLESS,
  "@auth @cached(maxAge: 1)": SHARED,
};

/** Mistakes in other places, by the directive and the coordinate. */
const ELSEWHERE: Readonly<Record<string, Mistake>> = {
  "@cached on `Mutation.a`": NEVER,
  "@invalidates on `Mutation.b`": ofType("[String!]!"),
  "@invalidates on `Mutation.c`": "`$args.no`: unknown argument or input field `no`; the field has no arguments",
  "@invalidates on `Mutation.d`": ROOTLESS,
  "@invalidates on `Mutation.e`": "`tags`: expected at least one tag, got none; name one, or remove it",
  "@cached on `Movies.rate`":
    "only mutations can ask for this field, and a hit would skip what it does; remove `@cached`, or move the field to a type that queries reach",
  "@invalidates on `Query.read`":
    "expected a field that only mutations can ask for, but queries and subscriptions reach `Query` as well; move it to a field of the mutation type, or call cache.invalidateTags in the resolver",
  "@cached on `Subscription.a`": NEVER,
  "@cached on `I.a`": "interface fields have no resolver; put `@cached` on the fields of the object types",
  "@invalidates on `I.b`": "interface fields have no resolver; put `@invalidates` on the fields of the object types",
  "@cached on `Thing.a`":
    '`key`: the default key needs `Thing.id`, which does not exist; name what identifies the parent, such as key: ["$args", "$source.code"], or for all of its fields, in `idFields` of applyCached',
  "@cached on `Guarded.a`": SHARED,
  "@cached on `Old`": seconds("maxAge", "-9"),
  "@cached on `Node`": `${JITTER} 9`,
  "@cached on `Found`": ofType("Int"),
};

const typeDefs = `
  directive @auth on FIELD_DEFINITION | OBJECT
  input F { genre: String inner: F }
  type Query {
    ${Object.keys(FIELDS).map((directives, index) => `f${index}(id: ID, f: F): Int ${directives}`)}
    read: Int @invalidates(tags: ["A"])
  }
  type Mutation {
    a: Int @cached(maxAge: 1)
    b: Int @invalidates(tags: [7])
    c: Int @invalidates(tags: ["A:{$args.no}"])
    d: Int @invalidates(tags: ["A:{$source.id}"])
    e: Int @invalidates(tags: [])
    movies: Movies
  }
  type Movies { id: ID rate: Int @cached(maxAge: 1) }
  type Subscription { a: Int @cached(maxAge: 1) }
  interface I { a: Int @cached(maxAge: 1) b: Int @invalidates(tags: ["A"]) }
  type Thing implements I { a: Int @cached(maxAge: 1) b: Int }
  type Guarded @auth { id: ID a: Int @cached(maxAge: 1) }
  type Old @cached(maxAge: -9) { id: ID }
  interface Node @cached(maxAge: 1, jitter: 9) { id: ID }
  union Found @cached(maxAge: "x") = Old | Thing
`;

describe("a mistake in a schema", () => {
  it("is reported together with fifty others, each with its coordinate, its code and a remedy", () => {
    const expected = [
      ...Object.values(FIELDS).map((mistake, index) => [`@cached on \`Query.f${index}\``, mistake] as const),
      ...Object.entries(ELSEWHERE),
    ];
    const { code, message, cause } = errorOf(() => applyCached(schemaOf(typeDefs), listen().cache));
    const causes = cause as CachedError[];
    expect(code).toBe("CACHED_SCHEMA_INVALID");
    const lines = causes.map((each) => `${each.message} [${each.code}]`);
    expect(message).toBe([`applyCached: found ${expected.length} mistakes in the schema:`, ...lines].join("\n- "));
    const found = Object.fromEntries(
      causes.map((each) => {
        const place = /^.*?`.*?`/.exec(each.message)?.[0] ?? "";
        return [`${place} ${each.coordinate} ${each.code}`, each.message.slice(place.length + 2)];
      }),
    );
    const isOf = ([place, mistake]: readonly [string, Mistake]) => {
      const code = String(mistake).startsWith("`scope`") ? "CACHED_SCOPE_MISSING" : "CACHED_POLICY_INVALID";
      const text = typeof mistake === "string" ? mistake : expect.stringMatching(mistake);
      return [`${place} ${/`(.*)`/.exec(place)?.[1]} ${code}`, text];
    };
    expect(found).toEqual(Object.fromEntries(expected.map(isOf)));
  });

  it("is reported by itself if it is the only one", () => {
    expect(
      errorOf(() => applyCached(schemaOf("type Query { a: Int @cached(maxAge: -1) }"), listen().cache)),
    ).toMatchObject({ code: "CACHED_POLICY_INVALID", message: `@cached on \`Query.a\`: ${seconds("maxAge", "-1")}` });
  });
});

describe("extensions.invalidates of a code-first schema", () => {
  const rated = { version: 0 };
  const codeFirst = (invalidates: unknown): GraphQLSchema => {
    const field = (name: string, resolve: () => unknown, extensions: Record<string, unknown>) =>
      new GraphQLObjectType({ name, fields: { top: { type: GraphQLString, resolve, extensions } } });
    return new GraphQLSchema({
      query: field("Query", () => rated.version, { cached: { maxAge: 60, tags: ["Top"] } }),
      mutation: field("Mutation", () => ++rated.version, { invalidates }),
    });
  };

  it.each([[{ tags: ["Top"] }], [[{ tags: ["Top"] }]]])(
    "invalidates as the directive does: %j",
    async (invalidates) => {
      const schema = applyCached(codeFirst(invalidates), listen().cache);
      const ask = async (source: string): Promise<unknown> => (await graphql({ schema, source })).data?.top;
      const before = await ask("{ top }");
      const after = await ask("mutation { top }");
      expect(after).not.toBe(before);
      expect(await ask("{ top }")).toBe(after);
    },
  );

  it.each([
    [{ tags: "Top" }, '@invalidates on `Mutation.top`: `tags`: expected an array of strings, got "Top"'],
    [["Top"], 'expected an object such as { tags: ["Movie:{$result.id}"] }, got "Top"'],
  ])("is refused with the expected form: %j", (invalidates, message) => {
    expect(errorOf(() => applyCached(codeFirst(invalidates), listen().cache)).message).toContain(message);
  });
});

/** Returns what is logged when a schema is applied. */
function warningsFor(sdl: string, resolvers: object = { Query: { a: () => 1, b: () => ({}) } }): readonly string[] {
  const { cache, warnings } = listen();
  applyCached(
    schemaOf(sdl, resolvers, { resolverValidationOptions: { requireResolversToMatchSchema: "ignore" } }),
    cache,
  );
  return warnings;
}

describe("a key without an argument that every call has to pass", () => {
  const keyed = (settings: string, args = "(id: ID!, locale: String)"): string =>
    `type Query { a${args}: ID @cached(${settings}) } input Of { id: ID }`;

  it.each([
    ["key: []", "`$args.id`", undefined],
    ['key: ["$args.locale"]', "`$args.id`", undefined],
    ["key: []", "`$args.id`, `$args.as`", "(id: ID!, as: Int!, n: Int! = 1)"],
  ])("is reported at start-up: %s", (key, names, args) => {
    expect(warningsFor(keyed(`maxAge: 60, ${key}`, args))).toEqual([
      expect.stringContaining(
        `@cached on \`Query.a\`: \`key\` leaves out ${names}, which every call has to pass, so calls that differ only there share one value`,
      ),
    ]);
  });

  it.each([
    ["maxAge: 60", undefined],
    ['maxAge: 60, key: ["$args"]', undefined],
    ['maxAge: 60, key: ["$args.id"]', undefined],
    ['maxAge: 60, key: ["$args.of.id"]', "(of: Of!)"],
    ["maxAge: 60, key: []", "(id: ID, n: Int! = 1)"],
    ["maxAge: 0, key: []", undefined],
  ])("is not reported if there is none: %s", (settings, args) => {
    expect(warningsFor(keyed(settings, args))).toEqual([]);
  });
});

describe("a duration that looks like milliseconds", () => {
  it.each([
    [10_000, "2.8 hours", 10],
    [30_000, "8.3 hours", 30],
    [60_000, "16.7 hours", 60],
    [300_000, "3.5 days", 300],
    [900_000, "10.4 days", 900],
    [3_600_000, "41.7 days", 3_600],
    [86_400_000, "1000 days", 86_400],
  ])("is reported for fields, types, loaders and defaults: %d", (given, duration, meant) => {
    const hint = (setting: string): string =>
      `\`${setting}\` is in seconds, and ${given} are ${duration}; did you mean ${meant}?`;
    const { cache, warnings } = listen({ defaults: { staleIfError: given } });
    cache.loader({ name: "L", maxAge: given, batch: async (ids: readonly number[]) => ids });
    const sdl = `type Query { a: Int @cached(maxAge: ${given}) b: T } type T @cached(maxAge: 1, staleWhileRevalidate: ${given}) { id: Int }`;
    applyCached(schemaOf(sdl, { Query: { a: () => 1, b: () => ({}) } }), cache);
    expect(warnings).toEqual([
      `createCache: \`defaults\`: ${hint("staleIfError")}`,
      `cache.loader("L"): ${hint("maxAge")}`,
      `@cached on \`T\`: ${hint("staleWhileRevalidate")}`,
      `@cached on \`Query.a\`: ${hint("maxAge")}`,
    ]);
  });

  const WRITTEN = [0, 60, 1_000, 5_000, 3_600, 10_800, 18_000, 36_000, 86_400, 432_000, 604_800, 2_592_000, 31_536_000];
  it.each([...WRITTEN, 12_345, 2_147_483_647])("is not %d, which people write in seconds", (given) => {
    expect(warningsFor(`type Query { a: Int @cached(maxAge: ${given}) }`)).toEqual([]);
  });
});

describe("@cached on a field without a resolver", () => {
  const sdl = `
    type Query { movie: Movie @cached(maxAge: 60) top: Int @cached(maxAge: 60) }
    type Movie { id: ID! title: String @cached(maxAge: 60) stars: Int @cached(maxAge: 60) }
  `;

  it("is reported once when the schema is applied", () => {
    expect(warningsFor(sdl, { Query: { movie: () => ({ id: 1 }) }, Movie: { stars: () => 1 } })).toEqual([
      "@cached on fields without a resolver, which read a property of their parent, so that nothing is saved: `Query.top`, `Movie.title`; give them a resolver, or cache the field that loads the parent; it is right if the property is a method, as with rootValue",
    ]);
  });

  it("is not reported if the schema has no resolvers at all, since the parents have methods then", async () => {
    const { cache, warnings } = listen();
    const schema = applyCached(schemaOf(sdl), cache);
    expect((await graphql({ schema, source: "{ top }", rootValue: { top: () => 7 } })).data).toEqual({ top: 7 });
    expect(warnings).toEqual([]);
  });
});

describe("a tag of @invalidates that no cached field has", () => {
  const sdl = (tag: string): string =>
    `type Query { a(id: ID): Int @cached(maxAge: 1, tags: ["Pp:{$args.id}"]) } type Mutation { m(id: ID): Int @invalidates(tags: ["${tag}"]) }`;

  it("is reported at start-up with the known tags", () => {
    expect(warningsFor(sdl("P:{$args.id}"))).toEqual([
      "@invalidates on `Mutation.m`: no cached field has a tag like `P:{$args.id}`; known tags: `Pp:{$args.id}`; correct it, unless the tags of a loader or of another schema match",
    ]);
  });

  it("is not reported if a field can have it, or if loaders may", () => {
    const { cache, warnings } = listen();
    const apply = (tag: string): unknown => applyCached(schemaOf(sdl(tag)), cache);
    apply("Pp:{$result}");
    apply("Pp:7");
    cache.loader({ name: "P", maxAge: 1, batch: async (ids: readonly number[]) => ids, tags: (id) => [`P:${id}`] });
    apply("P:{$args.id}");
    expect(warnings).toEqual([]);
  });
});

const STREAM = "a stream can be read once; read it to its end and return the data";

describe("a value that cannot be kept", () => {
  it.each([
    ["a stream of Node.js", () => Readable.from(["a"]), STREAM],
    ["a web stream", () => new Blob(["a"]).stream(), STREAM],
    ["an async generator", async function* () {}, STREAM],
    ["a response", () => new Response("{}"), "read it, with .json() or .text(), and return the data"],
    ["headers", () => new Headers(), "return plain data made of it"],
    ["an emitter", () => new EventTarget(), "return plain data made of it"],
  ])("is reported with what to do about it, if it is no entity: %s", async (_, make, remedy) => {
    const { cache, warnings } = listen();
    const sdl = "scalar Any type Query { a: Any @cached(maxAge: 60) }";
    const schema = applyCached(schemaOf(sdl, { Query: { a: () => ({ body: make() }) } }), cache);
    await graphql({ schema, source: "{ a }" });
    expect(warnings).toEqual([expect.stringContaining(remedy)]);
    expect(warnings[0]).not.toContain("{ is, encode, decode }");
  });

  it("is reported with a loader's own options, and not `key`, if it depends on the context", async () => {
    const { cache, warnings } = listen();
    const batch = async (ids: readonly number[], { tenant }: { tenant: string }) => ids.map(() => tenant);
    await cache.loader({ name: "Movie", maxAge: 60, batch })({ tenant: "a" }).load(1);
    await cache.close();
    expect(warnings).toHaveLength(1);
    for (const part of ["`context.tenant`", "`Movie`", "id of the loader"]) expect(warnings[0]).toContain(part);
    expect(warnings[0]).not.toContain("`key`");
  });
});
