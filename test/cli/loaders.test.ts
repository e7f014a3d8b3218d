import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { buildSchema, introspectionFromSchema } from "graphql";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CliRun, runCli } from "../support/cli-terminal.js";
import { compiledPath } from "../support/programs.js";

/**
 * Does what the loaders of @graphql-tools do, as far as they are used: it returns the templates of a module with the place of
 * their backtick. `npm run verify -- package` runs the real ones.
 */
const LOADER = `
const { readdirSync, readFileSync } = require("node:fs");
const { join, resolve } = require("node:path");
class Loader {
  async resolveGlobs(pattern, { ignore }) {
    if (!ignore.includes("**/node_modules/**")) throw new Error("expected node_modules to be left out");
    const [folder, names] = pattern.split("/**/");
    const suffixes = names.replaceAll(/[*{}]/g, "").split(",");
    return readdirSync(folder, { recursive: true }).map((name) => resolve(join(folder, name)))
      .filter((path) => suffixes.some((one) => path.endsWith(one)) && !ignore.some((one) => path.endsWith(one.replace("**/*", ""))));
  }
  async load(path, { noRequire, noSilentErrors, pluckConfig: { skipIndent } }) {
    if (!noRequire || !noSilentErrors || !skipIndent) throw new Error("expected other options");
    const text = readFileSync(path, "utf8");
    return [...text.matchAll(/gql\`([^\`]*)\`/g)].map(({ 1: rawSDL, index }) => {
      const before = text.slice(0, index + 3).split("\\n");
      return { rawSDL, document: { loc: { source: { locationOffset: { line: before.length, column: before.at(-1).length } } } } };
    });
  }
}
`;

const folder = mkdtempSync(join(tmpdir(), "graphql-cached-loaders-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

function install(project: string, name: string): void {
  const [, file = ""] = name.split("/");
  const exported = file === "code-file-loader" ? "CodeFileLoader" : "GraphQLFileLoader";
  write(
    `${project}/node_modules/${name}/index.js`,
    `${LOADER} exports.${exported} = class ${exported} extends Loader {};`,
  );
  write(`${project}/package.json`, "{}");
}

let program: string;
beforeAll(async () => {
  program = await compiledPath("src/tools/cli/bin.ts");
  install("all", "@graphql-tools/code-file-loader");
  install("files", "@graphql-tools/graphql-file-loader");
});

function checkIn(project: string, ...argv: readonly string[]): CliRun {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, "check", ...argv], {
    cwd: join(folder, project),
    encoding: "utf8",
  });
  return { code: status ?? -1, out: stdout.replaceAll(/\s+/g, " "), err: stderr.replaceAll(/\s+/g, " ") };
}

const SDL = "type Query { posts: [Post!] @cached(maxAge: 60, subtree: true) }\ntype Post { id: ID! title: String }";

describe("check with the loaders of @graphql-tools", () => {
  it("reads the schema in files and templates that a pattern names, without running a module, and leaves out operations", () => {
    write("all/api/schema.graphql", SDL);
    write(
      "all/api/films.ts",
      'throw new Error("is run");\nexport const typeDefs = gql`\n  extend type Query {\n    film(id: ID!): String @cached(maxAge: 60, key: [])\n  }\n`;\nexport const query = gql`{ posts { id } }`;',
    );
    write("all/api/films.test.ts", "const broken = gql`type {`;");
    write("all/api/home.graphql", "{ posts { id } }");
    const { code, out, err } = checkIn("all", "api/**/*.{ts,graphql}", "!**/*.test.ts");
    expect(err).toBe("");
    expect(out).toMatch(/^api\/films\.ts:4:27 Query\.film \[key\] .* 1 finding in 2 files\. $/);
    expect(code).toBe(1);
    const broken = checkIn("all", "api/**/*.ts", "api/schema.graphql");
    expect(broken).toMatchObject({ code: 2, out: "" });
    expect(broken.err).toContain("api/films.test.ts:1:25: expected a GraphQL schema, got text that cannot be parsed");
  });

  it("reads operations in modules, with the lines that they have there", () => {
    const schema = write("all/schema.graphql", SDL);
    write("all/src/home.tsx", "const Home = gql`query Home { posts { ...Post } }`;\n\nconst other = <b />;");
    write(
      "all/src/post.tsx",
      "\nconst PostPart = gql`fragment Post on Post { id title }`;\ngql`query Late { posts { id } }`;",
    );
    for (const paths of [["src/**/*.tsx"], ["src/home.tsx", "--operations", "src/post.tsx"]]) {
      const { code, out, err } = checkIn("all", schema, "--operations", ...paths);
      expect({ code, err }).toEqual({ code: 0, err: "" });
      expect(out).toContain(
        "src/home.tsx:1 query Home Query.posts: subtree src/post.tsx:3 query Late Query.posts: subtree",
      );
    }
  });

  it("reads the templates of a module that exports no schema, or that Node.js cannot run", () => {
    write("all/one.mjs", "const gql = String.raw; export const types = gql`type Query { a: Int @cached }`;");
    write("all/two.tsx", "export const types: string = gql`type Query { a: Int @cached }`;");
    for (const [name, column] of [
      ["one.mjs", 70],
      ["two.tsx", 54],
    ])
      expect(checkIn("all", `${name}`).out).toMatch(new RegExp(`^${name}:1:${column} Query\\.a \\[policy\\]`));
    write("all/three.mjs", "export const none = 1;");
    expect(checkIn("all", "three.mjs").err).toContain("got one that exports none");
  });

  it("says what a pattern lacks", () => {
    write("all/empty/readme.graphql", "{ a }");
    const nothing = checkIn("all", "empty/**/*.gql");
    expect(nothing.err).toContain("expected files with type definitions, got empty/**/*.gql, which no file matches");
    expect(checkIn("all", "empty/**/*.graphql").err).toContain("which matches 1 without any");
    expect(nothing).toMatchObject({ code: 2, out: "" });
  });

  it("finds files with the loader of files alone, and names the package that a module needs", () => {
    const schema = write("files/api/schema.graphql", SDL);
    expect(checkIn("files", "api/**/*.graphql").out).toContain("No mistakes found: 1 cached field in 1 file.");
    const code = "@graphql-tools/code-file-loader";
    write("files/api/home.tsx", "gql`{ posts { id } }`");
    for (const path of ["api/**/*.tsx", "api/home.tsx"])
      expect(checkIn("files", schema, "--operations", path)).toMatchObject({
        code: 2,
        err: expect.stringContaining(
          `${path}: expected the package ${code} in this project, which finds the documents in modules, got none; run npm install --save-dev ${code}`,
        ),
      });
  });

  it("names the package that a pattern needs", async () => {
    const { code, err } = await runCli(["check", "missing/*.graphql"]);
    expect(code).toBe(2);
    expect(err.replaceAll(/\s+/g, " ")).toContain(
      "expected the package @graphql-tools/graphql-file-loader in this project",
    );
  });
});

describe("check of the result of an introspection query", () => {
  it("reads the types, and says that it has no policies", async () => {
    const result = introspectionFromSchema(buildSchema("type Query { a(id: ID): Int }"));
    for (const json of [result, { data: result }]) {
      const { code, out } = await runCli(["check", write("schema.json", JSON.stringify(json))]);
      expect(code).toBe(0);
      expect(out.replaceAll(/\s+/g, " ")).toMatch(
        /No mistakes found: 0 cached fields in 1 file\. Note: \S+schema\.json: the result of an introspection query has no directives/,
      );
    }
    const { code, err } = await runCli(["check", write("other.json", "{}")]);
    expect(code).toBe(2);
    expect(err.replaceAll(/\s+/g, " ")).toContain("expected the result of an introspection query, got something else");
  });
});
