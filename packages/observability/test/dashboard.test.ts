import { collectMetrics } from "@graphql-cached/observability/prometheus";
import { createCache } from "graphql-cached";
import { Registry } from "prom-client";
import { describe, expect, it, onTestFinished } from "vitest";
import { read, tableUnder } from "../../../test/project/source.js";
import { METRICS } from "../src/metrics.js";

/** The metrics that are registered in Prometheus, with their labels. */
async function registeredMetrics() {
  const register = new Registry();
  const cache = createCache({ defaultScope: "PUBLIC" });
  onTestFinished(() => cache.close());
  collectMetrics(cache, { register });
  const metrics = await register.getMetricsAsJSON();
  return new Map(
    metrics.map(({ name }) => {
      const { labelNames } = register.getSingleMetric(name) as unknown as { readonly labelNames: readonly string[] };
      return [name, labelNames];
    }),
  );
}

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
  readonly templating: { readonly list: readonly { readonly definition?: string }[] };
}

const dashboard = JSON.parse(read("packages/observability/grafana-dashboard.json")) as Dashboard;
const expressions = [
  ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...dashboard.templating.list.flatMap(({ definition }) => definition ?? []),
];
const metricOf = (series: string): string => series.replace(/_(bucket|sum|count)$/, "");

/** Returns the metrics of an expression that are not registered, and the labels that its metrics do not have. */
function unknownNames(expression: string, labelsOf: ReadonlyMap<string, readonly string[]>): string[] {
  const metrics = (expression.match(/graphql_cached_\w+/g) ?? []).map(metricOf);
  const known = ["le", ...metrics.flatMap((metric) => labelsOf.get(metric) ?? [])];
  const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = ""]) => names.split(", "));
  const selected = [...expression.matchAll(/(\w+)=~?"/g)].map(([, name = ""]) => name);
  const asked = [...expression.matchAll(/, (\w+)\)$/g)].map(([, name = ""]) => name);
  return [
    ...metrics.filter((metric) => !labelsOf.has(metric)),
    ...[...grouped, ...selected, ...asked].filter((label) => !known.includes(label)),
  ];
}

describe("the Grafana dashboard", () => {
  it("uses the metrics that are registered, all of them and no others", async () => {
    const used = expressions.flatMap((text) => text.match(/graphql_cached_\w+/g) ?? []).map(metricOf);
    expect([...new Set(used)].sort()).toEqual([...(await registeredMetrics()).keys()].sort());
  });

  it("uses only labels that its metrics have", async () => {
    const labelsOf = await registeredMetrics();
    for (const expression of expressions) expect(unknownNames(expression, labelsOf), expression).toEqual([]);
    expect(unknownNames('sum by (color) (rate(graphql_cached_load_total{size="1"}[5m]))', labelsOf)).toEqual([
      "graphql_cached_load_total",
      "color",
      "size",
    ]);
  });

  it("gives every panel a place and an id of its own", () => {
    const panels = dashboard.panels as readonly { readonly id?: number; readonly gridPos?: object }[];
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    expect(new Set(panels.map(({ gridPos }) => JSON.stringify(gridPos))).size).toBe(panels.length);
  });
});

describe("the README", () => {
  const page = read("packages/observability/README.md");

  it("lists every metric, with its name in Prometheus, unit, attributes and meaning", async () => {
    const names = [...(await registeredMetrics()).keys()];
    const rows = tableUnder("Metrics", page);
    expect(rows).toEqual(
      Object.entries(METRICS).map(([name, { unit, attributes, description }], index) => [
        `\`${name}\``,
        `\`${names[index]}\``,
        unit.replace(/[{}]/g, ""),
        attributes.map((attribute) => `\`${attribute}\``).join(", "),
        description,
      ]),
    );
  });

  it("uses only metrics and labels that are registered in its alerts", async () => {
    const labelsOf = await registeredMetrics();
    const alerts = tableUnder("Alerts", page).map(([expression = ""]) => expression);
    expect(alerts.length).toBeGreaterThan(0);
    for (const alert of alerts) expect(unknownNames(alert, labelsOf), alert).toEqual([]);
  });
});
