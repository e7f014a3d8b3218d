import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";
import { slugify } from "../../docs/.vitepress/anchors.js";
import { PAGES } from "../../docs/.vitepress/pages.js";
import { BLOCK_NAMES, withTables } from "../../scripts/reference.mjs";
import { filesIn, ROOT, read } from "../project/source.js";

const pages = filesIn("docs", ".md");
const withoutCode = (markdown: string): string => markdown.replaceAll(/^( *)(```+)[\s\S]*?^\1\2$/gm, "");

describe("the documentation site", () => {
  it("has every page in its sidebar", () => {
    expect(
      Object.values(PAGES)
        .flat()
        .map((page) => `docs/${page}.md`)
        .sort(),
    ).toEqual(pages);
  });

  it("has at most 15 pages and 22,000 words, code and tables included", () => {
    const words = pages.map((page) => read(page).match(/\S*[\p{L}\p{N}]\S*/gu)?.length ?? 0);
    expect(pages.length).toBeLessThanOrEqual(15);
    expect(words.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(22_000);
  });

  it("follows a README of at most 100 lines", () => {
    expect(read("README.md").trimEnd().split("\n").length).toBeLessThanOrEqual(100);
  });

  it.each(pages)("opens %s with what the page is for, in at most three sentences, one a line", (page) => {
    const [heading = "", opening = ""] = read(page).split(/\n{2,}/);
    expect(heading).toMatch(/^# \S[^\n]*$/);
    const sentences = opening.split("\n");
    expect(sentences.length).toBeGreaterThanOrEqual(2);
    expect(sentences.length).toBeLessThanOrEqual(3);
    for (const sentence of sentences) expect(sentence).toMatch(/^[A-Za-z`@].*[.:]$/);
  });

  it.each(pages)("writes %s with one sentence a line", (page) => {
    const prose = withoutCode(read(page))
      .split("\n")
      .filter((line) => !/^\s*(\||#|<|!\[)/.test(line));
    expect(prose.filter((line) => /[a-z0-9)`"][.?!] +[A-Z`]/.test(line.replace(/^\s*\d+\. /, "")))).toEqual([]);
  });

  it("has reference tables that say what the sources say", () => {
    const page = read("docs/reference.md");
    expect(withTables(page)).toBe(page);
    for (const name of BLOCK_NAMES) expect(page, name).toContain(`<!-- generated: ${name} -->`);
  });

  it("refuses a table that the sources do not have", () => {
    expect(() => withTables("<!-- generated: Nothing -->\n<!-- end -->")).toThrow(
      "reference: expected one of options,",
    );
  });
});

describe("anchors", () => {
  const anchorsOf = (markdown: string): Set<string> => {
    const counts = new Map<string, number>();
    const anchors = new Set<string>();
    for (const [, heading = ""] of withoutCode(markdown).matchAll(/^#{1,6} (.+)$/gm)) {
      const slug = slugify(heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"));
      const count = counts.get(slug) ?? 0;
      counts.set(slug, count + 1);
      anchors.add(count === 0 ? slug : `${slug}-${count}`);
    }
    return anchors;
  };
  const linking = ["README", "ARCHITECTURE", "PROTOCOL", "CONTRIBUTING", "ROADMAP", "SECURITY", "CHANGELOG"]
    .map((name) => `${name}.md`)
    .concat(pages, filesIn("examples", ".md"), filesIn("src", ".md"), filesIn("packages", ".md"));

  it.each(linking)("of links in %s are headings of the page that they lead to", (page) => {
    for (const [, path = "", anchor = ""] of withoutCode(read(page)).matchAll(
      /\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g,
    )) {
      const target = path === "" ? page : normalize(join(dirname(page), path));
      if (target.endsWith(".md") && existsSync(join(ROOT, target)))
        expect([...anchorsOf(read(target))], `${path}#${anchor}`).toContain(anchor);
    }
  });
});
