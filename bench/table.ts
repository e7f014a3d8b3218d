import { ALL_CONTENDERS } from "./contenders/all.js";
import type { Measure, Row, Scenario } from "./scenario.js";
import type { Spread } from "./statistics.js";

/** Which of a scenario's targets was met, and by how much; `bestPeer` is undefined where no peer was measured. */
export interface Freshness {
  readonly scenario: string;
  readonly measure: string;
  readonly target: string;
  readonly ours: string;
  readonly bestPeer: string;
  readonly isMet: boolean;
}

const OURS = ALL_CONTENDERS.filter(({ kind }) => kind === "ours").map(({ name }) => name);
const PEERS = ALL_CONTENDERS.filter(({ kind }) => kind === "peer" || kind === "recipe").map(({ name }) => name);

/** Compares the medians with the targets. */
export function evaluateFreshness(scenario: Scenario, rows: readonly Row[]): Freshness[] {
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
      target: `${better === "more" ? ">=" : "<="} ${write(target, measure)}`,
      ours: writeSpread(ours, measure),
      bestPeer: best === undefined ? "-" : `${write(medianOf(best), measure)} ${best.contender}`,
      isMet: better === "more" ? ours.median >= target : ours.median <= target,
    };
  });
}

/** The table of one scenario: a line a contender, medians with their quartiles. */
export function scenarioTable(scenario: Scenario, rows: readonly Row[]): string {
  const head = ["", ...scenario.measures.map(({ name }) => name)];
  const lines = rows.map(({ contender, values }) => [
    contender,
    ...scenario.measures.map((measure) => {
      const spread = values[measure.name];
      return spread === undefined ? "-" : writeSpread(spread, measure);
    }),
  ]);
  return markdown([head, ...lines]);
}

export function freshnessTable(freshnesses: readonly Freshness[]): string {
  const head = ["scenario", "measure", "target", "graphql-cached", "best peer", "met"];
  const lines = freshnesses.map((freshness) => [
    freshness.scenario,
    freshness.measure,
    freshness.target,
    freshness.ours,
    freshness.bestPeer,
    freshness.isMet ? "yes" : "NO",
  ]);
  return markdown([head, ...lines]);
}

function writeSpread(spread: Spread, measure: Measure): string {
  const { median, low, high } = spread;
  const [text, from, to] = [median, low, high].map((number) => write(number, measure));
  return from === text && to === text ? (text as string) : `${text} (${from} - ${to})`;
}

function write(number: number, { unit }: Measure): string {
  const isWhole = unit === "" || unit === "B";
  const digits =
    Number.isInteger(number) && isWhole ? 0 : unit === "x" || (unit !== "%" && Math.abs(number) < 10) ? 2 : 0;
  return `${number.toFixed(digits)}${unit === "x" || unit === "%" ? unit : unit === "" ? "" : ` ${unit}`}`;
}

function markdown(table: readonly (readonly string[])[]): string {
  const widths = table[0]?.map((_, column) => Math.max(3, ...table.map((row) => row[column]?.length ?? 0))) ?? [];
  const line = (storedEntries: readonly string[]): string =>
    `| ${storedEntries.map((stored, column) => stored.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [head = [], ...rest] = table;
  return [line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rest.map(line)].join("\n");
}
