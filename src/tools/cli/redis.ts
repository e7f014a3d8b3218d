import { graphql } from "graphql";
import { createCache } from "../../cache.js";
import { CachedError, messageOf } from "../../core/base/errors.js";
import { partsOf } from "../../core/parts.js";
import { redisStore } from "../../stores/redis/redis-store.js";
import { inspectionSchema } from "../inspection/schema.js";
import { CliError } from "./cli-error.js";
import { readError } from "./endpoint.js";
import { findRedisPackage, type ImportPackage } from "./redis-connection.js";
import type { Source } from "./source.js";
import { printable } from "./terminal.js";

/** The caches of a Redis server, and how to reach them. */
export interface RedisPlace {
  readonly url: string;
  readonly prefix: string | undefined;
  /** That of the caches. */
  readonly normalizeTag: ((tag: string) => string) | undefined;
  readonly timeoutMs: number;
}

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
    ask: async (query, variables) => {
      const { data, errors = [] } = await graphql({
        schema,
        source: query,
        variableValues: variables,
        contextValue: {},
      });
      return { data: data ?? undefined, errors: errors.map(readError) };
    },
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
