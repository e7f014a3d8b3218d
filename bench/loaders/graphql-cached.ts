import { join } from "node:path";
import { createClient } from "redis";
import { sqliteStore } from "../../packages/sqlite/src/index.js";
import type { Store } from "../../src/core/store/index.js";
import { createCache } from "../../src/index.js";
import { redisStore } from "../../src/stores/redis/index.js";
import { MEMORY, type MemoryName } from "../memory.js";
import { sqliteFolder } from "../sqlite-folder.js";
import { type Contender, type ContenderOptions, MAX_AGE_S } from "./contender.js";
import type { Film } from "./source.js";

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

const onRedis = ({ client }: ContenderOptions): Store => redisStore({ client });

/** The processes of a prefix share a file. */
const onSqlite = ({ prefix }: ContenderOptions): Store =>
  sqliteStore({ path: join(sqliteFolder(process.ppid), `${prefix}.db`) });

interface Variant {
  /** Default: default options. */
  readonly memory?: MemoryName;
  /** Whether each key has a tag of its own. Default: no. */
  readonly hasTags?: boolean;
  /** Default: Redis, by ioredis. */
  readonly connect?: (options: ContenderOptions) => Store;
}

/** A loader of graphql-cached, one context per request. */
function contender(
  name: string,
  { memory = "byDefault", hasTags = false, connect = onRedis }: Variant = {},
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
        ...MEMORY[memory],
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
  contender("graphql-cached"),
  contender("graphql-cached, a tag each", { hasTags: true }),
  contender("graphql-cached, no memory", { memory: "none" }),
  contender("graphql-cached, no memory, a tag each", { memory: "none", hasTags: true }),
  contender("graphql-cached, up to 2 s stale", { memory: "twoSeconds" }),
  contender("graphql-cached, up to 2 s stale, a tag each", { memory: "twoSeconds", hasTags: true }),
  contender("graphql-cached, memory of 32 MiB", { memory: "of32MiB" }),
  contender("graphql-cached, SQLite, no memory", { memory: "none", connect: onSqlite }),
  contender("graphql-cached, node-redis, no memory", { memory: "none", connect: onNodeRedis }),
];
