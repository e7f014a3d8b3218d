/** The entry point `@graphql-cached/observability/opentelemetry`. */
export { type Instrumentation, instrumentCache, type OpenTelemetryOptions } from "./instrument-cache.js";
