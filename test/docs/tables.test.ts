import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { CODES } from "../../src/errors.js";
import { HEALTH_CODES } from "../../src/inspection/health.js";
import { OPTION_GROUPS, OPTIONS } from "../../src/options.js";
import { filesIn, ROOT, read, tableUnder } from "../project/source.js";

const unquoted = (cell: string | undefined): string => (cell ?? "").replaceAll("`", "");
/** How the options page writes a default. */
const written = (fallback: unknown): string =>
  fallback === undefined ? "–" : Array.isArray(fallback) ? fallback.join(", ") || "none" : String(fallback);

describe("reference tables", () => {
  it("list every error code with its meaning", () => {
    const rows = tableUnder("Error codes", read("docs/errors.md")).map(([code, meaning]) => [unquoted(code), meaning]);
    expect(rows).toEqual(Object.entries(CODES));
  });

  it("list only error codes that are used", () => {
    const code = filesIn("src")
      .filter((file) => file !== "src/errors.ts")
      .map(read)
      .join("\n");
    for (const name of Object.keys(CODES)) expect(code.includes(`"${name}"`), name).toBe(true);
  });

  it("list every option with its default, by group", () => {
    const page = read("docs/options.md");
    const rows = (heading: string): string[][] =>
      tableUnder(heading, page).map(([name, fallback]) => [unquoted(name), unquoted(fallback)]);
    const expected = (rules: Readonly<Record<string, { readonly fallback: unknown }>>): string[][] =>
      Object.entries(rules).map(([name, { fallback }]) => [name, written(fallback)]);
    expect(rows("Options")).toEqual([...expected(OPTIONS), ["defaults", "–"], ["profiles", "–"]]);
    for (const [group, rules] of Object.entries(OPTION_GROUPS))
      expect(rows(`\`${group}\``), group).toEqual(expected(rules));
  });

  it("list every argument of @cached", () => {
    const rows = tableUnder("Arguments of `@cached`", read("docs/cache-policies.md")).map(([name]) => unquoted(name));
    const [, body = ""] = read("schema/cached.graphql").split("directive @cached(");
    const args = [...(body.split(") on FIELD_DEFINITION")[0] ?? "").matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name);
    expect(rows).toEqual(args);
  });

  it("list every event, outcome and bypass reason", () => {
    const source = read("src/telemetry/events.ts");
    const page = read("docs/events.md");
    const names = (heading: string): string[] => tableUnder(heading, page).map(([name]) => unquoted(name));
    const events = [...source.matchAll(/\breadonly name: "([a-z.A-Z]+)"/g)].map(([, name]) => name);
    expect(names("Events")).toEqual(events);
    const union = (type: string): (string | undefined)[] => {
      const [, body = ""] = new RegExp(`export type ${type} =([^;]*);`).exec(source) ?? [];
      return [...body.matchAll(/"(\w+)"/g)].map(([, member]) => member);
    };
    expect(names("Outcomes")).toEqual(union("ReadOutcome"));
    expect(names("Bypass reasons")).toEqual(union("BypassReason"));
  });

  it("list every health code with its meaning, and what to check for every bypass reason", () => {
    const page = read("docs/operating.md");
    const codes = tableUnder("Health codes", page).map(([code, meaning]) => [unquoted(code), meaning]);
    expect(codes).toEqual(Object.entries(HEALTH_CODES));
    const [, reasons = ""] = /export type BypassReason =([^;]*);/.exec(read("src/telemetry/events.ts")) ?? [];
    expect(tableUnder("Bypass reasons", page).map(([name]) => unquoted(name))).toEqual(
      [...reasons.matchAll(/"(\w+)"/g)].map(([, reason]) => reason),
    );
  });

  it("say what to do for every reason why a field is not cached with its subtree", () => {
    const [, reasons = ""] = /export type SkipReason =([^;]*);/.exec(read("src/telemetry/events.ts")) ?? [];
    const rows = tableUnder("Why a field has no subtree", read("docs/responses.md"));
    expect(rows.map(([name]) => unquoted(name))).toEqual([...reasons.matchAll(/"(\w+)"/g)].map(([, reason]) => reason));
    for (const [reason, , remedy] of rows) expect(remedy, reason).not.toBe("");
  });

  it("say what to do for every reason why an entry is not served", () => {
    const [, reasons = ""] = /enum CacheEntryReason \{([^}]*)\}/.exec(read("schema/inspection.graphql")) ?? [];
    const rows = tableUnder("The entry is not served", read("docs/operating.md")).map(([seen]) => seen);
    const explained = rows.flatMap((seen = "") => [...seen.matchAll(/`([A-Z_]+)`/g)].map(([, reason]) => reason));
    expect(explained.length).toBe(new Set(explained).size);
    expect(new Set(explained)).toEqual(new Set([...reasons.matchAll(/^ {2}([A-Z_]+)$/gm)].map(([, one]) => one)));
  });

  it("list every command of the Redis scripts in the ACL, and no other for scripts", () => {
    const [, block = ""] = /ACL SETUSER(.+?)```/s.exec(read("docs/stores.md")) ?? [];
    const [, , ...lines] = block.split("\n").map((line) => [...line.matchAll(/\+(\w+)/g)].map(([, name]) => name));
    const called = filesIn("src/redis").flatMap((file) =>
      [...read(file).matchAll(/redis\.p?call\('([A-Z]+)'/g)].map(([, name = ""]) => name.toLowerCase()),
    );
    expect(called.filter((name) => name !== "time" && !lines.flat().includes(name))).toEqual([]);
    const [forEntries = [], forLogs = []] = lines;
    expect([...forEntries, ...forLogs].filter((name) => !called.includes(name as string))).toEqual([]);
  });
});

describe("links", () => {
  const pages = [...["", "docs", "examples", "bench", "src"].flatMap((folder) => pagesIn(folder)), "test/THREATS.md"];

  it.each(pages)("of %s lead to files that exist", (page) => {
    for (const [, target = ""] of read(page).matchAll(/\]\((?!https?:|#)([^)#]+)[^)]*\)/g))
      expect(existsSync(join(ROOT, dirname(page), target)), target).toBe(true);
  });

  it("of the README are absolute, since the package contains the README alone, and lead to files that exist", () => {
    const { homepage } = JSON.parse(read("package.json")) as { homepage: string };
    const base = `${homepage.replace("#readme", "")}/blob/main/`;
    const targets = [...read("README.md").matchAll(/\]\(([^)]+)\)/g)].map(([, target = ""]) => target);
    for (const target of targets.filter((one) => !one.startsWith("#"))) {
      expect(target).toMatch(/^https:/);
      if (target.startsWith(base))
        expect(existsSync(join(ROOT, target.slice(base.length).replace(/#.*/, ""))), target).toBe(true);
    }
  });
});

function pagesIn(folder: string): string[] {
  if (folder !== "") return filesIn(folder, ".md").filter((page) => !page.includes("node_modules"));
  return ["README", "ARCHITECTURE", "PROTOCOL", "CONTRIBUTING", "SECURITY", "CHANGELOG"].map((name) => `${name}.md`);
}
