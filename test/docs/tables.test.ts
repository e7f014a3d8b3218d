import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { CODES } from "../../src/core/base/errors.js";
import { BYPASS_REASONS } from "../../src/core/telemetry/events.js";
import { OPTION_GROUPS, OPTIONS } from "../../src/option-checks.js";
import { HEALTH_CODES } from "../../src/tools/inspection/health.js";
import { filesIn, ROOT, read, tableUnder } from "../project/source.js";

const unquoted = (cell: string | undefined): string => (cell ?? "").replaceAll("`", "");

describe("reference tables", () => {
  it("list only error codes that are used", () => {
    const code = filesIn("src")
      .filter((file) => file !== "src/core/base/errors.ts")
      .map(read)
      .join("\n");
    for (const name of Object.keys(CODES)) expect(code.includes(`"${name}"`), name).toBe(true);
  });

  it("say the default of every option as a number as the code has it", () => {
    const page = read("docs/reference.md");
    const bytes = (value: number): string =>
      value > 0 && value % 2 ** 20 === 0 ? `${value / 2 ** 20} MiB` : value.toLocaleString("en");
    for (const [group, rules] of [["Options", OPTIONS] as const, ...Object.entries(OPTION_GROUPS)]) {
      const rows = new Map(
        tableUnder(group === "Options" ? group : `\`${group}\``, page).map(([name, text]) => [unquoted(name), text]),
      );
      expect([...rows.keys()], group).toEqual(expect.arrayContaining(Object.keys(rules)));
      for (const [name, { fallback }] of Object.entries(
        rules as Readonly<Record<string, { readonly fallback: unknown }>>,
      ))
        if (typeof fallback === "number") expect(rows.get(name), name).toContain(`Default: ${bytes(fallback)}`);
    }
  });

  it("list every health code with its meaning, and what to check for every bypass reason", () => {
    const page = read("docs/operating.md");
    const codes = tableUnder("Health codes", page).map(([code, meaning]) => [unquoted(code), meaning]);
    expect(codes).toEqual(Object.entries(HEALTH_CODES));
    expect(tableUnder("Bypass reasons", page).map(([name]) => unquoted(name))).toEqual(BYPASS_REASONS);
  });

  it("say what to do for every reason why an entry is not served", () => {
    const [, reasons = ""] = /enum CacheEntryReasonCode \{([^}]*)\}/.exec(read("schema/inspection.graphql")) ?? [];
    const rows = tableUnder("The entry is not served", read("docs/operating.md")).map(([seen]) => seen);
    const explained = rows.flatMap((seen = "") => [...seen.matchAll(/`([A-Z_]+)`/g)].map(([, reason]) => reason));
    expect(explained.length).toBe(new Set(explained).size);
    expect(new Set(explained)).toEqual(new Set([...reasons.matchAll(/^ {2}([A-Z_]+)$/gm)].map(([, one]) => one)));
  });

  it("list every command of the Redis scripts in the ACL, and no other for scripts", () => {
    const [, block = ""] = /ACL SETUSER(.+?)```/s.exec(read("docs/stores.md")) ?? [];
    const [, , ...lines] = block.split("\n").map((line) => [...line.matchAll(/\+(\w+)/g)].map(([, name]) => name));
    const called = [...filesIn("src/stores/redis"), ...filesIn("packages/redis-bloom/src")].flatMap((file) =>
      [...read(file).matchAll(/redis\.p?call\('([A-Z]+)'/g)].map(([, name = ""]) => name.toLowerCase()),
    );
    expect(called.filter((name) => name !== "time" && !lines.flat().includes(name))).toEqual([]);
    const [forEntries = []] = lines;
    expect(forEntries.filter((name) => !called.includes(name as string))).toEqual([]);
  });
});

describe("links", () => {
  const pages = [
    ...["", "docs", "examples", "bench", "src", "packages"].flatMap((folder) => pagesIn(folder)),
    "test/THREATS.md",
  ];

  it.each(pages)("of %s lead to files that exist", (page) => {
    for (const [, target = ""] of read(page).matchAll(/\]\((?!https?:|#)([^)#]+)[^)]*\)/g))
      expect(existsSync(join(ROOT, dirname(page), target)), target).toBe(true);
  });
});

function pagesIn(folder: string): string[] {
  if (folder !== "") return filesIn(folder, ".md").filter((page) => !page.includes("node_modules"));
  return ["README", "ARCHITECTURE", "PROTOCOL", "CONTRIBUTING", "ROADMAP", "SECURITY", "CHANGELOG"].map(
    (name) => `${name}.md`,
  );
}
