/** The entry point `@graphql-cached/memcached`. */
export type { MemcachedClient } from "./memcached-client.js";
export { type MemcachedStoreOptions, memcachedStore } from "./memcached-store.js";
