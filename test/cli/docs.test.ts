import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { RULES } from "../../src/cli/lint.js";
import { ROOT, read, tableUnder } from "../project/source.js";
import { codeBlocks } from "../support/markdown.js";

const PAGE = "docs/command-line.md";
const blocks = codeBlocks(read(PAGE));
const folder = mkdtempSync(join(tmpdir(), "graphql-cached-docs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe(PAGE, () => {
  it("shows what check prints for the schema above it", () => {
    const nth = blocks.findIndex(({ text }) => text.startsWith("npx graphql-cached check schema.graphql"));
    const [schema, , output] = blocks.slice(nth - 1);
    writeFileSync(join(folder, "schema.graphql"), schema?.text ?? "");
    const { stdout } = spawnSync(
      process.execPath,
      ["--import", import.meta.resolve("tsx"), join(ROOT, "src/cli/bin.ts"), "check", "schema.graphql"],
      { cwd: folder, encoding: "utf8" },
    );
    expect(stdout.trimEnd()).toBe(output?.text.trimEnd());
  }, 60_000);

  it("lists the rules of check as --help does", () => {
    const rows = tableUnder("check: find mistakes in a schema", read(PAGE));
    expect(rows.map(([rule, what]) => [rule?.replaceAll("`", ""), what])).toEqual(Object.entries(RULES));
  });
});
