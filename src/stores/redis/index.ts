/** The entry point `graphql-cached/redis`. */
export type { IoredisClient, NodeRedisClient, RedisClient, RedisPipeline } from "./client-port.js";
export { defineScript, type Script, type ScriptArgument, type ScriptArguments } from "./define-script.js";
export { problemOfClient, runScripts } from "./known-clients.js";
export type { ScriptCall } from "./pipeline.js";
export { type RedisStoreOptions, redisStore } from "./redis-store.js";
