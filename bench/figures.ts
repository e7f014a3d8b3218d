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
  ["of by hand", "speed"],
  ["of by hand, source 20 ms", "slow source"],
  ["p99", "p99"],
  ["source calls a request", "source calls per request"],
  ["stale values", "stale values"],
];

/** The columns of the table of caches: a measure of a scenario and how the table calls it. */
const CACHES: readonly (readonly [scenario: string, measure: string, title: string])[] = [
  ["cold-key", "loads", "loads of one missing key"],
  ["stale-reads", "stale reads", "stale reads"],
  ["frozen-redis", "errors", "errors"],
  ["warm-key", "of by hand", "one stored key"],
  ["warm-keys", "of by hand", "100 stored keys"],
  ["new-keys", "of by hand", "100 new keys"],
];

/** The rows of the table of caches, each with the contenders that it stands for: a scenario has one of them. */
const CACHE_ROWS: readonly (readonly [title: string, ...others: readonly string[]])[] = [
  ["by hand"],
  ["graphql-cached", "graphql-cached, a tag each"],
  ["lock recipe"],
  ["bentocache"],
  ["async-cache-dedupe"],
  ["layered-loader", "layered-loader getMany"],
];

/** The block of each name. Any scenario's name stands for its table. */
const BLOCKS: Readonly<Record<string, (report: Report) => string>> = {
  about: formatAbout,
  targets: ({ scenarios }) => formatTargets(Object.values(scenarios).flatMap(evaluateTargets)),
  summary: formatSummary,
  caches: formatCaches,
  missed: formatMissed,
  chart: formatChart,
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

/** Formats one line per cache, with what it is good for and what it costs. */
function formatCaches({ scenarios }: Report): string {
  const lines = CACHE_ROWS.map((contenders) => [
    contenders[0],
    ...CACHES.map(([name, measureName]) => {
      const { measures = [], rows = [] } = scenarios[name] ?? {};
      const measure = measures.find((one) => one.name === measureName);
      const values = contenders.map((one) => rows.find(({ contender }) => contender === one)?.values);
      const spread = values.find((one) => one !== undefined)?.[measureName];
      return measure === undefined || spread === undefined ? "-" : formatNumber(spread.median, measure);
    }),
  ]);
  return formatMarkdown([["", ...CACHES.map(([, , title]) => title)], ...lines]);
}

/** Formats a list of the missed targets that the tables `summary` and `caches` do not show. */
function formatMissed({ scenarios }: Report): string {
  const inSummary = (scenario: string, measure: string): boolean =>
    scenario === "page" && SUMMARY.some(([name]) => name === measure);
  const inCaches = (scenario: string, measure: string, contender: string): boolean =>
    CACHES.some(([from, name]) => from === scenario && name === measure) &&
    CACHE_ROWS.some(([first]) => first === contender);
  return Object.entries(scenarios)
    .flatMap(([name, scenario]) =>
      evaluateTargets(scenario)
        .filter(({ result }) => result === "missed")
        .filter(({ measure, contender }) => !inSummary(name, measure) && !inCaches(name, measure, contender))
        .map(({ contender, measure, target, measured }) => {
          const variant = contender.replace(/^graphql-cached(, |$)/, "");
          const what = variant === "" ? measure : `${variant}, ${measure}`;
          return `- \`${name}\`, ${what}: ${measured.replace(/ \(.*/, "")} (${target})`;
        }),
    )
    .join("\n");
}

const CHART = { left: 264, unit: 88, top: 84, row: 48, bar: 15 };

/** Draws requests a second, of by hand, as two bars per contender of the page. The styles are in the file around it. */
function formatChart({ scenarios }: Report): string {
  const { measures = [], rows = [] } = scenarios.page ?? {};
  const series = ["of by hand", "of by hand, source 20 ms"].flatMap((name) =>
    measures.filter((one) => one.name === name),
  );
  return rows
    .flatMap(({ contender, values }, nth) => {
      const y = CHART.top + nth * CHART.row;
      const stale = values["stale values"]?.median ?? 0;
      const bars = series.flatMap((measure, bar) => {
        const spread = values[measure.name];
        if (spread === undefined) return [];
        const top = y + bar * (CHART.bar + 3);
        const width = Math.round(spread.median * CHART.unit);
        const note = bar === 0 && stale > 0 ? `, ${Math.round(stale)}% of the values stale` : "";
        return [
          `  <rect class="bar${bar + 1}" x="${CHART.left}" y="${top}" width="${width}" height="${CHART.bar}" rx="2"/>`,
          `  <text class="value" x="${CHART.left + width + 6}" y="${top + 12}">${formatNumber(spread.median, measure)}${note}</text>`,
        ];
      });
      const name = contender.startsWith("graphql-cached") ? "own" : "name";
      return [`  <text class="${name}" x="20" y="${y + 21}">${contender}</text>`, ...bars];
    })
    .join("\n");
}
