/** The entry point `graphql-cached/redis`. */
export { type BloomGuard, type BloomGuardOptions, bloomGuard } from "./bloom-guard.js";
export type { IoredisClient, NodeRedisClient, RedisClient, RedisPipeline } from "./client-port.js";
export { type RedisStoreOptions, redisStore } from "./redis-store.js";
export type { ReplicaWait } from "./replica-wait-writer.js";
