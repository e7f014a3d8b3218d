/** The package `@graphql-cached/redis-bloom`. */
export { type BloomGuard, type BloomGuardOptions, bloomGuard } from "./bloom-guard.js";
