/** The entry point `graphql-cached/prometheus`. */
export { type CollectOptions, collectMetrics, type MetricsCollection } from "./collect-metrics.js";
