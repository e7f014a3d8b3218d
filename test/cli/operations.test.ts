import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type CliRun, runCli } from "../support/cli-terminal.js";

const folder = mkdtempSync(join(tmpdir(), "graphql-cached-operations-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const sdl = `
directive @auth on FIELD_DEFINITION
type Query {
  posts: [Post!] @cached(maxAge: 60, scope: PUBLIC, subtree: true, tags: ["Posts"])
  notes: [Note!] @cached(maxAge: 60, scope: PUBLIC, subtree: true, tags: ["Notes"])
  top: Int @cached(maxAge: 60, scope: PUBLIC)
}
type Post { id: ID!  title: String  liked: Boolean @cached(maxAge: 0)  secret: String @auth }
type Note { text: String  isMine: Boolean @cached(maxAge: 0) }
`;
let nth = 0;

/** Runs `check` with operations in files of these names. */
function check(
  files: Readonly<Record<string, string>>,
  options: readonly string[] = [],
  schema = sdl,
): Promise<CliRun> {
  const own = join(folder, String(nth++));
  mkdirSync(join(own, "queries"), { recursive: true });
  writeFileSync(join(own, "schema.graphql"), schema);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(own, "queries", name), text);
  return runCli(["check", join(own, "schema.graphql"), "--operations", join(own, "queries"), ...options]);
}

interface Checked {
  readonly name: string | null;
  readonly mistake: string | null;
  readonly fields: readonly Readonly<Record<string, unknown>>[];
}

async function operationsOf(files: Readonly<Record<string, string>>): Promise<readonly Checked[]> {
  const { out } = await check(files, ["--json"]);
  return (JSON.parse(out) as { operations: readonly Checked[] }).operations;
}

describe("graphql-cached check --operations", () => {
  it("shows which fields of an operation are subtrees, and their holes", async () => {
    const { out, code } = await check({
      "home.graphql": "query Home {\n  latest: posts { id title liked }\n  top\n}",
      "list.gql": "\nquery List { posts { id secret } notes { text } }",
    });
    expect(out.replaceAll(folder, "").split("\n")).toEqual([
      expect.stringMatching(/home\.graphql:1 {2}query Home$/),
      "  Query.posts as latest: subtree; each request executes Post.liked",
      "",
      expect.stringMatching(/list\.gql:2 {2}query List$/),
      "  Query.posts: subtree; each request executes Post.secret",
      "  Query.notes: subtree",
      "",
      "2 operations: 3 fields with a subtree, 0 without one.",
      "",
      "No mistakes found: 3 cached fields in 1 file.",
    ]);
    expect(code).toBe(0);
  });

  it("says why a field has no subtree", async () => {
    const { out, code } = await check({
      "a.graphql": "query A { notes { text isMine } posts { id @client } }",
      "b.graphql": "{ top }",
    });
    expect(out).toContain("Query.notes: no subtree: LIST_WITHOUT_ID: `Query.notes` returns");
    expect(out).toContain("Query.posts: no subtree: DIRECTIVE: `@client` can change what is executed;");
    expect(out.replaceAll("\n", " ")).toContain(
      "2 operations: 0 fields with a subtree, 2 without one; 1 operation has no field with subtree: true.",
    );
    expect(code).toBe(0);
  });

  it("finds fragments in other files, and prefers those of the same file", async () => {
    const [first, second] = await operationsOf({
      "a.graphql": "query A { posts { ...F } }",
      "b.graphql": "query B { posts { ...F } } fragment F on Post { id liked }",
      "c.graphql": "fragment F on Post { id }",
    });
    expect(first?.fields[0]).toMatchObject({ isSubtree: true, holes: ["Post.liked"] });
    expect(second?.fields[0]).toMatchObject({ coordinate: "Query.posts", isSubtree: true, holes: ["Post.liked"] });
  });

  it("shows an operation that is not valid, and checks the others", async () => {
    const [invalid, valid, mutation] = await operationsOf({
      "a.graphql": "query A { posts { no } } query B { posts { id } } mutation C { a }",
    });
    expect(invalid).toMatchObject({ name: "A", mistake: expect.stringContaining('"no"') as string, fields: [] });
    expect(valid).toMatchObject({ name: "B", mistake: null, fields: [{ isSubtree: true, reason: null }] });
    expect(mutation).toMatchObject({ name: "C", kind: "mutation", fields: [] });
  });

  it("says that a schema which applyCached refuses cannot answer", async () => {
    const { out, code } = await check(
      { "a.graphql": "{ posts { id } }" },
      [],
      sdl.replace("subtree: true", "subtree: 1"),
    );
    expect(out).toContain("Note: The operations are not checked");
    expect(code).toBe(1);
  });

  it("rejects a file that is missing, or has no operations", async () => {
    const schema = join(folder, "schema.graphql");
    writeFileSync(schema, sdl);
    const missing = await runCli(["check", schema, "--operations", join(folder, "none.graphql")]);
    expect(missing.code).toBe(2);
    expect(missing.err.replaceAll("\n", " ")).toMatch(/--operations: .* cannot be read: there is no\s+such file/);
    const types = await runCli(["check", schema, "--operations", schema]);
    expect(types.err.replaceAll(/\s+/g, " ")).toContain("expected operations, got a type definition");
  });
});
