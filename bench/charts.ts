import {
  type Chart,
  formatNumber,
  type Kind,
  type Measure,
  type Report,
  type Row,
  type ScenarioReport,
} from "./report.js";

const WIDTH = 760;
const LABEL_WIDTH = 250;
const BAR_HEIGHT = 22;
const TOP = 64;
const COLORS: Readonly<Record<Kind, string>> = {
  ours: "#1f7a4d",
  floor: "#7a7f87",
  limit: "#b08a2e",
  none: "#7a7f87",
  recipe: "#5c7cab",
  peer: "#5c7cab",
};
/** Lines of the same kind differ by their dashes. */
const DASHES = ["", "6 4", "2 3", "10 3 2 3"];
const STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; font-size: 14px; } .about { fill: #6e7781; font-size: 11px; } .axis { stroke: #afb8c1; }
  @media (prefers-color-scheme: dark) { text { fill: #d8dee4; } .about { fill: #9aa4ae; } }`;

/** Returns the charts of a scenario as SVG texts, by file name. Charts without values are left out. */
export function drawCharts(name: string, scenario: ScenarioReport, report: Report): Map<string, string> {
  const charts = new Map<string, string>();
  for (const [nth, chart] of scenario.charts.entries()) {
    const svg = chart.kind === "bars" ? drawBars(scenario, chart, report) : drawLines(scenario, chart, report);
    if (svg !== undefined) charts.set(nth === 0 ? `${name}.svg` : `${name}-${nth + 1}.svg`, svg);
  }
  return charts;
}

/** One bar per contender, with a line from the lower to the upper quartile and the target as a dashed line. */
function drawBars(
  { title, measures, rows }: ScenarioReport,
  { measure: name }: Extract<Chart, { kind: "bars" }>,
  report: Report,
): string | undefined {
  const measure = measures.find((one) => one.name === name);
  const bars = rows.filter(({ values }) => (values[name]?.runs ?? 0) > 0);
  if (measure === undefined || bars.length === 0) return undefined;
  const bound = typeof measure.target?.bound === "number" ? measure.target.bound : undefined;
  const largest = Math.max(...bars.map(({ values }) => values[name]?.high ?? 0), bound ?? 0, Number.MIN_VALUE);
  const space = WIDTH - LABEL_WIDTH - 90;
  const x = (value: number): number => LABEL_WIDTH + (value / largest) * space;
  const height = TOP + bars.length * BAR_HEIGHT + 12;
  const parts = bars.map(({ contender, kind, values }, nth) => {
    const { median = 0, low = 0, high = 0 } = values[name] ?? {};
    const y = TOP + nth * BAR_HEIGHT;
    return [
      text(LABEL_WIDTH - 8, y + 14, contender, 'text-anchor="end"'),
      `<rect x="${LABEL_WIDTH}" y="${y + 3}" width="${round(x(median) - LABEL_WIDTH)}" height="${BAR_HEIGHT - 8}" fill="${COLORS[kind]}"/>`,
      `<line x1="${round(x(low))}" x2="${round(x(high))}" y1="${y + 10}" y2="${y + 10}" stroke="#d29922" stroke-width="2"/>`,
      text(x(high) + 6, y + 14, formatNumber(median, measure)),
    ].join("");
  });
  const target =
    bound === undefined
      ? ""
      : `<line x1="${round(x(bound))}" x2="${round(x(bound))}" y1="${TOP - 4}" y2="${height - 8}" stroke="#cf222e" stroke-dasharray="4 3"/>`;
  const better = `${measure.better} is better${bound === undefined ? "" : `; target ${formatNumber(bound, measure)}`}`;
  return svg(height, heading(title, `${name} (${better})`, report) + parts.join("\n") + target);
}

/** One line per contender over the points of an axis, both on logarithmic scales. */
function drawLines(
  { title, rows }: ScenarioReport,
  { axis, unit, measures: points }: Extract<Chart, { kind: "lines" }>,
  report: Report,
): string | undefined {
  const measured = points.filter((point) => rows.some(({ values }) => (values[point]?.runs ?? 0) > 0));
  const numbers = rows.flatMap(({ values }) => measured.flatMap((point) => values[point]?.median ?? []));
  if (numbers.length === 0) return undefined;
  const [smallest, largest] = [Math.min(...numbers), Math.max(...numbers)];
  const [left, right, bottom] = [70, WIDTH - 230, 330];
  const x = (nth: number): number =>
    measured.length === 1 ? left : left + (nth / (measured.length - 1)) * (right - left);
  const span = Math.log(largest / smallest) || 1;
  const y = (value: number): number => bottom - 10 - (Math.log(value / smallest) / span) * (bottom - TOP - 20);
  const lines = rows.map((row: Row, index) => {
    const used = rows.slice(0, index).filter(({ kind }) => kind === row.kind).length;
    const at = measured.flatMap((point, nth) => {
      const value = row.values[point]?.median;
      return value === undefined ? [] : [{ x: x(nth), y: y(value), value }];
    });
    const path = at.map((one, nth) => `${nth === 0 ? "M" : "L"}${round(one.x)} ${round(one.y)}`).join("");
    const legendY = TOP + 10 + index * 20;
    const stroke = `stroke="${COLORS[row.kind]}" stroke-width="2" stroke-dasharray="${DASHES[used % DASHES.length]}"`;
    return [
      `<path d="${path}" fill="none" ${stroke}/>`,
      ...at.map((one) => `<circle cx="${round(one.x)}" cy="${round(one.y)}" r="3" fill="${COLORS[row.kind]}"/>`),
      `<line x1="${right + 24}" x2="${right + 50}" y1="${legendY - 4}" y2="${legendY - 4}" ${stroke}/>`,
      text(right + 56, legendY, row.contender),
    ].join("");
  });
  const scale: Measure = { name: "", unit: "us", better: "less" };
  const axes = [
    `<line class="axis" x1="${left - 10}" x2="${right}" y1="${bottom}" y2="${bottom}"/>`,
    ...measured.map((point, nth) => text(x(nth), bottom + 16, point, 'text-anchor="middle"')),
    text((left + right) / 2, bottom + 34, axis, 'text-anchor="middle"'),
    ...[smallest, largest].map((value) =>
      text(left - 14, y(value) + 4, formatNumber(value, scale), 'text-anchor="end"'),
    ),
  ];
  return svg(bottom + 46, heading(title, `${unit} (less is better)`, report) + [...lines, ...axes].join("\n"));
}

const heading = (title: string, measure: string, { date, machine, command }: Report): string =>
  [
    text(12, 20, title, 'class="title"'),
    text(12, 37, measure),
    text(12, 53, `${command}, ${date.slice(0, 10)}, ${machine}`, 'class="about"'),
    "\n",
  ].join("");

const svg = (height: number, content: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img">\n<style>${STYLE}\n</style>\n${content}\n</svg>\n`;

const text = (x: number, y: number, content: string, attributes = ""): string =>
  `<text x="${round(x)}" y="${round(y)}" ${attributes}>${escapeXml(content)}</text>`;

const round = (number: number): number => Math.round(number * 10) / 10;

const escapeXml = (content: string): string =>
  content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
