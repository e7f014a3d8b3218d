import { type MeterProvider, metrics, type TracerProvider, trace } from "@opentelemetry/api";
import { type Cache, CachedError, extensionOf } from "graphql-cached";
import { type Cancel, checkOptionRules, type OptionRules } from "graphql-cached/store";
import { observeMetrics } from "./observe-metrics.js";
import { SpanTracing } from "./span-tracing.js";

/**
 * Reports a cache to OpenTelemetry: its metrics, and spans of loads, waits and store operations.
 *
 * Throws `CACHED_OPTION_INVALID` for an invalid argument, if spans of the cache are reported
 * already, and if its metrics go to the meter provider already.
 */
export function instrumentCache<Context>(cache: Cache<Context>, options: OpenTelemetryOptions = {}): Instrumentation {
  const extension = extensionOf(cache, "instrumentCache");
  checkOptionRules(options, "instrumentCache", RULES);
  const { name = extension.prefix, serverAddress, serverPort } = options;
  const { meterProvider = metrics.getMeterProvider(), tracerProvider = trace.getTracerProvider() } = options;
  if (tracerProvider !== false && extension.tracing !== undefined) throw isReported("spans");
  const stopMetrics =
    meterProvider === false
      ? undefined
      : once(cache, meterProvider, () => observeMetrics(extension, name, meterProvider.getMeter(SCOPE)));
  const tracing =
    tracerProvider === false
      ? undefined
      : new SpanTracing(tracerProvider.getTracer(SCOPE), extension.clock, {
          name,
          // The value that OpenTelemetry knows, also for "redis cluster".
          system: extension.storeName.replace(/ .*/, ""),
          serverAddress,
          serverPort,
        });
  if (tracing !== undefined) extension.tracing = tracing;
  return {
    stop() {
      stopMetrics?.();
      if (extension.tracing === tracing) extension.tracing = undefined;
    },
  };
}

/** The meter providers that the metrics of a cache go to. */
const PROVIDERS = new WeakMap<object, Set<MeterProvider>>();

/** Each use of a provider would record everything once more. */
function once(cache: object, provider: MeterProvider, observe: () => Cancel): Cancel {
  const providers = PROVIDERS.get(cache) ?? new Set();
  if (providers.has(provider)) throw isReported("metrics");
  let stop: Cancel | undefined = observe();
  PROVIDERS.set(cache, providers.add(provider));
  return () => {
    if (stop === undefined) return;
    stop();
    stop = undefined;
    providers.delete(provider);
  };
}

const isReported = (what: string): CachedError =>
  new CachedError(
    "CACHED_OPTION_INVALID",
    `instrumentCache: expected a cache whose ${what} are not reported yet, got one that is instrumented; call it once, or stop() first`,
  );

/** Options of `instrumentCache`. */
export interface OpenTelemetryOptions {
  /**
   * The value of the attribute `cache`. Caches of one process need different ones. Default: the
   * prefix of the cache.
   */
  readonly name?: string | undefined;
  /** Where metrics go; `false`: none. Default: the global provider, so start the SDK first. */
  readonly meterProvider?: MeterProvider | false | undefined;
  /** Where spans go; `false`: none. Default: the global provider. */
  readonly tracerProvider?: TracerProvider | false | undefined;
  /**
   * `server.address` of spans, and `server.port`, if the store does not name its nodes. Default:
   * none.
   */
  readonly serverAddress?: string | undefined;
  readonly serverPort?: number | undefined;
}

/** What `instrumentCache` has started. */
export interface Instrumentation {
  /** Ends it. Calling it again has no effect. */
  stop(): void;
}

const SCOPE = "graphql-cached";

const isName = (value: unknown): boolean => typeof value === "string" && value !== "";
const hasMethod = (value: unknown, method: string): boolean =>
  typeof (value as Readonly<Record<string, unknown>> | null | undefined)?.[method] === "function";

const RULES: OptionRules<keyof OpenTelemetryOptions> = {
  name: [isName, "a non-empty string"],
  meterProvider: [(value) => value === false || hasMethod(value, "getMeter"), "a MeterProvider, or false"],
  tracerProvider: [(value) => value === false || hasMethod(value, "getTracer"), "a TracerProvider, or false"],
  serverAddress: [isName, "a non-empty string"],
  serverPort: [Number.isInteger, "an integer"],
};
