/** The entry point `graphql-cached/apollo`. */
export { type CachedPluginOptions, cachedPlugin } from "./plugin.js";
export { stringifyResult } from "./stringify-result.js";
