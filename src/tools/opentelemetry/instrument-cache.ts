import { type MeterProvider, metrics, type TracerProvider, trace } from "@opentelemetry/api";
import type { Cache } from "../../cache.js";
import { optionInvalid } from "../../core/base/errors.js";
import { checkOptionRules, hasMethod, isName, type OptionRules } from "../../core/base/option-rules.js";
import { partsOf } from "../../core/parts.js";
import { observeMetrics } from "./observe-metrics.js";
import { SpanTracing } from "./span-tracing.js";

/**
 * Reports a cache to OpenTelemetry: its metrics, and spans of loads, waits and store operations.
 *
 * Throws `CACHED_OPTION_INVALID` for an invalid argument, and if spans of the cache are reported already.
 */
export function instrumentCache<Context>(cache: Cache<Context>, options: OpenTelemetryOptions = {}): Instrumentation {
  const parts = partsOf(cache, "instrumentCache");
  checkOptionRules(options, "instrumentCache", RULES);
  const { channel, store, clock } = parts;
  const { name = channel.prefix, serverAddress, serverPort } = options;
  const { meterProvider = metrics.getMeterProvider(), tracerProvider = trace.getTracerProvider() } = options;
  if (tracerProvider !== false && channel.tracing !== undefined)
    throw optionInvalid(
      "instrumentCache: expected a cache whose spans are not reported yet, got one that is instrumented; call it once, or stop() first",
    );
  const stopMetrics = meterProvider === false ? undefined : observeMetrics(parts, name, meterProvider.getMeter(SCOPE));
  const tracing =
    tracerProvider === false
      ? undefined
      : new SpanTracing(tracerProvider.getTracer(SCOPE), clock, {
          name,
          system: store.name,
          serverAddress,
          serverPort,
        });
  if (tracing !== undefined) channel.tracing = tracing;
  return {
    stop() {
      stopMetrics?.();
      if (channel.tracing === tracing) channel.tracing = undefined;
    },
  };
}

/** Options of `instrumentCache`. */
export interface OpenTelemetryOptions {
  /** The value of the attribute `cache`. Caches of one process need different ones. Default: the prefix of the cache. */
  readonly name?: string | undefined;
  /** Where metrics go; `false`: none. Default: the global provider, so start the SDK first. */
  readonly meterProvider?: MeterProvider | false | undefined;
  /** Where spans go; `false`: none. Default: the global provider. */
  readonly tracerProvider?: TracerProvider | false | undefined;
  /** `server.address` of spans, and `server.port`, if the store does not name its nodes. Default: none. */
  readonly serverAddress?: string | undefined;
  readonly serverPort?: number | undefined;
}

/** What `instrumentCache` has started. */
export interface Instrumentation {
  /** Ends it. Calling it again has no effect. */
  stop(): void;
}

const SCOPE = "graphql-cached";

const RULES: OptionRules<keyof OpenTelemetryOptions> = {
  name: [isName, "a non-empty string"],
  meterProvider: [(value) => value === false || hasMethod(value, "getMeter"), "a MeterProvider, or false"],
  tracerProvider: [(value) => value === false || hasMethod(value, "getTracer"), "a TracerProvider, or false"],
  serverAddress: [isName, "a non-empty string"],
  serverPort: [Number.isInteger, "an integer"],
};
