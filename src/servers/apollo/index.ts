/** The entry point `graphql-cached/apollo`. */
export { type KeyValueCache, type KeyValueCacheOptions, keyValueCache } from "./key-value-cache.js";
export { type CachedPluginOptions, cachedPlugin } from "./plugin.js";
export { stringifyResult } from "./stringify-result.js";
