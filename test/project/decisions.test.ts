import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { filesIn, ROOT, read } from "./source.js";

const pages = filesIn("adr", ".md").filter((path) => path !== "adr/README.md");

describe("the pages of decisions", () => {
  it("are all in the index, by number and title", () => {
    const lines = pages.map((path, index) => {
      const [, number, title] = /^# (\d+)\. (.*)$/m.exec(read(path)) ?? [];
      expect(Number(number)).toBe(index + 1);
      return `${number}. [${title}](${path.replace("adr/", "")})`;
    });
    expect(lines.length).toBeGreaterThan(9);
    expect(read("adr/README.md").match(/^\d+\. .*$/gm)).toEqual(lines);
  });

  it.each(pages)("%s has four parts in at most 40 lines, and links to what exists", (path) => {
    const text = read(path);
    expect(text.match(/^## .*$/gm)).toEqual(["## Context", "## Decision", "## Consequences", "## Rejected"]);
    expect(text.split("\n").length).toBeLessThanOrEqual(41);
    const headings = (file: string): string[] =>
      [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
        heading
          .toLowerCase()
          .replaceAll(/[^\w\s-]/g, "")
          .replaceAll(/\s/g, "-"),
      );
    for (const [, target = "", anchor] of text.matchAll(/\]\(\.\.\/([^)#]+)(?:#([^)]+))?\)/g)) {
      expect(existsSync(join(ROOT, target)), target).toBe(true);
      if (anchor !== undefined) expect(headings(target)).toContain(anchor);
    }
  });
});
