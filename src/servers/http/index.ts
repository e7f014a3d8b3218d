/** The entry point `graphql-cached/http`. */
export { type InvalidationHandlerOptions, invalidationHandler } from "./invalidation-handler.js";
export type { HttpHandler } from "./servers.js";
