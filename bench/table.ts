import { ALL_CONTENDERS } from "./contenders/all.js";
import type { Measure, Row, Scenario } from "./scenario.js";
import type { Spread } from "./statistics.js";

/** The result of a measure that has a target. `bestPeer` is "-" if no peer was measured. */
export interface TargetResult {
  readonly scenario: string;
  readonly measure: string;
  readonly target: string;
  readonly ours: string;
  readonly bestPeer: string;
  readonly isMet: boolean;
}

const OURS = ALL_CONTENDERS.filter(({ kind }) => kind === "ours").map(({ name }) => name);
const PEERS = ALL_CONTENDERS.filter(({ kind }) => kind === "peer" || kind === "recipe").map(({ name }) => name);

/** Compares the medians of graphql-cached with the targets. */
export function evaluateTargets(scenario: Scenario, rows: readonly Row[]): TargetResult[] {
  return scenario.measures.flatMap((measure) => {
    const { name, target, better } = measure;
    const ours = rows.find(({ contender }) => OURS.includes(contender))?.values[name];
    if (target === undefined || ours === undefined) return [];
    const peers = rows.filter(({ contender, values }) => PEERS.includes(contender) && values[name] !== undefined);
    const medianOf = (row: Row): number => row.values[name]?.median ?? 0;
    const [best] = peers.sort((a, b) => (better === "more" ? medianOf(b) - medianOf(a) : medianOf(a) - medianOf(b)));
    return {
      scenario: scenario.title,
      measure: name,
      target: `${better === "more" ? ">=" : "<="} ${formatNumber(target, measure)}`,
      ours: formatSpread(ours, measure),
      bestPeer: best === undefined ? "-" : `${formatNumber(medianOf(best), measure)} ${best.contender}`,
      isMet: better === "more" ? ours.median >= target : ours.median <= target,
    };
  });
}

/** Formats the table of a scenario: one line per contender, medians with their quartiles. */
export function formatScenario(scenario: Scenario, rows: readonly Row[]): string {
  const head = ["", ...scenario.measures.map(({ name }) => name)];
  const lines = rows.map(({ contender, values }) => [
    contender,
    ...scenario.measures.map((measure) => {
      const spread = values[measure.name];
      return spread === undefined ? "-" : formatSpread(spread, measure);
    }),
  ]);
  return formatMarkdown([head, ...lines]);
}

/** Formats the table of all targets. */
export function formatTargets(targetResults: readonly TargetResult[]): string {
  const head = ["scenario", "measure", "target", "graphql-cached", "best peer", "met"];
  const lines = targetResults.map((result) => [
    result.scenario,
    result.measure,
    result.target,
    result.ours,
    result.bestPeer,
    result.isMet ? "yes" : "NO",
  ]);
  return formatMarkdown([head, ...lines]);
}

function formatSpread(spread: Spread, measure: Measure): string {
  const { median, low, high } = spread;
  const [text, from, to] = [median, low, high].map((number) => formatNumber(number, measure));
  return from === text && to === text ? (text as string) : `${text} (${from} - ${to})`;
}

function formatNumber(number: number, { unit }: Measure): string {
  const isWhole = unit === "" || unit === "B";
  const digits =
    Number.isInteger(number) && isWhole ? 0 : unit === "x" || (unit !== "%" && Math.abs(number) < 10) ? 2 : 0;
  return `${number.toFixed(digits)}${unit === "x" || unit === "%" ? unit : unit === "" ? "" : ` ${unit}`}`;
}

/** Formats rows as a Markdown table with padded columns. */
function formatMarkdown(table: readonly (readonly string[])[]): string {
  const widths = table[0]?.map((_, column) => Math.max(3, ...table.map((row) => row[column]?.length ?? 0))) ?? [];
  const line = (row: readonly string[]): string =>
    `| ${row.map((text, column) => text.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [head = [], ...rest] = table;
  return [line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rest.map(line)].join("\n");
}
