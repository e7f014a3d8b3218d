import type { Histogram, Meter, ObservableCounter } from "@opentelemetry/api";
import type { CacheExtension } from "graphql-cached";
import type { Cancel } from "graphql-cached/store";
import { METRICS, type MetricName, MetricsSource } from "../metrics.js";

/**
 * Reports the metrics of a cache to a meter, which reads the counters when it collects. Returns
 * what ends it.
 */
export function observeMetrics(extension: CacheExtension, name: string, meter: Meter): Cancel {
  const counters = new Map<MetricName, ObservableCounter>();
  const histograms = new Map<MetricName, Histogram>();
  for (const [metric, { kind, unit, description, bounds }] of Object.entries(METRICS)) {
    const own = { unit, description };
    if (kind === "counter") counters.set(metric as MetricName, meter.createObservableCounter(metric, own));
    else {
      const advice = { explicitBucketBoundaries: [...bounds] };
      histograms.set(metric as MetricName, meter.createHistogram(metric, { ...own, advice }));
    }
  }
  const source = new MetricsSource(extension, name, (metric, seconds, attributes) =>
    histograms.get(metric)?.record(seconds, attributes),
  );
  const observables = [...counters.values()];
  const collect: Parameters<Meter["addBatchObservableCallback"]>[0] = (result) => {
    source.flush();
    source.collect((metric, value, attributes) =>
      result.observe(counters.get(metric) as ObservableCounter, value, attributes),
    );
  };
  meter.addBatchObservableCallback(collect, observables);
  return () => {
    source.stop();
    meter.removeBatchObservableCallback(collect, observables);
  };
}
