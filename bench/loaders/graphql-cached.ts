import { join } from "node:path";
import { createClient } from "redis";
import { sqliteStore } from "../../packages/sqlite/src/index.js";
import type { Store } from "../../src/core/store/index.js";
import { type CacheOptions, createCache } from "../../src/index.js";
import { redisStore } from "../../src/stores/redis/index.js";
import { sqliteFolder } from "../sqlite-folder.js";
import { type Contender, type ContenderOptions, MAX_AGE_S } from "./contender.js";
import type { Film } from "./source.js";

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

const onRedis = ({ client }: ContenderOptions): Store => redisStore({ client });

/** The processes of a prefix share a file. */
const onSqlite = ({ prefix }: ContenderOptions): Store =>
  sqliteStore({ path: join(sqliteFolder(process.ppid), `${prefix}.db`) });

/** A loader of graphql-cached, one context per request, with default options. */
function contender(
  name: string,
  hasTags: boolean,
  more: Pick<CacheOptions, "nearCache"> = {},
  connect = onRedis,
): Contender {
  return {
    name,
    open: (options) => {
      const { prefix, source } = options;
      const cache = createCache({
        defaultScope: "PUBLIC",
        store: connect(options),
        prefix,
        logger: silentLogger,
        ...more,
      });
      const films = cache.loader<string, Film, object>({
        name: "Film",
        batch: (ids) => source.load(ids),
        maxAge: MAX_AGE_S,
        ...(hasTags ? { tags: (id: string) => [`Film:${id}`] } : {}),
      });
      return {
        request: () => {
          const requestLoader = films({});
          return (id) => requestLoader.load(id);
        },
        invalidate: (id) => cache.invalidateTags([`Film:${id}`]),
      };
    },
  };
}

/** By a client of node-redis for the same server. */
function onNodeRedis({ client: { options } }: ContenderOptions): Store {
  const client = createClient({ socket: { port: options.port as number } });
  client.on("error", () => undefined);
  client.connect().catch(() => undefined);
  return redisStore({ client });
}

export const contenders: readonly Contender[] = [
  contender("graphql-cached", false),
  contender("graphql-cached, a tag each", true),
  contender("graphql-cached, SQLite", false, {}, onSqlite),
  contender("graphql-cached, node-redis", false, {}, onNodeRedis),
  contender("graphql-cached, near cache", false, { nearCache: {} }),
  contender("graphql-cached, near cache, a tag each", true, { nearCache: {} }),
  contender("graphql-cached, near cache of 32 MB", false, {
    nearCache: { maxBytes: 32 * 2 ** 20, maxEntries: 1_000_000 },
  }),
];
