/** The door `graphql-cached`. */
import { type DirectiveNames, renameDirectives, resolveNames } from "./directive/directive-names.js";
import { CACHED_SDL, INSPECTION_SDL } from "./generated/schema.js";

export { type Cache, createCache, type EntryTarget, type InvalidateOptions, type MutateTarget } from "./cache.js";
export type { Clock, Random } from "./clock.js";
export { type Codec, type Content, Unstorable } from "./codec/codec.js";
export type { EncryptionKey, EncryptionOptions } from "./codec/encryption.js";
export type { ValueType, ValueTypes } from "./codec/value-type.js";
export type { DirectiveNames } from "./directive/directive-names.js";
export { applyCached } from "./directive/wrap-fields.js";
export { CachedError, type ErrorCode } from "./errors.js";
export { type InspectionOptions, type InspectionResolvers, inspectionResolvers } from "./inspection/resolvers.js";
export type { CachedLoader } from "./loader/context-loader.js";
export type { LoaderOptions } from "./loader/loader-factory.js";
export type { CacheOptions } from "./options.js";
export type { PolicySettings } from "./policy/policy.js";
export { type MemoryStoreOptions, memoryStore } from "./store/memory-store.js";
export type { Store } from "./store/store.js";
export type { BypassReason, CacheEvent, Listener, ReadOutcome } from "./telemetry/events.js";
export type { Logger } from "./telemetry/log-listener.js";
export type { RefreshJob, RefreshQueue } from "./tier/refresh-job.js";

/** The SDL of `@cached` and `@invalidates`, to be given along with a schema's own type definitions. */
export const cachedTypeDefs: string = CACHED_SDL;
/** The same with the directives called otherwise, as `applyCached` is then told too. Errors: `CACHED_OPTION_INVALID`. */
export const cachedTypeDefsAs = (names: DirectiveNames): string =>
  renameDirectives(CACHED_SDL, resolveNames(names, "cachedTypeDefsAs"));
/** The SDL of the cache-inspection query; it extends the type Query. */
export const inspectionTypeDefs: string = INSPECTION_SDL;
