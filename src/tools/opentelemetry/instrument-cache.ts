import { type MeterProvider, metrics, type TracerProvider, trace } from "@opentelemetry/api";
import type { Cache } from "../../cache.js";
import { CachedError, checkOptionsObject, describeSetting } from "../../core/base/errors.js";
import { unknownOption } from "../../core/base/option-names.js";
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
  checkOptions(options);
  const { channel, store, clock } = parts;
  const { name = channel.prefix, serverAddress, serverPort } = options;
  const { meterProvider = metrics.getMeterProvider(), tracerProvider = trace.getTracerProvider() } = options;
  if (tracerProvider !== false && channel.tracing !== undefined)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
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

/** Each option with the type that it must have, unless it is undefined. */
const OPTION_TYPES: Readonly<Record<keyof OpenTelemetryOptions, readonly [(value: unknown) => boolean, string]>> = {
  name: [(value) => typeof value === "string" && value !== "", "a non-empty string"],
  meterProvider: [(value) => value === false || hasMethod(value, "getMeter"), "a MeterProvider, or false"],
  tracerProvider: [(value) => value === false || hasMethod(value, "getTracer"), "a TracerProvider, or false"],
  serverAddress: [(value) => typeof value === "string" && value !== "", "a non-empty string"],
  serverPort: [(value) => Number.isInteger(value), "an integer"],
};

const hasMethod = (value: unknown, method: string): boolean =>
  typeof (value as Readonly<Record<string, unknown>> | null | undefined)?.[method] === "function";

function checkOptions(options: unknown): void {
  checkOptionsObject(options, "instrumentCache");
  const known = Object.keys(OPTION_TYPES);
  const mistakes = Object.entries(options).flatMap(([name, value]): string[] => {
    const [isValid, expected] = OPTION_TYPES[name as keyof OpenTelemetryOptions] ?? [];
    if (isValid === undefined) return [unknownOption(name, known)];
    return value === undefined || isValid(value)
      ? []
      : [`\`${name}\`: expected ${expected}, got ${describeSetting(value)}`];
  });
  if (mistakes.length > 0) throw new CachedError("CACHED_OPTION_INVALID", `instrumentCache: ${mistakes.join("; ")}`);
}
