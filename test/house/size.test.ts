import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { filesIn, ROOT, read } from "./source.js";

const MAX_FILE = 300;
const MAX_FUNCTION = 60;
const source = filesIn("src").filter((file) => !file.includes("/generated/"));

interface Finding {
  readonly location: {
    readonly path: string;
    readonly start: { readonly line: number };
    readonly end: { readonly line: number };
  };
}

/** Biome finds the functions, counting no comments; what it found is measured from its first line to its last. */
function longFunctionsOf(folder: string): Set<string> {
  const home = mkdtempSync(join(tmpdir(), "graphql-cached-size-"));
  const options = { level: "error", options: { maxLines: MAX_FUNCTION / 4 } };
  const rules = { preset: "none", complexity: { noExcessiveLinesPerFunction: options } };
  writeFileSync(join(home, "biome.json"), JSON.stringify({ root: true, linter: { rules } }));
  const args = ["lint", `--config-path=${home}`, "--reporter=json", "--max-diagnostics=none", folder];
  const { stdout } = spawnSync(join(ROOT, "node_modules/.bin/biome"), args, {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  rmSync(home, { recursive: true });
  const { diagnostics } = JSON.parse(stdout) as { diagnostics: readonly Finding[] };
  expect(diagnostics.length, "biome finds functions").toBeGreaterThan(0);
  const isLong = ({ location: { start, end } }: Finding): boolean => end.line - start.line + 1 > MAX_FUNCTION;
  return new Set(diagnostics.filter(isLong).map(({ location }) => location.path));
}

describe("a file of the source", () => {
  it("has at most 300 lines and functions of at most 60, or a reason in its room's README", () => {
    const withLongFunction = longFunctionsOf("src");
    for (const file of source) {
      const text = read(file);
      const readme = join(dirname(file), "README.md");
      const reasons = existsSync(join(ROOT, readme)) ? read(readme) : "";
      const isLong = text.trimEnd().split("\n").length > MAX_FILE || withLongFunction.has(file);
      // A mention is not a reason: the line that names the file says that it, or a function of it, is long.
      const reason = new RegExp(`\`${file.split("/").at(-1)}\`.*\\blong`);
      if (isLong) expect(reasons, `${file} is long`).toMatch(reason);
    }
  });

  it("stands in a room whose README has at most 40 lines", () => {
    const rooms = new Set(source.map(dirname).filter((room) => room !== "src" && !room.endsWith("/scripts")));
    for (const room of rooms) {
      expect(existsSync(join(ROOT, room, "README.md")), room).toBe(true);
      expect(read(`${room}/README.md`).split("\n").length, room).toBeLessThanOrEqual(41);
    }
  });
});
