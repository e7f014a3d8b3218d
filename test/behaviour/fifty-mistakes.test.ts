import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, CachedError, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it } from "vitest";

const SECONDS = "must be a whole number of seconds, 0 or more,";
const UNREADABLE = "`@cached` has an argument that cannot be read:";
const NO_PATH = "which is no path; write $args.id, $source.id, $context.locale or $selection";
const NO_TAG = "which is no tag; write Movie:{$args.id} or Movie:{$result[].id}";
const ROOTLESS = "leads nowhere: a field of the query type has no parent object";
const NEVER = "fields of the mutation and subscription types are never cached; remove `@cached`";
const SHARED =
  "and the field does not say who may share its value; say scope: PRIVATE there, or scope: PUBLIC if all who may see it see the same";

/** Directives of query fields with the arguments `(id: ID, f: F)`, and the mistake reported for each. */
const FIELDS: readonly [directives: string, mistake: string][] = [
  ["@cached", "no `maxAge` is said, neither here nor by a profile or the defaults; say `maxAge`, in seconds"],
  ["@cached(maxAge: -1)", `\`maxAge\` ${SECONDS} -1 came`],
  ["@cached(maxAge: 1, staleWhileRevalidate: -2)", `\`staleWhileRevalidate\` ${SECONDS} -2 came`],
  ["@cached(maxAge: 1, staleIfError: -3)", `\`staleIfError\` ${SECONDS} -3 came`],
  ["@cached(maxAge: 5, negativeMaxAge: -4)", `\`negativeMaxAge\` ${SECONDS} -4 came`],
  ["@cached(maxAge: 5, negativeMaxAge: 6)", "`negativeMaxAge` must be at most maxAge (5), 6 came"],
  ["@cached(maxAge: 1, jitter: 2)", "`jitter` must be a number from 0 to 1, 2 came"],
  ["@cached(maxAge: 1, jitter: -0.5)", "`jitter` must be a number from 0 to 1, -0.5 came"],
  ["@cached(maxAge: 1, earlyRefresh: -1)", "`earlyRefresh` must be a number, 0 or more, -1 came"],
  ['@cached(maxAge: "1 min")', UNREADABLE],
  ["@cached(maxAge: 1.5)", UNREADABLE],
  ['@cached(maxAge: 1, staleWhileRevalidate: "x")', UNREADABLE],
  ["@cached(maxAge: 1, refresh: LATER)", UNREADABLE],
  ["@cached(maxAge: 1, scope: SHARED)", UNREADABLE],
  ['@cached(maxAge: 1, neverExpires: "yes")', UNREADABLE],
  ['@cached(maxAge: 1, jitter: "some")', UNREADABLE],
  ["@cached(maxAge: 1, tags: 7)", UNREADABLE],
  ['@cached(maxAge: 1, earlyRefresh: "eager")', UNREADABLE],
  ['@cached(profile: "cold")', 'the profile "cold" does not exist; createCache({ profiles }) has `hot`'],
  ['@cached(profile: "")', '`profile` must be a name, "" came'],
  [
    "@cached(maxAge: 1, scope: PRIVATE)",
    "scope PRIVATE needs to know who is asking; give createCache({ identify: (context) => … })",
  ],
  ['@cached(maxAge: 1, key: ["id"])', `\`key\` has "id", ${NO_PATH}`],
  ['@cached(maxAge: 1, key: [""])', `\`key\` has "", ${NO_PATH}`],
  ['@cached(maxAge: 1, key: ["$result.id"])', `\`key\` has "$result.id", ${NO_PATH}`],
  ['@cached(maxAge: 1, key: ["$args[]"])', `\`key\` has "$args[]", ${NO_PATH}`],
  ['@cached(maxAge: 1, key: ["$selection.id"])', `\`key\` has "$selection.id", ${NO_PATH}`],
  ['@cached(maxAge: 1, key: ["$args.__proto__"])', `\`key\` has "$args.__proto__", ${NO_PATH}`],
  ['@cached(maxAge: 1, key: ["$variables.id"])', `\`key\` has "$variables.id", ${NO_PATH}`],
  [
    '@cached(maxAge: 1, key: ["$args.ident"])',
    "`$args.ident` leads nowhere: where `ident` was expected there is `id`, `f`",
  ],
  [
    '@cached(maxAge: 1, key: ["$args.f.year"])',
    "`$args.f.year` leads nowhere: where `year` was expected there is `genre`, `inner`",
  ],
  [
    '@cached(maxAge: 1, key: ["$args.f.inner.day"])',
    "`$args.f.inner.day` leads nowhere: where `day` was expected there is `genre`, `inner`",
  ],
  ['@cached(maxAge: 1, key: ["$source.id"])', `\`$source.id\` ${ROOTLESS}`],
  ['@cached(maxAge: 1, tags: ["A:{id}"])', `\`tags\` has "A:{id}", ${NO_TAG}`],
  ['@cached(maxAge: 1, tags: ["A:{$args.id"])', `\`tags\` has "A:{$args.id", ${NO_TAG}`],
  [
    '@cached(maxAge: 1, tags: ["A:{$args.no}"])',
    "`$args.no` leads nowhere: where `no` was expected there is `id`, `f`",
  ],
  [
    '@cached(maxAge: 1, tags: ["B:{$args.f.no}"])',
    "`$args.f.no` leads nowhere: where `no` was expected there is `genre`, `inner`",
  ],
  ['@cached(maxAge: 1, tags: ["A:{$source.id}"])', `\`$source.id\` ${ROOTLESS}`],
  ["@auth @cached(maxAge: 1)", `it is under \`@auth\`, ${SHARED}`],
];

/** Mistakes in other places, one per coordinate. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "Mutation.a": NEVER,
  "Mutation.b": `\`tags\` has "A:{id}", ${NO_TAG}`,
  "Mutation.c": "`$args.no` leads nowhere: where `no` was expected there is nothing",
  "Mutation.d": `\`$source.id\` ${ROOTLESS}`,
  "Subscription.a": NEVER,
  "I.a": "a field of an interface has no resolver; put `@cached` on the fields of the object types",
  "Thing.a":
    'the default key needs `Thing.id`, which does not exist; say what identifies the parent, such as key: ["$args", "$source.code"]',
  "Guarded.a": `it is under \`@auth\`, ${SHARED}`,
  Old: `\`maxAge\` ${SECONDS} -9 came`,
  Node: "`jitter` must be a number from 0 to 1, 9 came",
  Found: UNREADABLE,
  "Query.codeFirst": "`tagz` is not a setting here",
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
  const cache = createCache({ profiles: { hot: { maxAge: 9 } } });
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
  for (const [coordinate, mistake] of expected) expect(message).toContain(`\n- \`${coordinate}\`: ${mistake}`);
  expect(message).toContain("the schema has 50 mistakes in its use of the cache:\n");
  expect(new Set((cause as CachedError[]).map(({ coordinate }) => coordinate))).toEqual(
    new Set(expected.map(([coordinate]) => coordinate)),
  );
});
