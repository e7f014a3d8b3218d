/** The entry point `graphql-cached/mercurius`. */
export { type CachedHooksOptions, cachedHooks, type MercuriusApp } from "./hooks.js";
