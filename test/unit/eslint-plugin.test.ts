import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EslintReport, type EslintSettings, eslintPlugin } from "graphql-cached/eslint";
import { afterAll, describe, expect, it } from "vitest";
import { RULES } from "../../src/tools/cli/lint.js";
import { type GraphqlSourceCode, graphqlLanguage } from "../../src/tools/eslint/language.js";

const cwd = mkdtempSync(join(tmpdir(), "graphql-cached-eslint-"));
afterAll(() => rmSync(cwd, { recursive: true, force: true }));
mkdirSync(join(cwd, "api"));

function sourceOf(text: string): GraphqlSourceCode {
  const parsed = graphqlLanguage.parse({ body: text });
  if (!parsed.ok) throw new Error(parsed.errors[0]?.message);
  return graphqlLanguage.createSourceCode({ body: text }, parsed);
}

/** Runs all rules on a file as ESLint does: each of them visits the nodes of one walk. */
function run(filename: string, text: string, own?: EslintSettings | Record<string, unknown>) {
  const sourceCode = sourceOf(text);
  const found: (EslintReport & { rule: string })[] = [];
  for (const [rule, { create }] of Object.entries(eslintPlugin.rules)) {
    const visitors = create({
      cwd,
      filename: join(cwd, filename),
      settings: own === undefined ? {} : { "graphql-cached": own },
      sourceCode,
      report: (problem) => found.push({ rule, ...problem }),
    });
    for (const { phase, target } of sourceCode.traverse())
      if (phase === 1) visitors[(target as { kind: string }).kind]?.();
  }
  return found;
}

const POSTS = `type Query {
  posts(of: ID): [Int!] @cached(maxAge: 60,
    key: [])
}`;

describe("the plugin of ESLint", () => {
  it("has a rule for each rule of check, all of them on for GraphQL files in the recommended configuration", () => {
    expect(
      Object.fromEntries(Object.entries(eslintPlugin.rules).map(([name, { meta }]) => [name, meta.docs.description])),
    ).toEqual(RULES);
    const [config] = eslintPlugin.configs.recommended;
    expect(config).toMatchObject({ language: "graphql-cached/graphql", plugins: { "graphql-cached": eslintPlugin } });
    expect(Object.keys(config?.rules ?? {})).toEqual(Object.keys(RULES).map((name) => `graphql-cached/${name}`));
  });

  it("reports what check finds, by its rule, from the begin to the end of the directive", () => {
    expect(run("schema.graphql", POSTS)).toEqual([
      {
        rule: "key",
        loc: { start: { line: 2, column: 24 }, end: { line: 3, column: 12 } },
        message:
          "Query.posts: `key`: leaves out the argument `$args.of`, so calls that differ only there share one value; add it, or disable this rule here",
      },
    ]);
  });

  it("checks a schema of several files with the text that is edited, and reports to each file its own", () => {
    const movie =
      'type Movie { id: ID! stars: Int @cached(maxAge: 60, tags: ["Moive:{$source.id}"]) }\nextend type Query { movie: Movie }';
    const mutation = 'type Mutation { rate(id: ID!): Movie @invalidates(tags: ["Movie:{$args.id}"]) }';
    writeFileSync(join(cwd, "api", "query.graphql"), "type Query { a: Int }");
    writeFileSync(join(cwd, "api", "movie.gql"), movie);
    writeFileSync(join(cwd, "mutation.graphql"), mutation);
    const settings = { schema: ["api", "mutation.graphql"] };
    expect(run("api/query.graphql", "type Query { a: Int }", settings)).toEqual([]);
    expect(run("mutation.graphql", mutation, settings)).toMatchObject([
      { rule: "tag", message: expect.stringMatching(/^Mutation\.rate: no cached field has a tag like/) },
    ]);
    expect(run("api/movie.gql", movie, settings)).toMatchObject([{ rule: "tag", loc: { start: { column: 32 } } }]);
    expect(run("api/movie.gql", movie.replace("Moive", "Movie"), settings)).toEqual([]);
    expect(run("other.graphql", POSTS, settings)).toMatchObject([{ rule: "key" }]);
  });

  it("takes the options of the cache and of applyCached", () => {
    const text = "type Query { a: Int @kept(profile: FAST) b: Int @kept(maxAge: 1, scope: PRIVATE) c: Int @vip @kept }";
    const sdl = text.replace("FAST", '"fast"');
    const config = { profiles: { fast: { maxAge: 1 } }, applyCached: { directive: "kept" } };
    expect(run("a.graphql", sdl, { config })).toMatchObject([
      { rule: "policy", message: expect.stringContaining("requires the `identify` option") },
      { rule: "policy", message: expect.stringContaining("Query.c") },
    ]);
    const known = { ...config, identify: () => "me", defaults: { maxAge: 5 } };
    expect(run("a.graphql", sdl, { config: known })).toEqual([]);
    expect(run("a.graphql", sdl, { config: known, authDirectives: ["vip"] }).length).toBeGreaterThan(0);
    const mine = "type Query { a: Int @cached(maxAge: 1, scope: PRIVATE) }";
    expect(run("a.graphql", mine)).toEqual([]);
    expect(run("a.graphql", mine, { identify: false })).toMatchObject([{ rule: "policy" }]);
  });

  it("ignores operations", () => {
    expect(run("home.graphql", "query { posts }")).toEqual([]);
  });

  it.each([
    [
      "type Query { movie: Movie @cached(maxAge: 1) }",
      undefined,
      'Unknown type "Movie".; if the schema has more files, name them in settings["graphql-cached"].schema',
    ],
    [POSTS, { schemas: "api" }, "`schemas`: unknown option; expected one of `schema`"],
    [POSTS, { schema: "none" }, "expected files or folders, got none, and there is no such file"],
    [POSTS, { config: { applyCached: { directive: "@cached" } } }, "expected a GraphQL name without the @"],
    [POSTS, { config: { defaults: { maxAge: -1 } } }, "maxAge"],
  ])("says once, at the begin of the file, why it cannot be checked: %j with %j", (text, settings, message) => {
    expect(run("schema.graphql", text, settings)).toEqual([
      {
        rule: "policy",
        loc: { start: { line: 1, column: 0 }, end: { line: 1, column: 1 } },
        message: expect.stringContaining(message),
      },
    ]);
  });
});

describe("the language of ESLint", () => {
  it("says where a text cannot be parsed", () => {
    expect(graphqlLanguage.parse({ body: "type Query {\n  a: }" })).toEqual({
      ok: false,
      errors: [{ message: 'Syntax Error: Expected Name, found "}".', line: 2, column: 6 }],
    });
  });

  it("reads comments that turn rules off, with their reasons", () => {
    const source = sourceOf(
      "# eslint-disable-next-line graphql-cached/key, graphql-cached/tag -- intended\ntype Query {\n  a: Int # eslint-disable-line\n}\n# eslint-disables\n# eslint-disable x\n# eslint-enable",
    );
    const { directives, problems } = source.getDisableDirectives();
    expect(problems).toEqual([]);
    expect(
      directives.map(({ type, value, justification, node }) => [type, value, justification, source.getLoc(node).start]),
    ).toEqual([
      ["disable-next-line", "graphql-cached/key, graphql-cached/tag", "intended", { line: 1, column: 0 }],
      ["disable-line", "", "", { line: 3, column: 9 }],
      ["disable", "x", "", { line: 6, column: 0 }],
      ["enable", "", "", { line: 7, column: 0 }],
    ]);
    expect(source.text.slice(...source.getRange(directives[1]?.node ?? source.ast))).toBe("# eslint-disable-line");
    expect(source.getLoc(source.ast).end).toEqual({ line: 7, column: 15 });
  });
});
