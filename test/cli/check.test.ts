import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSchema, getIntrospectionQuery, graphql } from "graphql";
import { afterAll, describe, expect, it } from "vitest";
import { filesIn, ROOT } from "../project/source.js";
import { type CliRun, runCli } from "../support/cli-terminal.js";
import { compiledPath } from "../support/programs.js";

const folder = mkdtempSync(join(tmpdir(), "graphql-cached-check-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const check = (sdl: string, ...options: readonly string[]): Promise<CliRun> =>
  runCli(["check", "-", ...options], { readInput: async () => sdl });

interface Found {
  readonly rule: string;
  readonly coordinate: string;
  readonly message: string;
  readonly line: number;
}

async function findingsOf(sdl: string, ...options: readonly string[]): Promise<Found[]> {
  const { out } = await check(sdl, "--json", ...options);
  return (JSON.parse(out) as { findings: Found[] }).findings;
}

/** A correct schema with places for mistakes. */
const sound = `
type Query {
  movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
  movies(genre: String): [Movie!]! @cached(maxAge: 60, tags: ["Movie:{$result[].id}"])
  me: Viewer
}
type Mutation {
  rate(id: ID!): Movie @invalidates(tags: ["Movie:{$args.id}"])
}
type Movie { id: ID! title: String! stars: Float @cached(maxAge: 60, tags: ["Movie:{$source.id}"]) }
type Viewer { id: ID! history: [Movie!]! @cached(maxAge: 60, scope: PRIVATE, tags: ["Movie:{$result[].id}"]) }
`;
const withField = (field: string, more = ""): string => `${sound} extend type Query { ${field} } ${more}`;

/** One planted mistake each: what it is, the schema, the rule and place that report it, and a part of the message. */
const MISTAKES: readonly (readonly [string, string, string, string, string, ...string[]])[] = [
  [
    "a missing default key",
    `${sound} extend type Query { site: Site } type Site { code: String top: Int @cached(maxAge: 60) }`,
    "policy",
    "Site.top",
    "the default key needs `Site.id`, which does not exist",
  ],
  [
    "a key that names an unknown argument",
    withField('a(id: ID): Int @cached(maxAge: 60, key: ["$args.no"])'),
    "policy",
    "Query.a",
    "unknown argument or input field `no`",
  ],
  [
    "a key that leaves out an argument",
    withField('a(id: ID, locale: String): Int @cached(maxAge: 60, key: ["$args.id"])'),
    "key",
    "Query.a",
    "leaves out the argument `$args.locale`",
  ],
  [
    "no maxAge",
    withField("a: Int @cached(scope: PUBLIC)"),
    "policy",
    "Query.a",
    "`maxAge`: expected an integer of at least 0 (seconds), got nothing",
  ],
  ["a value of the wrong type", withField('a: Int @cached(maxAge: "60")'), "policy", "Query.a", "invalid argument"],
  [
    "PRIVATE without identify",
    sound,
    "policy",
    "Viewer.history",
    "PRIVATE requires the `identify` option",
    "--no-identify",
  ],
  [
    "@auth without a scope",
    withField("a: Int @auth(requires: ADMIN) @cached(maxAge: 60)"),
    "policy",
    "Query.a",
    "since `@auth` covers it",
  ],
  [
    "@requiresScopes on the type",
    withField("a: Secret @cached(maxAge: 60)", 'type Secret @requiresScopes(scopes: [["admin"]]) { a: Int }'),
    "policy",
    "Query.a",
    "since `@requiresScopes` covers it",
  ],
  [
    "@authenticated without a scope",
    withField("a: Int @authenticated @cached(maxAge: 60)"),
    "policy",
    "Query.a",
    "since `@authenticated` covers it",
  ],
  [
    "an auth directive of the application",
    withField("a: Int @vip @cached(maxAge: 60)"),
    "policy",
    "Query.a",
    "since `@vip` covers it",
    "--auth-directive",
    "vip",
  ],
  [
    "fields without a scope in a schema with an auth directive",
    `${sound} extend type Query { a: Int @isAdmin }`,
    "policy",
    "Query.movie",
    "expected a declaration, since the schema has `@isAdmin` on `Query.a`, got nothing, and nothing on `Query.movies`, `Movie.stars`;",
  ],
  ["a list without tags", withField("a: [Movie!]! @cached(maxAge: 60)"), "list", "Query.a", "a list without tags"],
  [
    "a tag that no field produces",
    `${sound} extend type Mutation { add: Int @invalidates(tags: ["Movies"]) }`,
    "tag",
    "Mutation.add",
    "no cached field has a tag like `Movies`",
  ],
  [
    "a tag that no mutation invalidates",
    withField('a: Int @cached(maxAge: 60, tags: ["Moive:{$result}"])'),
    "tag",
    "Query.a",
    "no mutation invalidates a tag like `Moive:{$result}`",
  ],
  [
    "a tag that is no template",
    withField('a: Int @cached(maxAge: 60, tags: ["Movie:{id}"])'),
    "policy",
    "Query.a",
    "expected tags such as",
  ],
  [
    "staleWhileRevalidate with maxAge 0",
    withField("a: Int @cached(maxAge: 0, staleWhileRevalidate: 60)"),
    "window",
    "Query.a",
    "`staleWhileRevalidate`: without effect, since `maxAge: 0` turns caching off",
  ],
  [
    "earlyRefresh with maxAge 0",
    withField("a: Int @cached(maxAge: 0, earlyRefresh: 2)"),
    "window",
    "Query.a",
    "`earlyRefresh`: without effect",
  ],
  [
    "negativeMaxAge above maxAge",
    withField("a: Int @cached(maxAge: 60, negativeMaxAge: 90)"),
    "policy",
    "Query.a",
    "expected an integer of at most `maxAge` (60), got 90",
  ],
  [
    "negativeMaxAge of what is never null",
    withField("a: Int! @cached(maxAge: 60, negativeMaxAge: 9)"),
    "window",
    "Query.a",
    "a value of type `Int!` is never null or an empty list",
  ],
  [
    "staleIfError within staleWhileRevalidate",
    withField("a: Int @cached(maxAge: 60, staleWhileRevalidate: 90, staleIfError: 30)"),
    "window",
    "Query.a",
    "expected more than `staleWhileRevalidate` (90), got 30",
  ],
  [
    "a window besides neverExpires",
    withField("a: Int @cached(maxAge: 60, neverExpires: true, staleIfError: 30)"),
    "window",
    "Query.a",
    "without effect with `neverExpires: true`",
  ],
  [
    "refresh without a stale value",
    withField("a: Int @cached(maxAge: 60, refresh: FOREGROUND)"),
    "window",
    "Query.a",
    "`refresh`: without effect",
  ],
  [
    "maxAgeLimit below maxAge",
    withField("a: Int @cached(maxAge: 60, maxAgeLimit: 30)"),
    "policy",
    "Query.a",
    "expected an integer of at least `maxAge` (60), got 30",
  ],
  [
    "an unknown argument",
    withField("a: Int @cached(maxAge: 60, ttl: 60)"),
    "directive",
    "Query.a",
    "unknown argument `ttl`; expected one of `maxAge`",
  ],
  [
    "@cached twice",
    withField("a: Int @cached(maxAge: 60) @cached(maxAge: 30)"),
    "directive",
    "Query.a",
    "expected the directive once",
  ],
  [
    "@cached on an argument",
    withField("a(id: ID @cached(maxAge: 60)): Int"),
    "directive",
    "Query.a(id:)",
    "has no effect here",
  ],
  [
    "@cached on an enum",
    `${sound} enum Genre @cached(maxAge: 60) { DRAMA }`,
    "directive",
    "Genre",
    "has no effect here",
  ],
  [
    "@cached on a mutation",
    `${sound} extend type Mutation { add: Int @cached(maxAge: 60) }`,
    "policy",
    "Mutation.add",
    "mutation and subscription fields are never cached",
  ],
  [
    "@cached on an interface field",
    `${sound} interface Node { id: ID @cached(maxAge: 60) }`,
    "policy",
    "Node.id",
    "interface fields have no resolver",
  ],
  [
    "@cached on a type that no field returns",
    `${sound} type Lost @cached(maxAge: 60) { id: ID! }`,
    "type",
    "Lost",
    "no field returns the type",
  ],
  [
    "@invalidates on a query",
    withField('a: Int @invalidates(tags: ["Movie:7"])'),
    "policy",
    "Query.a",
    "expected a field that only mutations can ask for",
  ],
  [
    "@invalidates without tags",
    `${sound} extend type Mutation { add: Int @invalidates }`,
    "policy",
    "Mutation.add",
    "invalid argument",
  ],
];

describe("graphql-cached check", () => {
  it.each(MISTAKES)("finds %s, and nothing else", async (_what, sdl, rule, coordinate, message, ...options) => {
    const findings = await findingsOf(sdl, ...options);
    expect(findings).toMatchObject([{ rule, coordinate, message: expect.stringContaining(message) }]);
    expect((await check(sdl, ...options)).code).toBe(1);
  });

  it("finds nothing in a correct schema, nor in the schemas of the examples", async () => {
    expect(await check(sound)).toMatchObject({ code: 0, err: "" });
    const examples = filesIn("examples", ".graphql").map((path) => join(ROOT, path));
    expect(examples.length).toBeGreaterThanOrEqual(3);
    for (const path of examples) expect(await runCli(["check", path]), path).toMatchObject({ code: 0, err: "" });
  });

  it("finds all planted mistakes of one schema together", async () => {
    const kinds = MISTAKES.filter(
      ([what, sdl, , , , ...options]) =>
        options.length === 0 && sdl.startsWith(sound) && !what.startsWith("fields without a scope"),
    );
    const fields = kinds.map(([, sdl], nth) =>
      sdl
        .slice(sound.length)
        .replaceAll(/\b(a|add)(?=[:(])/g, `$1${nth}`)
        .replaceAll("add: Int @invalidates", `add${nth}: Int @invalidates`),
    );
    const unique = fields.map((text, nth) =>
      text.replaceAll(/\b(Site|Secret|Genre|Node|Lost|Box)\b/g, `$1${nth}`).replaceAll("site:", `site${nth}:`),
    );
    const findings = await findingsOf(`${sound}${unique.join("\n")}`);
    const counts = (rules: readonly string[]) => rules.toSorted();
    expect(counts(findings.map(({ rule }) => rule))).toEqual(counts(kinds.map(([, , rule]) => rule)));
  });

  it("leaves the introspection of other schemas in the process as it is", async () => {
    await check(sound);
    const { errors } = await graphql({
      schema: buildSchema(sound, { assumeValid: true }),
      source: getIntrospectionQuery(),
    });
    expect(errors).toBeUndefined();
  });

  it("prints place, coordinate, rule and remedy in 80 columns", async () => {
    const { out } = await check("type Query {\n  a(id: ID!): Int @cached(maxAge: 5, negativeMaxAge: 10)\n}");
    expect(out).toBe(
      [
        "stdin:2:19  Query.a  [policy]",
        "  @cached: `negativeMaxAge`: expected an integer of at most `maxAge` (5), got 10",
        "",
        "1 finding in 1 file.",
      ].join("\n"),
    );
    for (const [, sdl, , , , ...options] of MISTAKES)
      for (const line of (await check(sdl, ...options)).out.split("\n"))
        expect(line.length, line).toBeLessThanOrEqual(80);
    for (const line of (await runCli(["check", "--help"])).out.split("\n"))
      expect(line.length, line).toBeLessThanOrEqual(80);
  });

  it("reads federation schemas: extended types, @link, @key and directives without definitions", async () => {
    const subgraph = `
      extend schema @link(url: "https://specs.apollo.dev/federation/v2.9", import: ["@key", "@shareable"])
      directive @tagged(fields: federation__FieldSet) on OBJECT
      extend type Query { top: [Movie!]! @cached(maxAge: 60) @shareable }
      extend type Movie @key(fields: "id") @cached(maxAge: 60) { id: ID! @external stars: Float @cached(maxAge: 60) }
      interface Media @key(fields: "id") { id: ID! }
      type Film implements Media @key(fields: "id") @cached(maxAge: 60) { id: ID! }`;
    expect(await check(subgraph)).toMatchObject({
      code: 0,
      err: "",
      out: "No mistakes found: 4 cached fields in 1 file.",
    });
    expect(
      await findingsOf(
        subgraph.replace(
          '@key(fields: "id") @cached(maxAge: 60) { id: ID! }',
          '@key(fields: "id") @cached(maxAge: 60, key: ["$source.x"]) { id: ID! }',
        ),
      ),
    ).toMatchObject([
      { rule: "policy", coordinate: "Film", message: expect.stringContaining("expected the key of the entity") },
    ]);
  });

  it("merges several files, with the place of each finding in its file", async () => {
    const [one, two] = ["one.graphql", "two.graphql"].map((name) => join(folder, name)) as [string, string];
    writeFileSync(one, "type Query { a: Int }\n");
    writeFileSync(two, "\n\ntype Query { b: Int @cached(maxAge: 60, no: 1) }\nextend type Query { c: Int }\n");
    const { code, out } = await runCli(["check", one, two]);
    expect(code).toBe(1);
    expect(out).toContain("two.graphql:3:41  Query.b  [directive]");
    expect(out).toContain("1 finding in 2 files.");
  });

  it("takes renamed directives, profiles, identify and defaults from its options", async () => {
    const config = join(folder, "cache.config.mjs");
    const renamed =
      'type Query { a: Int @gc(profile: "short") b: Int @gc(profile: "long") c: Int @gc(scope: PRIVATE) }';
    expect(await findingsOf(renamed, "--directive", "gc")).toMatchObject([{ coordinate: "Query.c", rule: "policy" }]);
    writeFileSync(
      config,
      'export default { profiles: { short: { maxAge: 5 } }, defaults: { maxAge: 60 }, applyCached: { directive: "gc" } };',
    );
    expect(await findingsOf(renamed, "--config", config)).toMatchObject([
      { coordinate: "Query.b", message: expect.stringContaining("defines `short`") },
      { coordinate: "Query.c", message: expect.stringContaining("PRIVATE requires the `identify` option") },
    ]);
  });

  it("finds mistakes in policies by coordinate, and counts the fields that they cache", async () => {
    const bare = "type Query { movie(id: ID!): Movie titles: [String!] } type Movie { id: ID! stars: Int }";
    let count = 0;
    const configOf = (policies: unknown): string => {
      const path = join(folder, `policies-${++count}.mjs`);
      writeFileSync(path, `export default ${JSON.stringify({ applyCached: { policies } })};`);
      return path;
    };
    const policies = {
      "Query.movie": { maxAge: 0, staleIfError: 60 },
      "Query.movies": { maxAge: 60 },
      "Query.titles": { maxAge: 60, negativeMaxAge: 90 },
      "Movie.stars": { maxAge: 60, key: ["$source.id"] },
    };
    expect(await findingsOf(bare, "--config", configOf(policies))).toMatchObject([
      { rule: "window", coordinate: "Query.movie" },
      { rule: "policy", coordinate: "Query.movies", message: expect.stringContaining("did you mean `Query.movie`?") },
      { rule: "policy", coordinate: "Query.titles", message: expect.stringMatching(/^policies: `negativeMaxAge`/) },
    ]);
    const { out } = await check(bare, "--config", configOf({ "Movie.stars": { maxAge: 60 } }));
    expect(out).toContain("No mistakes found: 1 cached field in 1 file.");
    const { err } = await check(bare, "--config", configOf([]));
    expect(err).toContain("`policies`: expected an object of policies");
  });

  it("says which responses nothing invalidates, once for the fields with a hint that are not cached", async () => {
    const hinted = withField(
      "now: Int @cacheControl(maxAge: 60) top: Int @cached(maxAge: 60) @cacheControl(maxAge: 60)",
      "directive @cacheControl(maxAge: Int) on FIELD_DEFINITION",
    );
    const { out } = await check(hinted);
    expect(out.replaceAll(/\s+/g, " ")).toContain("invalidates responses with `Query.now`: they have @cacheControl");
    expect((await check(sound)).out).not.toContain("invalidates responses");
  });

  it("leaves out what --ignore names", async () => {
    const sdl = withField(
      "a: [Movie!]! @cached(maxAge: 60) b: [Movie!]! @cached(maxAge: 60) c: Int @cached(maxAge: 60, no: 1)",
    );
    expect(await findingsOf(sdl, "--ignore", "list:Query.a")).toMatchObject([
      { coordinate: "Query.b" },
      { coordinate: "Query.c" },
    ]);
    expect(await findingsOf(sdl, "--ignore", "list", "--ignore", "directive")).toEqual([]);
    expect((await check(sdl, "--ignore", "list", "--ignore", "directive")).code).toBe(0);
  });

  it.each([
    [
      "text that is no schema",
      "type Query {",
      "stdin:1:13: expected a GraphQL schema, got text that cannot be parsed: Syntax Error: Expected Name, found <EOF>.",
    ],
    ["a query", "{ a }", "expected a GraphQL schema, got a query"],
    ["nothing", "", "cannot be parsed"],
    ["directives only", "directive @a on FIELD_DEFINITION", "expected type definitions in stdin, got none"],
    [
      "types that do not exist",
      "type Query { a: Nothing @cached(maxAge: 1) }",
      'the schema is invalid: Unknown type "Nothing".',
    ],
  ])("exits with 2 for %s", async (_what, sdl, message) => {
    const { code, out, err } = await check(sdl);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err.replaceAll(/\n */g, " ")).toContain(message);
    const json = await check(sdl, "--json");
    expect(json.code).toBe(2);
    expect((JSON.parse(json.out) as { error: string }).error).toContain(message);
  });

  it.each([
    [["check"], "expected the file of a schema, got none"],
    [["check", "missing.graphql"], "missing.graphql cannot be read: there is no such file"],
    [["check", "src"], "expected a file, got the directory src; write src/*.graphql"],
    [["check", "-", "--unknown"], "Unknown option '--unknown'; see graphql-cached check --help"],
    [["check", "-", "--ignore", "x"], "--ignore: expected one of policy,"],
    [["check", "-", "--config", "missing.mjs"], "missing.mjs cannot be loaded"],
    [["check", "-", "--directive", "@gc"], "expected a GraphQL name without the @"],
    [["check", "-", "--auth-directive", "@a"], "expected an array of names"],
    [["chekc"], "expected a command, one of check"],
    [[], "expected a command, one of check"],
  ])("exits with 2 for %j", async (argv, message) => {
    const { code, out, err } = await runCli(argv, { readInput: async () => "type Query { a: Int }" });
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err.replaceAll(/\n */g, " ")).toContain(message);
  });

  it("prints no control characters of a schema", async () => {
    const { out } = await check('type Query { a: Int @cached(maxAge: 60, key: ["\\u001b[31m$args\\u0007"]) }');
    for (const line of out.split("\n")) expect(line).not.toMatch(/\p{Cc}/u);
    expect(out).toContain("[31m$args");
  });

  it("runs as a program that reads standard input", async () => {
    const program = await compiledPath("src/tools/cli/bin.ts");
    const run = (input: string) =>
      spawnSync(process.execPath, [program, "check", "-"], {
        input,
        encoding: "utf8",
        cwd: ROOT,
      });
    expect(run(sound)).toMatchObject({ status: 0, stderr: "" });
    expect(run(withField("a: Int @cached"))).toMatchObject({ status: 1, stderr: "" });
    expect(run("type")).toMatchObject({ status: 2, stdout: "" });
  }, 60_000);
});
