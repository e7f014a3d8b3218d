/** The door `graphql-cached/apollo`. */
export { type CachedPluginOptions, cachedPlugin } from "./plugin.js";
