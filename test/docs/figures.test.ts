import { describe, expect, it } from "vitest";
import { blocksOf, writeFigures } from "../../bench/figures.js";
import { evaluateTargets, formatScenario, type Report, type Row, type ScenarioReport } from "../../bench/report.js";
import { filesIn, read } from "../project/source.js";

const readReport = (file: string): Report => JSON.parse(read(file)) as Report;
const pages = ["README.md", "bench/README.md", ...filesIn("docs", ".md"), ...filesIn("docs/images", ".svg")].filter(
  (page) => blocksOf(read(page)).length > 0,
);

describe("figures of the benchmarks", () => {
  it("are on the page that compares caches, its chart, which is on the README, and the page of the benchmarks", () => {
    expect(pages).toEqual(
      expect.arrayContaining(["docs/comparison.md", "docs/images/page-figures.svg", "bench/README.md"]),
    );
    expect(read("README.md")).toContain("(docs/images/page-figures.svg)");
  });

  it("show every contender of the page where caches are compared, and every missed target there or beside the benchmarks", () => {
    const [page, bench] = [read("docs/comparison.md"), read("bench/README.md")];
    const blocks = blocksOf(page);
    expect(blocks.map(({ name }) => name)).toEqual(["summary"]);
    expect(blocksOf(bench).map(({ name }) => name)).toEqual(["about", "caches", "missed"]);
    const { scenarios } = readReport((blocks[0] as { file: string }).file);
    for (const { contender } of scenarios.page?.rows ?? []) expect(page).toContain(`| ${contender} `);
    // The values of one measure are in the list or in a column of a table.
    for (const scenario of Object.values(scenarios))
      for (const { result, measured } of evaluateTargets(scenario))
        if (result === "missed") expect(page + bench).toContain(measured.replace(/ \(.*/, ""));
  });

  it("say of every contender of the page what it is and how this library compares with it", () => {
    const page = read("docs/comparison.md");
    const [summary] = blocksOf(page);
    const rows = readReport((summary as { file: string }).file).scenarios.page?.rows ?? [];
    expect(rows.length).toBeGreaterThan(0);
    for (const { contender } of rows) expect(page).toContain(`\n- **${contender}**`);
  });

  it.each(pages)("on %s are those of the results file that they name", (page) => {
    expect(writeFigures(read(page), readReport)).toBe(read(page));
  });

  it("on all pages are from one run", () => {
    expect(new Set(pages.flatMap((page) => blocksOf(read(page)).map(({ file }) => file))).size).toBe(1);
  });

  it("of a block that the results file does not have are refused", () => {
    const page = "<!-- figures no-such-scenario of some.json -->\n<!-- end of figures -->";
    expect(() => writeFigures(page, () => ({ scenarios: {} }) as Report)).toThrow(
      "figures: expected a block or a scenario of some.json, got no-such-scenario",
    );
  });
});

const row = (contender: string, median: number): Row => ({
  contender,
  values: { speed: { median, low: median, high: median, runs: 1 } },
});
const scenario = (rows: readonly Row[], better: "more" | "less" = "more"): ScenarioReport => ({
  title: "one and two",
  measures: [
    { name: "speed", unit: "x", better, targets: [{ contender: "ours", bound: 0.9 }] },
    { name: "not measured", unit: "ms", better },
  ],
  rows,
});
const resultsOf = (report: ScenarioReport): string[] => evaluateTargets(report).map(({ result }) => result);

describe("targets of the benchmarks", () => {
  it("are met from the bound on", () => {
    expect(resultsOf(scenario([row("ours", 0.9)]))).toEqual(["met"]);
    expect(resultsOf(scenario([row("ours", 0.89)]))).toEqual(["missed"]);
    expect(resultsOf(scenario([row("ours", 0.9)], "less"))).toEqual(["met"]);
    expect(resultsOf(scenario([row("ours", 0.91)], "less"))).toEqual(["missed"]);
  });

  it("are missed whatever other contenders reach", () => {
    expect(resultsOf(scenario([row("other", 2), row("ours", 0.5), row("slow", 0.1)]))).toEqual(["missed"]);
  });

  it("stay in the table if their contender was not measured", () => {
    expect(resultsOf(scenario([]))).toEqual(["not measured"]);
    expect(resultsOf(scenario([row("other", 1)]))).toEqual(["not measured"]);
  });
});

describe("tables of the benchmarks", () => {
  it("show all contenders with their quartiles, and no measure that has no value", () => {
    const spread = { median: 0.9, low: 0.8, high: 1, runs: 3 };
    const table = formatScenario(scenario([{ contender: "ours", values: { speed: spread } }, row("other", 1.5)]));
    for (const text of ["ours", "0.90x (0.80x - 1.00x)", "other", "1.50x"]) expect(table).toContain(text);
    expect(table).not.toContain("not measured");
  });

  it("show medians alone in README and docs", () => {
    const spread = { median: 0.9, low: 0.8, high: 1, runs: 3 };
    expect(formatScenario(scenario([{ contender: "ours", values: { speed: spread } }]), "medians")).toContain(
      "| 0.90x |",
    );
  });
});
