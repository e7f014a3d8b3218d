import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "graphql";
import { afterAll, describe, expect, it } from "vitest";
import { loadMistake } from "../../src/tools/cli/schema-module.js";
import { ROOT } from "../project/source.js";
import { type CliRun, runCli } from "../support/cli-terminal.js";

const folder = mkdtempSync(join(tmpdir(), "graphql-cached-modules-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, "node_modules"));
for (const name of ["graphql", "@graphql-tools"])
  symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
writeFileSync(join(folder, "package.json"), '{ "type": "module" }');

function module(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}
const check = (path: string, ...options: readonly string[]): Promise<CliRun> => runCli(["check", path, ...options]);

const SDL =
  'type Query { movie(id: ID): Movie @cached(maxAge: 60, tags: ["Movie:{$result.idd}"]) } type Movie { id: ID! title: String @cached(maxAge: 60) }';
const mistake = "`$result.idd`: unknown field `idd` of `Movie`; expected one of `id`, `title`";
const text = JSON.stringify(SDL);
const tools =
  'import { makeExecutableSchema } from "@graphql-tools/schema"; import { buildSchema, parse, GraphQLObjectType, GraphQLSchema, GraphQLString } from "graphql";';
const directives = JSON.stringify(
  "directive @cached(maxAge: Int, tags: [String!]) on FIELD_DEFINITION | OBJECT directive @invalidates(tags: [String!]!) repeatable on FIELD_DEFINITION",
);

/** Modules that export the schema with one mistake. */
const MODULES: Readonly<Record<string, string>> = {
  "default.mjs": `export default ${text};`,
  "type-defs.js": `export const typeDefs = ${text};`,
  "document.mjs": `${tools} export const typeDefs = parse(${text});`,
  "list.mjs": `${tools} export const typeDefs = [${directives}, [parse(${text})], "extend type Query { other: Int }"];`,
  "promise.mjs": `export default Promise.resolve(${text});`,
  "object.mjs": `export default { typeDefs: ${text}, resolvers: {} };`,
  "common.cjs": `module.exports = { typeDefs: ${text} };`,
  "function.cjs": `exports.schema = require("graphql").buildSchema(${directives} + " " + ${text});`,
  "schema.mjs": `${tools} export const schema = makeExecutableSchema({ typeDefs: [${directives}, ${text}], resolvers: { Query: { movie: () => ({}) } } });`,
};

describe("check of a module", () => {
  it.each(Object.entries(MODULES))(
    "reads the type definitions or the schema that it exports: %s",
    async (name, source) => {
      const { code, out, err } = await check(module(name, source), "--json");
      const { findings } = JSON.parse(out) as { findings: { rule: string; coordinate: string; message: string }[] };
      expect({ code, err }).toEqual({ code: 1, err: "" });
      expect(findings.filter(({ rule }) => rule === "policy")).toMatchObject([
        { coordinate: "Query.movie", message: expect.stringContaining(mistake) },
      ]);
      // Only an executable schema shows which fields have resolvers.
      const unresolved =
        name === "schema.mjs"
          ? [{ coordinate: "Movie.title", message: expect.stringContaining("without a resolver") }]
          : [];
      expect(findings.filter(({ rule }) => rule === "resolver")).toMatchObject(unresolved);
    },
  );

  it("finds mistakes in the extensions of a code-first schema", async () => {
    const path = module(
      "code-first.mjs",
      `${tools}
      const top = { type: GraphQLString, resolve: () => "", extensions: { cached: { maxAge: 60000, tagz: [] } } };
      const fast = { type: GraphQLString, resolve: () => "", extensions: { cached: { maxAge: 60000, tags: ["Fast"] } } };
      const rate = { type: GraphQLString, resolve: () => "", extensions: { invalidates: { tags: ["Slow"] } } };
      const drop = { type: GraphQLString, resolve: () => "", extensions: { invalidates: { tags: [], tag: [] } } };
      export default new GraphQLSchema({
        query: new GraphQLObjectType({ name: "Query", fields: { top, fast } }),
        mutation: new GraphQLObjectType({ name: "Mutation", fields: { rate, drop } }),
      });`,
    );
    const { out } = await check(path, "--json");
    const { findings } = JSON.parse(out) as { findings: { rule: string; coordinate: string; message: string }[] };
    expect(findings).toMatchObject([
      { rule: "policy", coordinate: "Mutation.drop", message: expect.stringContaining("`tag`: unknown argument") },
      { rule: "policy", coordinate: "Mutation.drop", message: expect.stringContaining("expected at least one tag") },
      {
        rule: "tag",
        coordinate: "Mutation.rate",
        message: expect.stringContaining("no cached field has a tag like `Slow`"),
      },
      { rule: "seconds", coordinate: "Query.fast", message: expect.stringContaining("did you mean 60?") },
      {
        rule: "tag",
        coordinate: "Query.fast",
        message: expect.stringContaining("no mutation invalidates a tag like `Fast`"),
      },
      {
        rule: "policy",
        coordinate: "Query.top",
        message: expect.stringContaining("extensions.cached: `tagz`: unknown setting"),
      },
    ]);
  });

  it.each([
    ["throws.mjs", "throw new Error('no database');", "cannot be loaded: no database"],
    [
      "nothing.mjs",
      "export const server = 1;",
      "expected a module that exports type definitions or a schema (as its default, `typeDefs` or `schema`), got one that exports server",
    ],
    ["empty.mjs", "", "got one that exports nothing"],
    ["number.mjs", "export default 7;", "`default`: expected SDL, a document or a GraphQLSchema, got 7"],
    [
      "another.mjs",
      "export class GraphQLSchema { getTypeMap() { return {}; } getDirectives() { return []; } } export default new GraphQLSchema();",
      "got a schema of another copy of graphql",
    ],
    ["missing.mjs", undefined, "there is no such file"],
  ])("says why it cannot be read: %s", async (name, source, message) => {
    const { code, err } = await check(source === undefined ? join(folder, name) : module(name, source));
    expect(code).toBe(2);
    expect(err.replaceAll(/\s+/g, " ")).toContain(message);
  });

  it("reads the root types and directives of a schema of another copy of graphql", async () => {
    const { definitions } = parse(
      "directive @own on FIELD_DEFINITION schema { query: Root } type Root { all: [Int] @own @cached(maxAge: 60) }",
      { noLocation: true },
    );
    const source = `const [directive, astNode, root] = ${JSON.stringify(definitions)};
      class GraphQLSchema { astNode = astNode; extensionASTNodes = []; getDirectives() { return [{ astNode: directive }]; }
        getTypeMap() { return { Root: { astNode: root, extensionASTNodes: [] } }; } }
      export default new GraphQLSchema();`;
    const { out, err } = await check(module("foreign.mjs", source));
    expect([out, err]).toEqual([expect.stringContaining("No mistakes found: 1 cached field"), ""]);
  });

  it("uses the first export that can be a schema", async () => {
    const { code, out } = await check(
      module("first.mjs", `export const schema = null; export const typeDefs = ${text};`),
    );
    expect(code).toBe(1);
    expect(out.replaceAll(/\s+/g, " ")).toContain(mistake);
  });

  it("says that what a module exports has failed", async () => {
    const { code, err } = await check(
      module("failing.mjs", `export default Promise.reject(new Error("no database"));`),
    );
    expect(code).toBe(2);
    expect(err.replaceAll(/\s+/g, " ")).toContain("what it exports has failed: no database");
  });

  it("says that a schema is checked alone", async () => {
    const path = module("alone.mjs", MODULES["schema.mjs"] as string);
    const { err } = await check(path, path);
    expect(err.replaceAll(/\s+/g, " ")).toContain("expected a module with a schema alone, got 2 files");
  });

  it("ends although the module keeps the process alive, and reads TypeScript with a loader", () => {
    const path = module("alive.ts", `export const typeDefs: string = ${text}; setInterval(() => undefined, 1000);`);
    const { status, stdout } = spawnSync(
      process.execPath,
      ["--import", import.meta.resolve("tsx"), join(ROOT, "src/tools/cli/bin.ts"), "check", path],
      { encoding: "utf8", timeout: 60_000 },
    );
    expect(status).toBe(1);
    expect(stdout.replaceAll(/\s+/g, " ")).toContain(mistake);
  }, 60_000);

  it("says how TypeScript is read if Node.js does not", () => {
    const path = module("plain.tsx", `export const typeDefs: string = ${text};`);
    const runner = module(
      "runner.mjs",
      `import { register } from "node:module";
       import { pathToFileURL } from "node:url";
       await import(pathToFileURL(process.argv[2]).href).catch((error) => console.log(error.code));`,
    );
    // What Node.js says without a loader, in any version.
    expect(spawnSync(process.execPath, [runner, path], { encoding: "utf8" }).stdout.trim()).toBe(
      "ERR_UNKNOWN_FILE_EXTENSION",
    );
    const error = Object.assign(new Error("Unknown file extension"), { code: "ERR_UNKNOWN_FILE_EXTENSION" });
    expect(loadMistake(error)).toBe(
      "this Node.js runs no such file; set NODE_OPTIONS='--import tsx', with the package tsx, check the compiled module, or install @graphql-tools/code-file-loader, which reads templates with the tag gql",
    );
  });
});
