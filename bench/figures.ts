import {
  evaluateTargets,
  formatAbout,
  formatMarkdown,
  formatNumber,
  formatScenario,
  formatTargets,
  type Report,
} from "./report.js";

/** The text between markers, which is made from a results file of this folder's `results`. */
const BLOCK = /(<!-- figures (\S+) of (\S+) -->\n)([\s\S]*?)(<!-- end of figures -->)/g;

/** The columns of the short table: a measure of the page and how the table calls it. */
const SUMMARY: readonly (readonly [measure: string, title: string])[] = [
  ["of by hand", "requests a second, of by hand"],
  ["of by hand, source 20 ms", "the same with a slow source"],
  ["p99", "p99"],
  ["source calls a request", "calls of the source, a request"],
  ["stale values", "values older than a confirmed change"],
];

/** The block of each name. Any scenario's name stands for its table. */
const BLOCKS: Readonly<Record<string, (report: Report) => string>> = {
  about: formatAbout,
  targets: ({ scenarios }) => formatTargets(Object.values(scenarios).flatMap(evaluateTargets)),
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
    const text = BLOCKS[name]?.(report) ?? (scenario === undefined ? undefined : formatScenario(scenario, "medians"));
    if (text === undefined) throw new Error(`figures: expected a block or a scenario of ${from}, got ${name}`);
    return `<!-- figures ${name} of ${from} -->\n${text}\n${end}`;
  });
}

/** Returns the names of the blocks on a page, with their files. */
export const blocksOf = (page: string): { readonly name: string; readonly file: string }[] =>
  [...page.matchAll(BLOCK)].map(([, , name = "", file = ""]) => ({ name, file }));

function formatSummary({ scenarios }: Report): string {
  const { measures = [], rows = [] } = scenarios.page ?? {};
  const columns = SUMMARY.flatMap(([name, title]) => {
    const measure = measures.find((one) => one.name === name);
    return measure === undefined ? [] : [{ title, measure }];
  });
  const lines = rows.map(({ contender, values }) => [
    contender,
    ...columns.map(({ measure }) => {
      const spread = values[measure.name];
      return spread === undefined ? "-" : formatNumber(spread.median, measure);
    }),
  ]);
  return formatMarkdown([["", ...columns.map(({ title }) => title)], ...lines]);
}
