import type { RedisClient } from "../../stores/redis/redis-client.js";

/** A client that is connected, to the database of its URL. */
export interface RedisConnection {
  readonly client: RedisClient;
  disconnect(): void;
}

type Connect = (url: string, timeoutMs: number) => Promise<RedisConnection>;

/** Loads a package. Rejects if it is not installed. */
export type ImportPackage = (name: "ioredis" | "iovalkey" | "redis") => Promise<unknown>;

type Ioredis = typeof import("ioredis");
type NodeRedis = typeof import("redis");

/** Returns how to connect, with the first package of these that is installed. Undefined if there is none. */
export async function findRedisPackage(importPackage: ImportPackage): Promise<Connect | undefined> {
  for (const name of ["ioredis", "iovalkey"] as const) {
    const ioredis = await importPackage(name).catch(() => undefined);
    if (ioredis !== undefined) return (url, timeoutMs) => connectIoredis(ioredis as Ioredis, url, timeoutMs);
  }
  const nodeRedis = await importPackage("redis").catch(() => undefined);
  if (nodeRedis === undefined) return undefined;
  return (url, timeoutMs) => connectNodeRedis(nodeRedis as NodeRedis, url, timeoutMs);
}

async function connectIoredis({ Redis }: Ioredis, url: string, timeoutMs: number): Promise<RedisConnection> {
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

async function connectNodeRedis({ createClient }: NodeRedis, url: string, timeoutMs: number): Promise<RedisConnection> {
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
