import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { check } from "../../src/tools/cli/check.js";
import { filesIn, ROOT, read } from "../project/source.js";
import { codeBlocks } from "../support/markdown.js";
import { compiledPath } from "../support/programs.js";

const folder = mkdtempSync(join(tmpdir(), "graphql-cached-check-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, "node_modules"));
for (const name of ["graphql", "@graphql-tools"])
  symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));

let count = 0;
function file(text: string, extension = "graphql"): string {
  const path = join(folder, `${++count}.${extension}`);
  writeFileSync(path, text);
  return path;
}

async function run(...argv: readonly string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const code = await check(argv, { print: (line) => out.push(line), complain: (line) => err.push(line) });
  return { code, out: out.join("\n"), err: err.join("\n") };
}
const checkSdl = (sdl: string, ...options: readonly string[]) =>
  run("check", file(sdl), "--default-scope", "PUBLIC", ...options);

const sound = `
type Query {
  movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$result.id}"])
  me: Viewer
}
type Mutation {
  rate(id: ID!): Movie @invalidates(tags: ["Movie:{$result.id}"])
}
type Movie { id: ID! title: String! stars: Float @cached(maxAge: 60, tags: ["Movie:{$source.id}"]) }
type Viewer { id: ID! history: [Movie!]! @cached(maxAge: 60, scope: PRIVATE, tags: ["Movie:{$result[].id}"]) }
`;
const withField = (field: string, more = ""): string => `${sound} extend type Query { ${field} } ${more}`;

/** One planted mistake each: what it is, the schema, and a part of the line with its coordinate. */
const MISTAKES: readonly (readonly [what: string, sdl: string, message: string])[] = [
  [
    "a missing default key",
    `${sound} extend type Query { site: Site } type Site { code: String top: Int @cached(maxAge: 60) }`,
    "@cached on `Site.top`: `key`: the default key needs `Site.id`, which does not exist",
  ],
  [
    "a key that names an unknown argument",
    withField('a(id: ID): Int @cached(maxAge: 60, key: ["$args.no"])'),
    "`Query.a`: `$args.no`: unknown argument",
  ],
  ["no maxAge", withField("a: Int @cached(scope: PUBLIC)"), "`Query.a`: `maxAge`: expected an integer"],
  ["a value of the wrong type", withField('a: Int @cached(maxAge: "60")'), "`Query.a`: invalid argument"],
  ["an unknown argument", withField("a: Int @cached(maxAge: 60, ttl: 60)"), "`Query.a`: `ttl`: unknown"],
  ["@cached twice", withField("a: Int @cached(maxAge: 60) @cached(maxAge: 30)"), '"@cached" can only be used once'],
  ["@cached on an argument", withField("a(id: ID @cached(maxAge: 60)): Int"), "may not be used on ARGUMENT_DEFINITION"],
  ["@cached on an enum", `${sound} enum Genre @cached(maxAge: 60) { DRAMA }`, "may not be used on ENUM"],
  [
    "@cached on a mutation",
    `${sound} extend type Mutation { add: Int @cached(maxAge: 60) }`,
    "`Mutation.add`: mutation and subscription fields are never cached",
  ],
  [
    "@cached on an interface field",
    `${sound} interface Node { id: ID @cached(maxAge: 60) }`,
    "`Node.id`: interface fields have no resolver",
  ],
  [
    "@invalidates on a query",
    withField('a: Int @invalidates(tags: ["Movie:7"])'),
    "`Query.a`: expected a field that only mutations can ask for",
  ],
  [
    "@invalidates without tags",
    `${sound} extend type Mutation { add: Int @invalidates }`,
    "`Mutation.add`: invalid argument",
  ],
  [
    "a tag that is no template",
    withField('a: Int @cached(maxAge: 60, tags: ["Movie:{id}"])'),
    "`Query.a`: `tags`: expected tags such as",
  ],
];

describe("graphql-cached check", () => {
  it.each(MISTAKES)("prints %s as the only error, with its place, and exits with 1", async (_what, sdl, message) => {
    const { code, out, err } = await checkSdl(sdl);
    expect({ code, err }).toEqual({ code: 1, err: "" });
    const errors = out.split("\n").filter((line) => line.startsWith("error: "));
    expect(errors).toEqual([expect.stringContaining(message)]);
    expect(errors[0]).toMatch(/^error: \S+\.graphql:\d+:\d+ {2}/);
    expect(out).toContain("1 error, ");
  });

  it("accepts a correct schema, and the schemas of the examples", async () => {
    expect(await checkSdl(sound)).toEqual({ code: 0, out: "0 errors, 0 warnings.", err: "" });
    const examples = filesIn("examples", ".graphql").map((path) => join(ROOT, path));
    expect(examples.length).toBeGreaterThanOrEqual(3);
    for (const path of examples)
      expect(await run("check", path, "--default-scope", "PUBLIC"), path).toMatchObject({ code: 0, err: "" });
  });

  it("knows no scope that neither the schema nor an option says", async () => {
    const path = file(sound);
    expect((await run("check", path)).out.split("\n")).toEqual([
      expect.stringContaining("  @cached on `Query.movie`: `scope`: expected PUBLIC or PRIVATE, got nothing"),
      expect.stringContaining("  @cached on `Movie.stars`: `scope`: expected PUBLIC or PRIVATE, got nothing"),
      "2 errors, 0 warnings.",
    ]);
    const config = file('export default { defaultScope: "PUBLIC", identify: () => 1 };', "mjs");
    expect((await run("check", path, "--config", config)).code).toBe(0);
    expect((await run("check", path, "--default-scope", "public")).err).toContain(
      '`defaultScope`: expected "PUBLIC" or "PRIVATE", got "public"',
    );
  });

  it("prints what applyCached warns about, and exits with 0", async () => {
    const { code, out } = await checkSdl(
      `${sound} extend type Mutation { add: Int @invalidates(tags: ["Movies"]) } type Lost @cached(maxAge: 60) { id: ID! }`,
    );
    expect(code).toBe(0);
    expect(out).toContain("  @cached on `Lost`: no field with a resolver of its own returns the type");
    expect(out).toContain("  @invalidates on `Mutation.add`: no cached field has a tag like `Movies`");
    expect(out).toContain("0 errors, 2 warnings.");
  });

  it("reads federation schemas: extended types, @link, @key and directives without definitions", async () => {
    const subgraph = `
      extend schema @link(url: "https://specs.apollo.dev/federation/v2.9", import: ["@key", "@shareable"])
      directive @tagged(fields: federation__FieldSet) on OBJECT
      extend type Query { top: [Movie!]! @cached(maxAge: 60) @shareable }
      extend type Movie @key(fields: "id") @cached(maxAge: 60) { id: ID! @external stars: Float @cached(maxAge: 60) }
      interface Media @key(fields: "id") { id: ID! }
      type Film implements Media @key(fields: "id") @cached(maxAge: 60) { id: ID! }`;
    expect(await checkSdl(subgraph)).toMatchObject({ code: 0, err: "" });
    expect(
      (
        await checkSdl(
          subgraph.replace("@cached(maxAge: 60) { id: ID! }", '@cached(maxAge: 60, key: ["$source.x"]) { id: ID! }'),
        )
      ).out,
    ).toContain("expected the key of the entity");
  });

  it("merges several files, with the place of each finding in its file", async () => {
    const one = file("type Query { a: Int }\n");
    const two = file("\n\ntype Query { b: Int @cached(maxAge: 60, no: 1) }\nextend type Query { c: Int }\n");
    const { code, out } = await run("check", one, two);
    expect(code).toBe(1);
    expect(out).toContain(`error: ${two}:3:21  @cached on \`Query.b\`: \`no\`: unknown`);
  });

  it("checks the resolvers and extensions of a schema that a module exports", async () => {
    const path = file(
      `import { GraphQLObjectType, GraphQLSchema, GraphQLString } from "graphql";
      const top = { type: GraphQLString, resolve: () => "", extensions: { cached: { maxAge: 60, tagz: [] } } };
      export const schema = new GraphQLSchema({ query: new GraphQLObjectType({ name: "Query", fields: { top } }) });`,
      "mjs",
    );
    const { code, out } = await run("check", path);
    expect(code).toBe(1);
    expect(out).toContain("error: extensions.cached on `Query.top`: `tagz`: unknown setting");
  });

  it("takes the options of createCache and of applyCached from a module", async () => {
    const config = file(
      'export default { defaults: { maxAge: 60 }, applyCached: { policies: { "Query.b": { maxAge: 60, negativeMaxAge: 90 } } } };',
      "mjs",
    );
    const { out } = await checkSdl("type Query { a: Int @cached(scope: PRIVATE) b: Int }", "--config", config);
    expect(out).toContain("PRIVATE requires the `identify` option");
    expect(out).toContain(
      "error: policies on `Query.b`: `negativeMaxAge`: expected an integer of at most `maxAge` (60)",
    );
    expect(out).toContain("2 errors, 0 warnings.");
  });

  it.each([
    ["a syntax error", "type Query {", "graphql:1:13: Syntax Error: Expected Name, found <EOF>."],
    ["nothing", "", "Syntax Error"],
    ["types that do not exist", "type Query { a: Nothing @cached(maxAge: 1) }", 'Unknown type: "Nothing".'],
    [
      "a schema without a query type",
      "type Movie { id: ID }",
      "the schema is invalid: Query root type must be provided.",
    ],
  ])("exits with 2 for %s", async (_what, sdl, message) => {
    const { code, out, err } = await checkSdl(sdl);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain(message);
  });

  it.each([
    ["no command", [], "expected check and the files of a schema, got nothing"],
    ["another command", ["chekc", "a.graphql"], "got chekc a.graphql"],
    ["a missing file", ["check", "missing.graphql"], "no such file or directory"],
    ["an unknown option", ["check", "--unknown"], "Unknown option '--unknown'"],
    ["a missing config", ["check", "a.graphql", "--config", "missing.mjs"], "missing.mjs"],
    [
      "a module without a schema",
      ["check", file("export const server = 1;", "mjs")],
      "expected a module that exports a GraphQLSchema",
    ],
    ["a module that throws", ["check", file("throw new Error('no database');", "mjs")], "no database"],
  ])("exits with 2 for %s", async (_what, argv, message) => {
    const { code, out, err } = await run(...argv);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain(message);
  });

  it("prints what the docs show for the schema above it", async () => {
    const blocks = codeBlocks(read("docs/recipes.md"));
    const nth = blocks.findIndex(({ text }) => text.startsWith("npx graphql-cached check schema.graphql"));
    const path = file(blocks[nth - 1]?.text ?? "");
    const { out } = await run("check", path);
    expect(out.replaceAll(path, "schema.graphql")).toBe(blocks[nth + 1]?.text.trimEnd());
  });

  it("prints no control characters of a schema", async () => {
    const { out } = await checkSdl('type Query { a: Int @cached(maxAge: 60, key: ["\\u001b[31m$args\\u0007"]) }');
    for (const line of out.split("\n")) expect(line).not.toMatch(/\p{Cc}/u);
    expect(out).toContain("[31m$args");
  });

  it("runs as a program, which ends although a module keeps the process alive", async () => {
    const program = await compiledPath("src/tools/cli/bin.ts");
    const start = (...argv: readonly string[]) =>
      spawnSync(process.execPath, [program, ...argv], { encoding: "utf8", timeout: 60_000 });
    const alive = file(
      `import { buildSchema } from "graphql";
      setInterval(() => undefined, 1000);
      export default buildSchema("directive @cached(maxAge: Int) on FIELD_DEFINITION type Query { a: Int @cached(maxAge: -1) }");`,
      "mjs",
    );
    expect(start("check", alive)).toMatchObject({ status: 1, stderr: "" });
    expect(start("check", file(sound), "--default-scope", "PUBLIC")).toMatchObject({ status: 0, stderr: "" });
    expect(start("--help")).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("Usage: graphql-cached check"),
    });
    expect(start("check")).toMatchObject({ status: 2, stdout: "" });
  }, 60_000);
});
