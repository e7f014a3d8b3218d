/** The entry point `graphql-cached/opentelemetry`. */
export { type Instrumentation, instrumentCache, type OpenTelemetryOptions } from "./instrument-cache.js";
