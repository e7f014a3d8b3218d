/** The entry point `graphql-cached`. */
import { type DirectiveNames, renameDirectives, resolveNames } from "./directive/directive-names.js";
import { CACHED_SDL, CONTROL_SDL, INSPECTION_SDL, INVALIDATION_SDL } from "./generated/schema.js";

export { type Cache, createCache, type PreparedDocument } from "./cache.js";
export type { CacheControlOptions } from "./directive/cache-control.js";
export type { EntityTagsOptions } from "./directive/entity-types.js";
export type { FieldExistence } from "./directive/field-existence.js";
export { resultControl } from "./directive/result-control.js";
export { type ApplyCachedOptions, applyCached } from "./directive/wrap-fields.js";
export type { EdgeOptions } from "./edge/options.js";
export { CachedError } from "./errors.js";
export { controlResolvers } from "./inspection/control-resolvers.js";
export type { CacheHealth } from "./inspection/health.js";
export { invalidationResolvers } from "./inspection/invalidation-resolvers.js";
export { inspectionResolvers } from "./inspection/resolvers.js";
export type { CachedLoader } from "./loader/context-loader.js";
export type { BatchCall, LoaderOptions } from "./loader/loader-factory.js";
export type { CacheOptions } from "./options.js";
export type { ResponsesOptions } from "./responses/options.js";
export { memoryStore } from "./store/memory-store.js";
export type { CacheEvent } from "./telemetry/events.js";
export type { Purge, PurgeFunction } from "./tier/invalidation/purge.js";
export type { RefreshJob } from "./tier/lease/refresh-job.js";
export type { ResultControl, ResultSettings } from "./tier/request/result-control.js";
export type { WarmUpReport } from "./warm-up.js";

/** The SDL of `@cached` and `@invalidates`, to add to the type definitions of a schema. */
export const cachedTypeDefs: string = CACHED_SDL;
/**
 * Returns the same SDL with renamed directives; pass the same names to `applyCached`.
 * Throws `CACHED_OPTION_INVALID`.
 */
export const cachedTypeDefsAs = (names: DirectiveNames): string =>
  renameDirectives(CACHED_SDL, resolveNames(names, "cachedTypeDefsAs"));
/** The SDL of the inspection query; it extends the type `Query`. */
export const inspectionTypeDefs: string = INSPECTION_SDL;
/** The SDL of the mutation that changes modes; it extends the type `Mutation`, and needs `inspectionTypeDefs`. */
export const controlTypeDefs: string = CONTROL_SDL;
/** The SDL of the mutations that invalidate; it extends the type `Mutation`, which the schema must have. */
export const invalidationTypeDefs: string = INVALIDATION_SDL;
