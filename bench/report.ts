import type { Spread } from "./statistics.js";

/** A bound for a contender, which is graphql-cached in one of its variants. */
export interface Target {
  readonly contender: string;
  readonly bound: number;
}

/** One column of a scenario's table. */
export interface Measure {
  readonly name: string;
  readonly unit: "x" | "ms" | "us" | "MB" | "%" | "";
  readonly better: "more" | "less";
  /** Default: none. */
  readonly targets?: readonly Target[];
}

/** The results of one contender, by measure. */
export interface Row {
  readonly contender: string;
  readonly values: Readonly<Record<string, Spread>>;
}

/** The saved results of a scenario. */
export interface ScenarioReport {
  readonly title: string;
  readonly measures: readonly Measure[];
  readonly rows: readonly Row[];
}

/** The saved results of a run. This module and those it imports need none of the installed peers. */
export interface Report {
  readonly date: string;
  readonly command: string;
  readonly seed: number;
  readonly machine: string;
  readonly versions: Readonly<Record<string, string>>;
  /** By the scenario's name on the command line. */
  readonly scenarios: Readonly<Record<string, ScenarioReport>>;
}

/** The result of a target. */
export interface TargetResult {
  readonly scenario: string;
  readonly contender: string;
  readonly measure: string;
  readonly target: string;
  readonly measured: string;
  readonly result: "met" | "missed" | "not measured";
}

/** Compares medians with their targets. */
export function evaluateTargets({ title, measures, rows }: ScenarioReport): TargetResult[] {
  return measures.flatMap((measure) =>
    (measure.targets ?? []).map(({ contender, bound }): TargetResult => {
      const spread = rows.find((row) => row.contender === contender)?.values[measure.name];
      const isMet =
        measure.better === "more" ? (median: number) => median >= bound : (median: number) => median <= bound;
      return {
        scenario: title,
        contender,
        measure: measure.name,
        target: `${measure.better === "more" ? ">=" : "<="} ${formatNumber(bound, measure)}`,
        measured: spread === undefined ? "-" : formatSpread(spread, measure),
        result: spread === undefined ? "not measured" : isMet(spread.median) ? "met" : "missed",
      };
    }),
  );
}

/** Formats the table of a scenario: one line per contender, medians, with their quartiles unless `only` says otherwise. */
export function formatScenario({ measures, rows }: ScenarioReport, only?: "medians"): string {
  const measured = measures.filter(({ name }) => rows.some(({ values }) => values[name] !== undefined));
  const lines = rows.map(({ contender, values }) => [
    contender,
    ...measured.map((measure) => {
      const spread = values[measure.name];
      if (spread === undefined) return "-";
      return only === "medians" ? formatNumber(spread.median, measure) : formatSpread(spread, measure);
    }),
  ]);
  return formatMarkdown([["", ...measured.map(({ name }) => name)], ...lines]);
}

/** Formats a table of targets. */
export const formatTargets = (results: readonly TargetResult[]): string =>
  formatMarkdown([
    ["scenario", "contender", "measure", "target", "measured", "result"],
    ...results.map((one) => [one.scenario, one.contender, one.measure, one.target, one.measured, one.result]),
  ]);

/** Formats date, machine, command and versions as two lines. */
export const formatAbout = ({ date, machine, command, seed, versions }: Report): string =>
  [
    `\`${command}\`, seed ${seed}, on ${date.slice(0, 10)}; ${machine}.`,
    `${Object.entries(versions)
      .map((entry) => entry.join(" "))
      .join(", ")}.`,
  ].join("\n");

export function formatSpread({ median, low, high }: Spread, measure: Measure): string {
  const [text, from, to] = [median, low, high].map((number) => formatNumber(number, measure));
  return from === text && to === text ? (text as string) : `${text} (${from} - ${to})`;
}

export function formatNumber(number: number, { unit }: Measure): string {
  // A share of a thousandth is not none.
  if (unit === "%" && number > 0 && number < 0.5) return `${number.toPrecision(1)}%`;
  const digits = unit === "x" ? 2 : unit === "%" || Math.abs(number) >= 99.95 ? 0 : 1;
  const text = unit === "" && Number.isInteger(number) ? String(number) : number.toFixed(digits);
  return `${text}${unit === "x" || unit === "%" ? unit : unit === "" ? "" : ` ${unit}`}`;
}

/** Formats rows as a Markdown table with padded columns. */
export function formatMarkdown(table: readonly (readonly string[])[]): string {
  const widths = table[0]?.map((_, column) => Math.max(3, ...table.map((row) => row[column]?.length ?? 0))) ?? [];
  const line = (row: readonly string[]): string =>
    `| ${row.map((text, column) => text.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [head = [], ...rest] = table;
  return [line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rest.map(line)].join("\n");
}
