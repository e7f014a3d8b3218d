/** The entry point `graphql-cached/apollo`. */
export { type CachedPlugin, type CachedPluginOptions, cachedPlugin } from "./plugin.js";
export { stringifyResult } from "./stringify-result.js";
