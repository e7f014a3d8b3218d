/** The entry point `@graphql-cached/observability/prometheus`. */
export { type CollectOptions, collectMetrics, type MetricsCollection } from "./collect-metrics.js";
