/** The entry point `graphql-cached/yoga`. */
export { type CachedYogaOptions, type CachedYogaPlugin, useCached } from "./plugin.js";
