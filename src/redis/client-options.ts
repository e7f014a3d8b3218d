import { describeSetting } from "../errors.js";
import { isCluster, type RedisClient } from "./redis-client.js";

/** The client options with which it would read from a replica, or run no commands. Those of a Cluster's nodes are in `redisOptions`. */
interface ClientOptions {
  readonly scaleReads?: unknown;
  readonly readOnly?: boolean;
  readonly role?: unknown;
  readonly monitor?: boolean;
}

const REPLICA = "since a replica may not have received an invalidation yet";

/**
 * Returns why a client cannot be used, and what to do; undefined if it can be. docs/stores.md lists the options of ioredis.
 */
export function problemOfClient(client: RedisClient): string | undefined {
  const { scaleReads = "master", readOnly, role = "master", monitor } = optionsOf(client);
  if (scaleReads !== "master")
    return `expected \`scaleReads: "master"\`, ${REPLICA}, got ${describeSetting(scaleReads)}; remove the option`;
  if (role !== "master")
    return `expected \`role: "master"\`, ${REPLICA}, got ${describeSetting(role)}; remove the option`;
  if (readOnly === true) return `expected a client without \`readOnly\`, ${REPLICA}; remove the option`;
  if (monitor === true) return "expected a client without `monitor`, which runs no commands; pass another client";
  if (isFunction(client.on) && !isFunction(client.callBuffer))
    return "expected an ioredis client, got one without `callBuffer`, such as ioredis-mock, which cannot run the scripts; use memoryStore() in tests, or a real server";
  return undefined;
}

function optionsOf(client: RedisClient): ClientOptions {
  const options: ClientOptions & { readonly redisOptions?: ClientOptions } = client.options ?? {};
  // Which nodes of a Cluster are read-only is decided by the Cluster client.
  return isCluster(client) ? { ...options.redisOptions, ...options, readOnly: false } : options;
}

const isFunction = (value: unknown): boolean => typeof value === "function";
