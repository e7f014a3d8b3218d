import { createCache } from "../../cache.js";
import { CachedError, messageOf } from "../../core/base/errors.js";
import { partsOf } from "../../core/parts.js";
import type { RedisClient } from "../../stores/redis/client-port.js";
import { redisStore } from "../../stores/redis/redis-store.js";
import { askSchema } from "../inspection/asking.js";
import { inspectionSchema } from "../inspection/schema.js";
import type { Source } from "./inspection.js";
import { CliError, printable } from "./terminal.js";

/**
 * Returns a source that answers queries itself, with a cache on the store of others. It has no schema: whatever needs
 * the key of one entry cannot be asked. Throws `CliError` if Redis cannot be reached.
 */
export async function redisSource(
  command: string,
  { url, prefix, normalizeTag, timeoutMs }: RedisPlace,
  importPackage: ImportPackage = (name) => import(name),
): Promise<Source> {
  if (prefix === undefined)
    throw new CliError(
      `${command}: expected the \`prefix\` option of the caches on this Redis server, got none; pass --prefix shop`,
    );
  if (!/^rediss?:\/\//.test(url) || !URL.canParse(url))
    throw new CliError(`${command}: --redis: expected a URL such as redis://localhost:6379, got something else`);
  const { host, pathname } = new URL(url);
  const name = printable(`Redis at ${host}`);
  if (!/^\/?\d*$/.test(pathname))
    throw new CliError(
      `${command}: --redis: expected the number of a database after the /, such as redis://localhost:6379/1, got something else`,
    );
  const connect = await findRedisPackage(importPackage);
  if (connect === undefined)
    throw new CliError(`${command}: --redis needs the package ioredis, iovalkey or redis; run npm install ioredis`);
  const unreachable = (error: unknown): CliError =>
    new CliError(`${name}: cannot be used: ${printable(messageOf(error)) || "no connection"}`);
  const { client, disconnect } = await connect(url, timeoutMs).catch((error: unknown) => {
    throw unreachable(error);
  });
  let cache: ReturnType<typeof createCache>;
  try {
    cache = createCache({
      store: redisStore({ client }),
      prefix,
      storage: { storeTimeoutMs: timeoutMs },
      invalidation: { normalizeTag },
      logger: { info: () => undefined, warn: () => undefined },
    });
  } catch (error) {
    disconnect();
    throw error instanceof CachedError ? new CliError(`${command}: ${error.message}`) : error;
  }
  const parts = partsOf(cache, command);
  const close = async (): Promise<void> => {
    await cache.close();
    disconnect();
  };
  let known: readonly string[];
  try {
    known = await parts.sharedSettings.readCoordinates();
  } catch (error) {
    await close();
    throw unreachable(error);
  }
  const allow = (): boolean => true;
  const schema = inspectionSchema(cache, { inspection: allow, control: allow, invalidation: allow });
  return {
    name: `${name}, prefix ${prefix}`,
    hasSchema: false,
    ask: (...operation) => askSchema(schema, operation, {}),
    invalidateCoordinate: async (coordinate, isSoft) => {
      if (!known.includes(coordinate))
        throw new CliError(
          `${command}: expected a field or loader that has entries under the prefix ${prefix}, got ${printable(coordinate)}; known are ${printable([...new Set(known)].toSorted().join(", ")) || "none"}`,
        );
      await parts.invalidation.run({ keys: [], tags: [], coordinates: [coordinate] }, isSoft ? "soft" : "hard", {
        via: "cacheInvalidateAll",
      });
    },
    close,
  };
}

/** The caches of a Redis server, and how to reach them. */
export interface RedisPlace {
  readonly url: string;
  readonly prefix: string | undefined;
  readonly normalizeTag: ((tag: string) => string) | undefined;
  readonly timeoutMs: number;
}

/** A client that is connected, to the database of its URL. */
interface RedisConnection {
  readonly client: RedisClient;
  disconnect(): void;
}

type Connect = (url: string, timeoutMs: number) => Promise<RedisConnection>;

/** Loads a package. Rejects if it is not installed. */
export type ImportPackage = (name: "ioredis" | "iovalkey" | "redis") => Promise<unknown>;

/** Returns how to connect, with the first package of these that is installed. Undefined if there is none. */
async function findRedisPackage(importPackage: ImportPackage): Promise<Connect | undefined> {
  for (const name of ["ioredis", "iovalkey"] as const) {
    const ioredis = await importPackage(name).catch(() => undefined);
    if (ioredis !== undefined)
      return (url, timeoutMs) => connectIoredis(ioredis as typeof import("ioredis"), url, timeoutMs);
  }
  const nodeRedis = await importPackage("redis").catch(() => undefined);
  if (nodeRedis === undefined) return undefined;
  return (url, timeoutMs) => connectNodeRedis(nodeRedis as typeof import("redis"), url, timeoutMs);
}

async function connectIoredis(
  { Redis }: typeof import("ioredis"),
  url: string,
  timeoutMs: number,
): Promise<RedisConnection> {
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let lastError: unknown;
  client.on("error", (error: unknown) => {
    lastError = error;
  });
  const disconnect = (): void => client.disconnect();
  try {
    await client.connect();
    // When it connects, the client ignores that there is no such database, and uses another one.
    await client.select(client.options.db ?? 0);
  } catch (error) {
    disconnect();
    throw lastError ?? error;
  }
  return { client, disconnect };
}

async function connectNodeRedis(
  { createClient }: typeof import("redis"),
  url: string,
  timeoutMs: number,
): Promise<RedisConnection> {
  const client = createClient({
    url,
    disableOfflineQueue: true,
    socket: { connectTimeout: timeoutMs, reconnectStrategy: false },
    commandOptions: { timeout: timeoutMs },
  });
  client.on("error", () => undefined);
  await client.connect();
  return { client, disconnect: () => client.destroy() };
}
