import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { filesIn, ROOT, read } from "./source.js";

const MAX_FILE = 300;
const MAX_FUNCTION = 60;
const source = filesIn("src").filter((file) => !file.includes("/generated/"));

/** The longest function of a file, in lines, by its indentation: the formatter closes what it opens at the same depth. */
function longestFunction(text: string): number {
  const lines = text.split("\n");
  let longest = 0;
  for (const [start, line] of lines.entries()) {
    const opens =
      /^(\s*)(?:export )?(?:async )?(?:function\b|(?:readonly |static |async |get )*#?[\w$]+(?:<[^>]*>)?\(.*\).*\{$|const \w+ = .*=> \{$)/.exec(
        line,
      );
    if (opens === null || !line.endsWith("{")) continue;
    const end = lines.findIndex((other, index) => index > start && other.startsWith(`${opens[1]}}`));
    longest = Math.max(longest, end - start + 1);
  }
  return longest;
}

describe("a file of the source", () => {
  it("has at most 300 lines and functions of at most 60, or a reason in its room's README", () => {
    for (const file of source) {
      const text = read(file);
      const readme = join(dirname(file), "README.md");
      const reasons = existsSync(join(ROOT, readme)) ? read(readme) : "";
      const isLong = text.split("\n").length > MAX_FILE || longestFunction(text) > MAX_FUNCTION;
      if (isLong) expect(reasons, `${file} is long`).toContain(`\`${file.split("/").at(-1)}\``);
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
