import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, CachedError, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it } from "vitest";

const SECONDS = "expected an integer of at least 0 (seconds), got";
const UNREADABLE = "invalid argument:";
const NO_PATH = "`key`: expected paths such as $args.id, $source.id, $context.locale or $selection, got";
const NO_TAG = "`tags`: expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got";
const ROOTLESS = "root fields have no parent object; use arguments, such as $args.id";
const NEVER = "mutation and subscription fields are never cached; remove `@cached`";
const SHARED =
  "`scope`: expected a declaration on the field itself, since `@auth` covers it, got nothing; set scope: PRIVATE, or scope: PUBLIC if every caller allowed to see the field gets the same value";

/** Directives of query fields with the arguments `(id: ID, f: F)`, and the mistake reported for each. */
const FIELDS: readonly [directives: string, mistake: string][] = [
  [
    "@cached",
    "`maxAge`: expected an integer of at least 0 (seconds), got nothing; set it here or in createCache({ defaults })",
  ],
  ["@cached(maxAge: -1)", `\`maxAge\`: ${SECONDS} -1`],
  ["@cached(maxAge: 1, staleWhileRevalidate: -2)", `\`staleWhileRevalidate\`: ${SECONDS} -2`],
  ["@cached(maxAge: 1, staleIfError: -3)", `\`staleIfError\`: ${SECONDS} -3`],
  ["@cached(maxAge: 5, negativeMaxAge: -4)", `\`negativeMaxAge\`: ${SECONDS} -4`],
  ["@cached(maxAge: 5, negativeMaxAge: 6)", "`negativeMaxAge`: expected an integer of at most `maxAge` (5), got 6"],
  ["@cached(maxAge: 1, jitter: 2)", "`jitter`: expected a number from 0 to 1, got 2"],
  ["@cached(maxAge: 1, jitter: -0.5)", "`jitter`: expected a number from 0 to 1, got -0.5"],
  ["@cached(maxAge: 1, earlyRefresh: -1)", "`earlyRefresh`: expected a number of at least 0, got -1"],
  ['@cached(maxAge: "1 min")', UNREADABLE],
  ["@cached(maxAge: 1.5)", UNREADABLE],
  ['@cached(maxAge: 1, staleWhileRevalidate: "x")', UNREADABLE],
  ["@cached(maxAge: 1, refresh: LATER)", UNREADABLE],
  ["@cached(maxAge: 1, scope: SHARED)", UNREADABLE],
  ['@cached(maxAge: 1, neverExpires: "yes")', UNREADABLE],
  ['@cached(maxAge: 1, jitter: "some")', UNREADABLE],
  ["@cached(maxAge: 1, tags: 7)", UNREADABLE],
  ['@cached(maxAge: 1, earlyRefresh: "eager")', UNREADABLE],
  ["@cached(maxAge: 1, jitter: -1)", "`jitter`: expected a number from 0 to 1, got -1"],
  ['@cached(maxAge: 1, version: "")', '`version`: expected a non-empty string, got ""'],
  [
    "@cached(maxAge: 1, scope: PRIVATE)",
    "`scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })",
  ],
  ['@cached(maxAge: 1, key: ["id"])', `${NO_PATH} "id"`],
  ['@cached(maxAge: 1, key: [""])', `${NO_PATH} ""`],
  ['@cached(maxAge: 1, key: ["$result.id"])', `${NO_PATH} "$result.id"`],
  ['@cached(maxAge: 1, key: ["$args[]"])', `${NO_PATH} "$args[]"`],
  ['@cached(maxAge: 1, key: ["$selection.id"])', `${NO_PATH} "$selection.id"`],
  ['@cached(maxAge: 1, key: ["$args.__proto__"])', `${NO_PATH} "$args.__proto__"`],
  ['@cached(maxAge: 1, key: ["$variables.id"])', `${NO_PATH} "$variables.id"`],
  [
    '@cached(maxAge: 1, key: ["$args.ident"])',
    "`$args.ident`: unknown argument or input field `ident`; expected one of `id`, `f`",
  ],
  [
    '@cached(maxAge: 1, key: ["$args.f.year"])',
    "`$args.f.year`: unknown argument or input field `year`; expected one of `genre`, `inner`",
  ],
  [
    '@cached(maxAge: 1, key: ["$args.f.inner.day"])',
    "`$args.f.inner.day`: unknown argument or input field `day`; expected one of `genre`, `inner`",
  ],
  ['@cached(maxAge: 1, key: ["$source.id"])', `\`$source.id\`: ${ROOTLESS}`],
  ['@cached(maxAge: 1, tags: ["A:{id}"])', `${NO_TAG} "A:{id}"`],
  ['@cached(maxAge: 1, tags: ["A:{$args.id"])', `${NO_TAG} "A:{$args.id"`],
  [
    '@cached(maxAge: 1, tags: ["A:{$args.no}"])',
    "`$args.no`: unknown argument or input field `no`; expected one of `id`, `f`",
  ],
  [
    '@cached(maxAge: 1, tags: ["B:{$args.f.no}"])',
    "`$args.f.no`: unknown argument or input field `no`; expected one of `genre`, `inner`",
  ],
  ['@cached(maxAge: 1, tags: ["A:{$source.id}"])', `\`$source.id\`: ${ROOTLESS}`],
  ["@auth @cached(maxAge: 1)", SHARED],
];

/** Mistakes in other places, one per coordinate. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "Mutation.a": NEVER,
  "Mutation.b": `${NO_TAG} "A:{id}"`,
  "Mutation.c": "`$args.no`: unknown argument or input field `no`; the field has no arguments",
  "Mutation.d": `\`$source.id\`: ${ROOTLESS}`,
  "Subscription.a": NEVER,
  "I.a": "interface fields have no resolver; put `@cached` on the fields of the object types",
  "Thing.a":
    '`key`: the default key needs `Thing.id`, which does not exist; name what identifies the parent, such as key: ["$args", "$source.code"]',
  "Guarded.a": SHARED,
  Old: `\`maxAge\`: ${SECONDS} -9`,
  Node: "`jitter`: expected a number from 0 to 1, got 9",
  Found: UNREADABLE,
  "Query.codeFirst": "`tagz`: unknown setting; expected one of `maxAge`,",
};

/** Where the mistake is, if not in `@cached`. */
const SOURCES: Readonly<Record<string, string>> = {
  "Mutation.b": "@invalidates",
  "Mutation.c": "@invalidates",
  "Mutation.d": "@invalidates",
  "Query.codeFirst": "extensions.cached",
};

const typeDefs = `
  directive @auth on FIELD_DEFINITION | OBJECT
  input F { genre: String inner: F }
  type Query { ${FIELDS.map(([directives], index) => `f${index}(id: ID, f: F): Int ${directives}`).join("\n")} codeFirst: Int }
  type Mutation {
    a: Int @cached(maxAge: 1)
    b: Int @invalidates(tags: ["A:{id}"])
    c: Int @invalidates(tags: ["A:{$args.no}"])
    d: Int @invalidates(tags: ["A:{$source.id}"])
  }
  type Subscription { a: Int @cached(maxAge: 1) }
  interface I { a: Int @cached(maxAge: 1) }
  type Thing implements I { a: Int @cached(maxAge: 1) }
  type Guarded @auth { id: ID a: Int @cached(maxAge: 1) }
  type Old @cached(maxAge: -9) { id: ID }
  interface Node @cached(maxAge: 1, jitter: 9) { id: ID }
  union Found @cached(maxAge: "x") = Old | Thing
`;

it("reports all fifty mistakes of a schema at once, each with its coordinate", () => {
  const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] });
  Object.assign(schema.getQueryType()?.getFields().codeFirst ?? {}, {
    extensions: { cached: { maxAge: 1, tagz: ["T"] } },
  });
  const cache = createCache({ defaultScope: "PUBLIC" });
  let thrown: unknown;
  try {
    applyCached(schema, cache);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(CachedError);
  const { code, message, cause } = thrown as CachedError;
  const expected: [string, string][] = [
    ...FIELDS.map(([, mistake], index): [string, string] => [`Query.f${index}`, mistake]),
    ...Object.entries(ELSEWHERE),
  ];
  expect(expected).toHaveLength(50);
  expect(code).toBe("CACHED_SCHEMA_INVALID");
  for (const [coordinate, mistake] of expected) {
    const source = SOURCES[coordinate] ?? "@cached";
    expect(message).toContain(`\n- ${source} on \`${coordinate}\`: ${mistake}`);
  }
  expect(message).toContain("applyCached: found 50 mistakes in the schema:\n");
  expect(new Set((cause as CachedError[]).map(({ coordinate }) => coordinate))).toEqual(
    new Set(expected.map(([coordinate]) => coordinate)),
  );
});
