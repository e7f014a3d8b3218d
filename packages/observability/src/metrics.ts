import type { CacheEvent, CacheExtension, Counts } from "graphql-cached";
import { type Cancel, errorTypeOf } from "graphql-cached/store";

/**
 * What a metric counts, or the durations it collects. Every metric also has the attribute `cache`.
 */
export interface Metric {
  readonly kind: "counter" | "histogram";
  /** As in UCUM: `s`, or what is counted in braces. */
  readonly unit: string;
  readonly description: string;
  readonly attributes: readonly string[];
  /** The upper bounds of the buckets, in seconds. Empty for counters. */
  readonly bounds: readonly number[];
}

/** `attributes`: their names, separated by spaces. */
function counter(what: string, description: string, attributes: string): Metric {
  return { kind: "counter", unit: `{${what}}`, description, attributes: attributes.split(" "), bounds: [] };
}

function histogram(description: string, bounds: readonly number[], attributes: string): Metric {
  return { kind: "histogram", unit: "s", description, attributes: attributes.split(" "), bounds };
}

const SOURCE_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const STORE_BOUNDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

/** All metrics of a cache, by their names in OpenTelemetry. */
export const METRICS = {
  "graphql_cached.reads": counter("read", "Reads of cached fields and loaders, by outcome", "coordinate outcome"),
  "graphql_cached.bypasses": counter("read", "Reads that bypassed the cache, by reason", "coordinate reason"),
  "graphql_cached.loads": counter("load", "Loads from the source that have begun", "coordinate"),
  "graphql_cached.load.failures": counter("load", "Loads that failed", "coordinate"),
  "graphql_cached.write.refusals": counter(
    "value",
    "Loaded values that the store did not take: invalidated meanwhile, lease lost, no reply",
    "coordinate",
  ),
  "graphql_cached.value.refusals": counter(
    "value",
    "Loaded values that cannot be cached, by error code",
    "coordinate error.type",
  ),
  "graphql_cached.lease.losses": counter("lease", "Leases that ended before their load", "coordinate"),
  "graphql_cached.invalidations": counter(
    "invalidation",
    "Invalidations, by what asked for them",
    "via kind confirmed",
  ),
  "graphql_cached.store.failures": counter(
    "operation",
    "Store operations that failed or exceeded their time budget",
    "operation",
  ),
  "graphql_cached.load.duration": histogram(
    "How long loads took; error.type is set if they failed",
    SOURCE_BOUNDS,
    "coordinate error.type",
  ),
  "graphql_cached.wait.duration": histogram(
    "How long callers waited for a load that was not their own, in this process (local) or another one (remote)",
    SOURCE_BOUNDS,
    "coordinate holder",
  ),
  "graphql_cached.store.duration": histogram(
    "How long store operations took; error.type is set if they failed",
    STORE_BOUNDS,
    "operation error.type",
  ),
} as const satisfies Readonly<Record<string, Metric>>;

export type MetricName = keyof typeof METRICS;

/** The names and values that distinguish the counts of one metric. */
export type Attributes = Readonly<Record<string, string>>;

type Observe = (name: MetricName, value: number, attributes: Attributes) => void;

/** How many durations of one store operation are kept before they are recorded. */
const MAX_KEPT = 256;

const OUTCOMES = ["hit", "stale", "staleIfError", "loaded", "coalesced", "bypassed"] as const;

/**
 * How many types of errors are told apart, since the number of labels has to be bounded. Others are
 * `_OTHER`.
 */
const MAX_ERROR_TYPES = 50;

/**
 * Collects the metrics of one cache. Reads and loads are counted by the cache in any case, and are
 * only read when metrics are collected, so that a hit costs nothing more. Everything else is
 * counted here from when it is created.
 */
export class MetricsSource {
  readonly #extension: CacheExtension;
  readonly #cache: string;
  readonly #errorTypes = new Set<string>();
  readonly #counts = new Map<string, { readonly name: MetricName; readonly attributes: Attributes; count: number }>();
  /** The durations of store operations that are not recorded yet, in milliseconds, by operation. */
  readonly #storeMs = new Map<string, number[]>();
  readonly #record: (name: MetricName, seconds: number, attributes: Attributes) => void;
  /** Ends the collection of durations and of what is counted here. */
  readonly stop: Cancel;

  /**
   * `cache`: the value of the attribute of this name. `record` receives durations when they end.
   * Those of a store in the memory of this process are not measured: each would take longer to
   * record than the read that it measures.
   */
  constructor(
    extension: CacheExtension,
    cache: string,
    record: (name: MetricName, seconds: number, attributes: Attributes) => void,
  ) {
    this.#extension = extension;
    this.#cache = cache;
    this.#record = record;
    this.stop = extension.listen(
      (event) => this.#on(event),
      ["wait.finished", ...(extension.isShared ? ["store.finished" as const] : [])],
    );
  }

  /**
   * Records what has been measured since the last time. To be called before durations are
   * collected.
   */
  flush(): void {
    for (const operation of this.#storeMs.keys()) this.#flush(operation);
  }

  /** Calls `observe` with the current value of every counter. */
  collect(observe: Observe): void {
    const cache = this.#cache;
    for (const [coordinate, counts] of this.#extension.counts()) collectCounts(counts, { cache, coordinate }, observe);
    for (const { name, count, attributes } of this.#counts.values()) observe(name, count, attributes);
  }

  #on(event: CacheEvent): void {
    switch (event.name) {
      case "load.finished":
        this.#measure("graphql_cached.load.duration", event.loadMs, { coordinate: event.coordinate });
        break;
      case "load.failed":
        this.#measure("graphql_cached.load.duration", event.loadMs, {
          coordinate: event.coordinate,
          "error.type": this.#errorTypeOf(event.error),
        });
        break;
      case "wait.finished":
        this.#measure("graphql_cached.wait.duration", event.waitMs, {
          coordinate: event.coordinate,
          holder: event.isLocal ? "local" : "remote",
        });
        break;
      case "store.finished":
        if (event.error === undefined) this.#keep(event.operation, event.storeMs);
        else
          this.#measure("graphql_cached.store.duration", event.storeMs, {
            operation: event.operation,
            "error.type": this.#errorTypeOf(event.error),
          });
        break;
      case "store.failed":
        this.#count("graphql_cached.store.failures", { operation: event.operation });
        break;
      case "value.refused":
        this.#count("graphql_cached.value.refusals", {
          coordinate: event.coordinate,
          "error.type": event.error.code,
        });
        break;
      case "lease.lost":
        this.#count("graphql_cached.lease.losses", { coordinate: event.coordinate });
        break;
      case "invalidation.finished":
        this.#count("graphql_cached.invalidations", {
          via: event.via,
          kind: event.kind,
          confirmed: String(event.isConfirmed),
        });
        break;
      default:
    }
  }

  #errorTypeOf(error: unknown): string {
    const type = errorTypeOf(error);
    if (this.#errorTypes.has(type)) return type;
    if (this.#errorTypes.size >= MAX_ERROR_TYPES) return "_OTHER";
    this.#errorTypes.add(type);
    return type;
  }

  /**
   * Every tick of hits ends with a store operation. Many durations in a row are recorded in a
   * fraction of the time that each of them would take between other work.
   */
  #keep(operation: string, storeMs: number): void {
    let kept = this.#storeMs.get(operation);
    if (kept === undefined) {
      kept = [];
      this.#storeMs.set(operation, kept);
    }
    if (kept.push(storeMs) === MAX_KEPT) this.#flush(operation);
  }

  #flush(operation: string): void {
    const attributes = { cache: this.#cache, operation };
    for (const ms of this.#storeMs.get(operation)?.splice(0) ?? [])
      this.#record("graphql_cached.store.duration", ms / 1000, attributes);
  }

  #measure(name: MetricName, ms: number, attributes: Attributes): void {
    this.#record(name, ms / 1000, { cache: this.#cache, ...attributes });
  }

  #count(name: MetricName, attributes: Attributes): void {
    const id = [name, ...Object.values(attributes)].join(" ");
    const known = this.#counts.get(id);
    if (known === undefined)
      this.#counts.set(id, { name, attributes: { cache: this.#cache, ...attributes }, count: 1 });
    else known.count++;
  }
}

function collectCounts(counts: Counts, own: Attributes, observe: Observe): void {
  for (const outcome of OUTCOMES)
    if (counts[outcome] > 0) observe("graphql_cached.reads", counts[outcome], { ...own, outcome });
  for (const [reason, count] of counts.bypasses) observe("graphql_cached.bypasses", count, { ...own, reason });
  observe("graphql_cached.loads", counts.loads, own);
  observe("graphql_cached.load.failures", counts.failedLoads, own);
  observe("graphql_cached.write.refusals", counts.refusedStores, own);
}
