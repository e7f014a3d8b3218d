import type { Spread } from "./statistics.js";

/**
 * What a contender stands for. `floor` is the least that batching on Redis costs, without protection; `limit` is a bare
 * implementation of one scenario, which shows what is possible; `none` works without a cache. `ours` is compared with
 * `recipe` and `peer`.
 */
export type Kind = "ours" | "floor" | "limit" | "none" | "recipe" | "peer";

/** A bound for graphql-cached, as the table of targets prints it. */
export interface Target {
  /** The bound, or the best peer of the same run. */
  readonly bound: number | "best peer";
  /** What is added to the best peer. Default: 0. */
  readonly plus?: number;
  /** What the number refers to, such as "the floor". Default: what the name of the measure says. */
  readonly of?: string;
}

/** One column of a scenario's table. */
export interface Measure {
  readonly name: string;
  readonly unit: "x" | "ms" | "us" | "MB" | "B" | "%" | "";
  readonly better: "more" | "less";
  readonly target?: Target;
}

/** The results of one contender, by measure. */
export interface Row {
  readonly contender: string;
  readonly kind: Kind;
  readonly values: Readonly<Record<string, Spread>>;
}

/** A picture of a scenario: bars of one measure, or one line per contender over measures that are points of an axis. */
export type Chart =
  | { readonly kind: "bars"; readonly measure: string }
  | { readonly kind: "lines"; readonly axis: string; readonly unit: string; readonly measures: readonly string[] };

/** The saved results of a scenario. */
export interface ScenarioReport {
  readonly title: string;
  readonly measures: readonly Measure[];
  readonly charts: readonly Chart[];
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

/** The result of a measure that has a target. `bestPeer` and `limit` are "-" if none was measured. */
export interface TargetResult {
  readonly scenario: string;
  readonly measure: string;
  readonly target: string;
  readonly ours: string;
  readonly bestPeer: string;
  readonly limit: string;
  readonly result: "met" | "missed" | "limit" | "not measured";
}

/** What differs by less than this factor is the same: results of one machine differ by as much from run to run. */
export const TIE = 1.2;

/**
 * Compares the medians of graphql-cached with the targets. A target that is missed has the result "limit" if the bare
 * implementation of the same run misses it as well, and is not faster by more than `TIE`.
 */
export function evaluateTargets({ title, measures, rows }: ScenarioReport): TargetResult[] {
  return measures.flatMap((measure): TargetResult[] => {
    const { name, target } = measure;
    if (target === undefined) return [];
    const ours = rows.find(({ kind, values }) => kind === "ours" && values[name] !== undefined)?.values[name];
    const peer = bestOf(measure, rows, ["peer", "recipe"]);
    const limit = bestOf(measure, rows, ["limit"]);
    const bound = target.bound === "best peer" ? medianOf(peer, name) : target.bound;
    const isMetBy = (median: number): boolean => {
      const distance = (median - (bound ?? Number.NaN) - (target.plus ?? 0)) * (measure.better === "more" ? 1 : -1);
      return distance >= 0;
    };
    const limitMedian = medianOf(limit, name);
    const isAtLimit =
      limitMedian !== undefined &&
      !isMetBy(limitMedian) &&
      (measure.better === "more" ? limitMedian / (ours?.median ?? 0) : (ours?.median ?? 0) / limitMedian) <= TIE;
    const describe = (row: Row | undefined): string =>
      row === undefined ? "-" : `${formatNumber(medianOf(row, name) ?? 0, measure)} ${row.contender}`;
    return [
      {
        scenario: title,
        measure: name,
        target: formatTarget(target, measure),
        ours: ours === undefined ? "-" : formatSpread(ours, measure),
        bestPeer: describe(peer),
        limit: describe(limit),
        result:
          ours === undefined || bound === undefined
            ? "not measured"
            : isMetBy(ours.median)
              ? "met"
              : isAtLimit
                ? "limit"
                : "missed",
      },
    ];
  });
}

const medianOf = (row: Row | undefined, measure: string): number | undefined => row?.values[measure]?.median;

/** Returns the row of these kinds with the best median, or undefined if none was measured. */
export function bestOf({ name, better }: Measure, rows: readonly Row[], kinds: readonly Kind[]): Row | undefined {
  const sign = better === "more" ? -1 : 1;
  const score = (row: Row): number => sign * (medianOf(row, name) ?? 0);
  const [best] = rows
    .filter(({ kind, values }) => kinds.includes(kind) && values[name] !== undefined)
    .sort((a, b) => score(a) - score(b));
  return best;
}

function formatTarget({ bound, plus = 0, of }: Target, measure: Measure): string {
  const sign = measure.better === "more" ? ">=" : "<=";
  const number = bound === "best peer" ? bound : formatNumber(bound, measure);
  return [sign, number, ...(plus > 0 ? [`+ ${formatNumber(plus, measure)}`] : []), ...(of ? [`of ${of}`] : [])].join(
    " ",
  );
}

/** Formats the table of a scenario: one line per contender, medians with their quartiles. */
export function formatScenario({ measures, rows }: ScenarioReport): string {
  const head = ["", ...measures.map(({ name }) => name)];
  const lines = rows.map(({ contender, values }) => [
    contender,
    ...measures.map((measure) => {
      const spread = values[measure.name];
      return spread === undefined ? "-" : formatSpread(spread, measure);
    }),
  ]);
  return formatMarkdown([head, ...lines]);
}

/** Formats the table of all targets. */
export function formatTargets(targetResults: readonly TargetResult[]): string {
  const head = ["scenario", "measure", "target", "graphql-cached", "best peer", "limit", "result"];
  const lines = targetResults.map((result) => [
    result.scenario,
    result.measure,
    result.target,
    result.ours,
    result.bestPeer,
    result.limit,
    result.result,
  ]);
  return formatMarkdown([head, ...lines]);
}

/** Formats date, machine, command and versions as two lines. */
export const formatAbout = ({ date, machine, command, seed, versions }: Report): string =>
  [
    `\`${command}\`, seed ${seed}, on ${date.slice(0, 10)}; ${machine}.`,
    `${Object.entries(versions)
      .map((entry) => entry.join(" "))
      .join(", ")}.`,
  ].join("\n");

export function formatSpread(spread: Spread, measure: Measure): string {
  const { median, low, high } = spread;
  const [text, from, to] = [median, low, high].map((number) => formatNumber(number, measure));
  return from === text && to === text ? (text as string) : `${text} (${from} - ${to})`;
}

export function formatNumber(number: number, { unit }: Measure): string {
  const isWhole = unit === "" || unit === "B";
  const digits =
    Number.isInteger(number) && isWhole ? 0 : unit === "x" || (unit !== "%" && Math.abs(number) < 10) ? 2 : 0;
  return `${number.toFixed(digits)}${unit === "x" || unit === "%" ? unit : unit === "" ? "" : ` ${unit}`}`;
}

/** Formats rows as a Markdown table with padded columns. */
export function formatMarkdown(table: readonly (readonly string[])[]): string {
  const widths = table[0]?.map((_, column) => Math.max(3, ...table.map((row) => row[column]?.length ?? 0))) ?? [];
  const line = (row: readonly string[]): string =>
    `| ${row.map((text, column) => text.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [head = [], ...rest] = table;
  return [line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rest.map(line)].join("\n");
}
