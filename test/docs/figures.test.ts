import { describe, expect, it } from "vitest";
import { drawCharts } from "../../bench/charts.js";
import { blocksOf, writeFigures } from "../../bench/figures.js";
import { evaluateTargets, type Kind, type Report, type Row, type ScenarioReport } from "../../bench/report.js";
import { filesIn, read } from "../project/source.js";

const readReport = (file: string): Report => JSON.parse(read(file)) as Report;
const pages = ["README.md", "bench/README.md", ...filesIn("docs", ".md")].filter(
  (page) => blocksOf(read(page)).length > 0,
);

describe("figures of the benchmarks", () => {
  it("are on the README, the page about performance and the page of the benchmarks", () => {
    expect(pages).toEqual(expect.arrayContaining(["README.md", "docs/performance.md", "bench/README.md"]));
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

const row = (contender: string, kind: Kind, median: number): Row => ({
  contender,
  kind,
  values: { speed: { median, low: median, high: median, runs: 1 } },
});
const scenario = (rows: readonly Row[], bound: number | "best peer", plus = 0): ScenarioReport => ({
  title: "<one> & two",
  measures: [{ name: "speed", unit: "x", better: "more", target: { bound, plus } }],
  charts: [{ kind: "bars", measure: "speed" }],
  rows,
});
const resultsOf = (rows: readonly Row[], bound: number | "best peer" = 0.9): string[] =>
  evaluateTargets(scenario(rows, bound)).map(({ result }) => result);

describe("targets of the benchmarks", () => {
  it("are met from the bound on", () => {
    expect(resultsOf([row("ours", "ours", 0.9)])).toEqual(["met"]);
    expect(resultsOf([row("ours", "ours", 0.89)])).toEqual(["missed"]);
  });

  it("are out of reach only if the bare implementation of the same run misses them as well", () => {
    expect(resultsOf([row("ours", "ours", 0.8), row("bare", "limit", 0.85)])).toEqual(["limit"]);
    expect(resultsOf([row("ours", "ours", 0.8), row("bare", "limit", 0.95)])).toEqual(["missed"]);
    // Far behind a limit that misses the target as well.
    expect(resultsOf([row("ours", "ours", 0.5), row("bare", "limit", 0.85)])).toEqual(["missed"]);
    expect(resultsOf([row("ours", "ours", 0.95), row("bare", "limit", 0.85)])).toEqual(["met"]);
  });

  it("can be the best peer of the same run, whatever the floor and the limit reach", () => {
    const others = [
      row("slow", "peer", 0.5),
      row("fast", "peer", 0.7),
      row("floor", "floor", 1),
      row("bare", "limit", 2),
    ];
    expect(resultsOf([row("ours", "ours", 0.7), ...others], "best peer")).toEqual(["met"]);
    expect(resultsOf([row("ours", "ours", 0.69), ...others], "best peer")).toEqual(["missed"]);
  });

  it("stay in the table if graphql-cached or the peer was not measured", () => {
    expect(resultsOf([])).toEqual(["not measured"]);
    expect(resultsOf([row("peer", "peer", 1)])).toEqual(["not measured"]);
    expect(resultsOf([row("ours", "ours", 1)], "best peer")).toEqual(["not measured"]);
  });
});

describe("charts of the benchmarks", () => {
  const report = { date: "2026-11-22T00:00:00Z", command: "npm run bench", machine: "2 x CPU" } as Report;

  it("show every contender of a measure, the date, the machine and the command", () => {
    const one = scenario([row("ours", "ours", 0.9), row("peer", "peer", 1.5)], 0.95);
    const svg = drawCharts("speed", one, report).get("speed.svg") ?? "";
    for (const text of ["ours", "0.90x", "peer", "1.50x", "2026-11-22", "2 x CPU", "npm run bench", "target 0.95x"])
      expect(svg).toContain(text);
    expect(svg).toContain("&lt;one&gt; &amp; two");
  });

  it("are left out if nothing was measured", () => {
    expect(drawCharts("speed", scenario([], 0.95), report).size).toBe(0);
  });
});
