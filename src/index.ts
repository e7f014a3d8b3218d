/** The entry point `graphql-cached`. */
import { CACHED_SDL, INSPECTION_SDL } from "./generated/schema.js";

export { type Cache, createCache } from "./cache.js";
export { CachedError } from "./core/base/errors.js";
export { type ApplyCachedOptions, applyCached } from "./core/directive/compile/wrap-fields.js";
export type { EntityTagsOptions } from "./core/directive/entities/entity-types.js";
export type { FieldExistence } from "./core/directive/existence/field-existence.js";
export type { CacheControlOptions } from "./core/directive/hints/cache-control.js";
export { resultControl } from "./core/directive/run/result-control.js";
export type { CachedFunction, FunctionCall, FunctionOptions } from "./core/loader/cached-function.js";
export type { BatchCall, CachedLoader, CachedRead, LoaderOptions } from "./core/loader/loader-options.js";
export type { ResponsesOptions } from "./core/responses/options.js";
export type { Counts } from "./core/telemetry/counters.js";
export type { CacheEvent } from "./core/telemetry/events.js";
export type { Tracing } from "./core/telemetry/tracing.js";
export type { RefreshJob } from "./core/tier/lease/refresh-job.js";
export type { ResultControl, ResultSettings } from "./core/tier/request/result-control.js";
export { type CacheExtension, extensionOf } from "./extension.js";
export type { CacheOptions } from "./options.js";
export type { EdgeOptions } from "./servers/edge/options.js";
export { memoryStore } from "./stores/memory/memory-store.js";
export type { CacheHealth } from "./tools/inspection/health.js";
export { inspectionResolvers } from "./tools/inspection/resolvers.js";

/** The SDL of `@cached` and `@invalidates`, to add to the type definitions of a schema. */
export const cachedTypeDefs: string = CACHED_SDL;
/** The SDL of the inspection query; it extends the type `Query`. */
export const inspectionTypeDefs: string = INSPECTION_SDL;
