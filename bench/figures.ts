import {
  bestOf,
  evaluateTargets,
  formatAbout,
  formatMarkdown,
  formatNumber,
  formatScenario,
  formatTargets,
  type Report,
  type Row,
} from "./report.js";

/** The text between markers, which is made from a results file of this folder's `results`. */
const BLOCK = /(<!-- figures (\S+) of (\S+) -->\n)([\s\S]*?)(<!-- end of figures -->)/g;

/** A row of the short table: what is compared, in which scenario, and by which measure. */
const SUMMARY: readonly (readonly [what: string, scenario: string, measure: string])[] = [
  ["100 cached keys from Redis, speed vs DataLoader + MGET by hand", "warm-keys", "speed vs floor"],
  ["100 cached fields on Apollo Server, near cache, speed vs no cache", "server-near", "Apollo, 8 callers"],
  ["one missing key, 4 processes x 250 callers: loads", "cold-key", "loads"],
  ["old values read after a confirmed invalidation", "stale-reads", "stale reads"],
];

/** The block of each name; any scenario's name stands for its table. */
const BLOCKS: Readonly<Record<string, (report: Report) => string>> = {
  about: formatAbout,
  targets: ({ scenarios }) => formatTargets(Object.values(scenarios).flatMap(evaluateTargets)),
  missed: formatMissed,
  summary: formatSummary,
};

/**
 * Returns the page with the text of all its blocks made from their results files. `source` replaces the file that the blocks
 * name. Throws if a block names nothing that the file has.
 */
export function writeFigures(page: string, readReport: (file: string) => Report, source?: string): string {
  return page.replaceAll(BLOCK, (_, _head: string, name: string, file: string, _old: string, end: string) => {
    const from = source ?? file;
    const report = readReport(from);
    const scenario = report.scenarios[name];
    const text = BLOCKS[name]?.(report) ?? (scenario === undefined ? undefined : formatScenario(scenario));
    if (text === undefined) throw new Error(`figures: expected a block or a scenario of ${from}, got ${name}`);
    return `<!-- figures ${name} of ${from} -->\n${text}\n${end}`;
  });
}

/** Returns the names of the blocks on a page, with their files. */
export const blocksOf = (page: string): { readonly name: string; readonly file: string }[] =>
  [...page.matchAll(BLOCK)].map(([, , name = "", file = ""]) => ({ name, file }));

function formatMissed({ scenarios }: Report): string {
  const missed = Object.values(scenarios)
    .flatMap(evaluateTargets)
    .filter(({ result }) => result !== "met");
  return missed.length === 0 ? "None." : formatTargets(missed);
}

function formatSummary({ scenarios }: Report): string {
  const lines = SUMMARY.flatMap(([what, name, measureName]): string[][] => {
    const { measures = [], rows = [] } = scenarios[name] ?? {};
    const measure = measures.find((one) => one.name === measureName);
    if (measure === undefined) return [];
    const cell = (row: Row | undefined): string =>
      row === undefined ? "-" : formatNumber(row.values[measureName]?.median ?? 0, measure);
    const peer = bestOf(measure, rows, ["peer"]);
    return [
      [what, cell(bestOf(measure, rows, ["ours"])), peer === undefined ? "-" : `${cell(peer)} ${peer.contender}`],
    ];
  });
  return formatMarkdown([["", "graphql-cached", "best other cache"], ...lines]);
}
