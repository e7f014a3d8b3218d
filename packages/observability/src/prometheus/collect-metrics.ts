import { type Cache, CachedError, extensionOf } from "graphql-cached";
import { type Cancel, checkOptionRules, describeSetting, type OptionRules } from "graphql-cached/store";
import { Counter, Histogram, type Registry } from "prom-client";
import { type Attributes, METRICS, type Metric, type MetricName, MetricsSource } from "../metrics.js";

/**
 * Adds the metrics of a cache to a Prometheus registry, as `collectDefaultMetrics` does with those
 * of Node.js. Several caches can share a registry: the label `cache` tells them apart. A cache that
 * is added again is counted once.
 *
 * Throws `CACHED_OPTION_INVALID` for an invalid argument, for a cache that the registry has under
 * another name, and if the registry has other metrics of these names.
 */
export function collectMetrics<Context>(cache: Cache<Context>, options: CollectOptions): MetricsCollection {
  const extension = extensionOf(cache, "collectMetrics");
  checkOptionRules(options, "collectMetrics", RULES, ["register"]);
  const { register, name = extension.prefix } = options;
  const names = Object.keys(METRICS) as MetricName[];
  // Before the first of them is added.
  for (const metric of names) checkName(prometheusName(metric), register);
  const metrics = new Map(names.map((metric) => [metric, sharedMetric(metric, register)]));
  const collected = collectedOf(cache, name, metrics);
  collected.users++;
  let isStopped = false;
  const stop: Cancel = () => {
    if (isStopped) return;
    isStopped = true;
    if (--collected.users > 0) return;
    collected.source.stop();
    for (const [metric, shared] of metrics) {
      const { [SOURCES]: sources } = shared;
      const isLast = sources.delete(collected) && sources.size === 0;
      const known = prometheusName(metric);
      // A registry that was emptied may have another metric of this name by now.
      if (isLast && register.getSingleMetric(known) === shared) register.removeSingleMetric(known);
    }
  };
  return { stop };
}

/** Options of `collectMetrics`. */
export interface CollectOptions {
  /** The registry that the metrics are added to, such as `register` of prom-client. */
  readonly register: Registry;
  /**
   * The value of the label `cache`. Caches of one process need different ones. Default: the prefix
   * of the cache.
   */
  readonly name?: string | undefined;
}

/** What `collectMetrics` has started. */
export interface MetricsCollection {
  /**
   * Ends it; the metrics are removed with the last cache that has them. Calling it again has no
   * effect.
   */
  stop(): void;
}

/** The metrics of one cache in a registry, however often they are asked for. */
interface CollectedSource {
  readonly source: MetricsSource;
  readonly cache: object;
  readonly name: string;
  users: number;
}

/** A metric that the caches of a registry share, and what they count in it. */
type SharedMetric = (Counter | Histogram) & { readonly [SOURCES]: Set<CollectedSource> };

const SOURCES: unique symbol = Symbol("graphql-cached.sources");

/** Returns the metrics of a cache in a registry, and adds them if it has none. */
function collectedOf<Context>(
  cache: Cache<Context>,
  name: string,
  metrics: ReadonlyMap<string, SharedMetric>,
): CollectedSource {
  const [any] = metrics.values();
  for (const known of any?.[SOURCES] ?? []) {
    if (known.cache !== cache) continue;
    if (known.name === name) return known;
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `collectMetrics: \`name\`: expected ${describeSetting(known.name)}, under which the registry has this cache, got ${describeSetting(name)}`,
    );
  }
  const source = new MetricsSource(extensionOf(cache, "collectMetrics"), name, (metric, seconds, attributes) => {
    (metrics.get(metric) as unknown as Histogram).observe(labelsOf(attributes), seconds);
  });
  const collected = { source, cache, name, users: 0 };
  for (const metric of metrics.values()) metric[SOURCES].add(collected);
  return collected;
}

/**
 * Returns the name in Prometheus, as OpenTelemetry's exporter writes it: `_seconds` and `_total`
 * follow.
 */
function prometheusName(metric: MetricName): string {
  return `${labelOf(metric)}${METRICS[metric].kind === "counter" ? "_total" : "_seconds"}`;
}

const labelOf = (attribute: string): string => attribute.replaceAll(".", "_");

const labelsOf = (attributes: Attributes): Record<string, string> =>
  Object.fromEntries(Object.entries(attributes).map(([name, value]) => [labelOf(name), value]));

function checkName(name: string, register: Registry): void {
  const known = register.getSingleMetric(name);
  if (known === undefined || SOURCES in known) return;
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `collectMetrics: \`register\`: expected a registry without a metric \`${name}\`, got one that has it; pass another registry`,
  );
}

function sharedMetric(metric: MetricName, register: Registry): SharedMetric {
  const name = prometheusName(metric);
  const known = register.getSingleMetric(name);
  if (known !== undefined) return known as unknown as SharedMetric;
  const { kind, description, attributes, bounds }: Metric = METRICS[metric];
  const sources = new Set<CollectedSource>();
  const labelNames = ["cache", ...attributes.map(labelOf)];
  const config = { name, help: description, labelNames, registers: [register] };
  if (kind === "counter") {
    const counter = new Counter({
      ...config,
      collect() {
        this.reset();
        for (const { source } of sources)
          source.collect((counted, value, labels) => {
            if (counted === metric) this.inc(labelsOf(labels), value);
          });
      },
    });
    return Object.assign(counter, { [SOURCES]: sources } as const);
  }
  const histogram = new Histogram({
    ...config,
    buckets: [...bounds],
    collect() {
      for (const { source } of sources) source.flush();
    },
  });
  return Object.assign(histogram, { [SOURCES]: sources } as const);
}

const RULES: OptionRules = {
  register: [
    (value) => typeof (value as Partial<Registry> | null | undefined)?.getSingleMetric === "function",
    "a Registry of prom-client",
  ],
  name: [(value) => typeof value === "string" && value !== "", "a non-empty string"],
};
