import { hasMethod } from "../../core/base/built-in.js";
import { describeSetting } from "../../core/base/errors.js";
import type { ClientPort, IoredisClient, NodeRedisClient, RedisClient } from "./client-port.js";
import { ioredisPort } from "./ioredis-port.js";
import { type NodeRedisOptions, nodeRedisPort } from "./node-redis-port.js";
import { type ScriptCall, sendScripts } from "./pipeline.js";

export const isClient = (value: unknown): value is RedisClient => isIoredis(value) || isNodeRedis(value);

const PORT: unique symbol = Symbol("graphql-cached.port");

/** The port hangs on the client, whose life it shares. */
export function portOf(client: RedisClient): ClientPort {
  const known = client as { [PORT]?: ClientPort };
  const port = known[PORT] ?? (isNodeRedis(client) ? nodeRedisPort(client) : ioredisPort(client));
  if (known[PORT] === undefined) Object.defineProperty(client, PORT, { value: port });
  return port;
}

/**
 * Runs scripts in one round trip, on any client that `redisStore` takes. All keys must be in one
 * slot. Resolves with one reply per call, an Error for each that failed. Never rejects.
 */
export const runScripts = (client: RedisClient, calls: readonly ScriptCall[]): Promise<readonly unknown[]> =>
  sendScripts(portOf(client), calls);

/** Returns why a value cannot be used as a client, and what to do; undefined if it can be. */
export function problemOfClient(value: unknown): string | undefined {
  if (isNodeRedis(value)) return isPool(value) ? notThis(POOL) : problemOfNodeRedis(value);
  return isIoredis(value) ? problemOfIoredis(value) : notThis(mistakenFor(value));
}

const notThis = (value: string): string => `expected an ioredis, iovalkey or node-redis client, got ${value}`;

const POOL =
  "a pool of node-redis, whose connections belong to one caller at a time; pass the client of createClient()";

function mistakenFor(value: unknown): string {
  if (isPool(value)) return POOL;
  if (!hasMethod(value, "sendCommand") || !hasMethod(value, "multi"))
    return `${describeSetting(value)}; pass \`new Redis(url)\` of ioredis or \`await createClient({ url }).connect()\` of node-redis`;
  return hasMethod(value, "duplicate")
    ? "a node-redis client of a version before 5; update the package redis, or pass a client of ioredis"
    : "a client in the legacy mode of node-redis; pass the client whose method legacy() was called";
}

const isPool = (value: unknown): boolean => typeof value === "object" && value !== null && "idleClients" in value;

/** With which a client would read from a replica, or run no commands. */
interface IoredisOptions {
  readonly scaleReads?: unknown;
  readonly readOnly?: boolean;
  readonly role?: unknown;
  readonly monitor?: boolean;
}

const REPLICA = "since a replica may not have received an invalidation yet";

function problemOfIoredis(client: IoredisClient): string | undefined {
  const options: IoredisOptions & { readonly redisOptions?: IoredisOptions } = client.options ?? {};
  const isCluster = (client as { isCluster?: unknown }).isCluster === true;
  const {
    scaleReads = "master",
    role = "master",
    readOnly,
    monitor,
  } = { ...(isCluster && options.redisOptions), ...options };
  for (const [name, value] of Object.entries({ scaleReads, role }))
    if (value !== "master")
      return `expected \`${name}: "master"\`, ${REPLICA}, got ${describeSetting(value)}; remove the option`;
  // Which nodes of a Cluster are read-only is decided by the Cluster client.
  if (readOnly === true && !isCluster) return `expected a client without \`readOnly\`, ${REPLICA}; remove the option`;
  if (monitor === true) return "expected a client without `monitor`, which runs no commands; pass another client";
  if (hasMethod(client, "on") && !hasMethod(client, "callBuffer"))
    return "expected an ioredis client, got one without `callBuffer`, such as ioredis-mock, which cannot run the scripts; use memoryStore() in tests, or a real server";
  return undefined;
}

function problemOfNodeRedis(client: NodeRedisClient): string | undefined {
  const { options, _keyPrefix } = client as { options?: NodeRedisOptions; _keyPrefix?: string };
  if (_keyPrefix)
    return "expected a client without `keyPrefix`, which node-redis does not apply to the commands of the store; pass createCache({ prefix }) instead";
  if (options?.readonly === true) return `expected a client without \`readonly\`, ${REPLICA}; remove the option`;
  if (!client.isOpen)
    return "expected a node-redis client that is connected or connecting, got a closed one; call `await client.connect()` first";
  return undefined;
}

const isIoredis = (value: unknown): value is IoredisClient =>
  hasMethod(value, "pipeline") && hasMethod(value, "duplicate");

/** Clients before version 5 have no `withTypeMapping`. */
const isNodeRedis = (value: unknown): value is NodeRedisClient =>
  hasMethod(value, "withTypeMapping") && hasMethod(value, "sendCommand");
