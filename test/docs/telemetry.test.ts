import { createCache } from "graphql-cached";
import { collectMetrics } from "graphql-cached/prometheus";
import { Registry } from "prom-client";
import { describe, expect, it, onTestFinished } from "vitest";
import { METRICS } from "../../src/telemetry/metrics.js";
import { read, tableUnder } from "../project/source.js";

/** The metrics that are registered in Prometheus, with their labels. */
async function registeredMetrics() {
  const register = new Registry();
  const cache = createCache();
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

const dashboard = JSON.parse(read("docs/grafana-dashboard.json")) as Dashboard;
const expressions = [
  ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...dashboard.templating.list.flatMap(({ definition }) => definition ?? []),
];
const metricOf = (series: string): string => series.replace(/_(bucket|sum|count)$/, "");

describe("the Grafana dashboard", () => {
  it("uses the metrics that are registered, all of them and no others", async () => {
    const used = expressions.flatMap((text) => text.match(/graphql_cached_\w+/g) ?? []).map(metricOf);
    expect([...new Set(used)].sort()).toEqual([...(await registeredMetrics()).keys()].sort());
  });

  it("uses only labels that its metrics have", async () => {
    const labelsOf = await registeredMetrics();
    let checked = 0;
    for (const text of expressions) {
      const grouped = [...text.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = ""]) => names.split(", "));
      for (const [, series = "", selector = ""] of text.matchAll(/(graphql_cached_\w+)\{([^}]*)\}/g)) {
        const known = ["le", ...(labelsOf.get(metricOf(series)) ?? [])];
        for (const label of [...grouped, ...[...selector.matchAll(/(\w+)=/g)].map(([, name = ""]) => name)]) {
          expect(known, `${series} in ${text}`).toContain(label);
          checked++;
        }
      }
    }
    expect(checked).toBeGreaterThan(50);
  });

  it("gives every panel a place and an id of its own", () => {
    const panels = dashboard.panels as readonly { readonly id?: number; readonly gridPos?: object }[];
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    expect(new Set(panels.map(({ gridPos }) => JSON.stringify(gridPos))).size).toBe(panels.length);
  });
});

describe("the page about telemetry", () => {
  const page = read("docs/telemetry.md");

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

  it("names only metrics that are registered in its alerts", async () => {
    const names = [...(await registeredMetrics()).keys()];
    const used = [...page.matchAll(/```yaml([^`]*)```/g)].flatMap(
      ([, text = ""]) => text.match(/graphql_cached_\w+/g) ?? [],
    );
    expect(used.length).toBeGreaterThan(0);
    for (const series of used) expect(names).toContain(metricOf(series));
  });
});
