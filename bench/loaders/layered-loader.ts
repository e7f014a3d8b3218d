import DataLoader from "dataloader";
import { createNotificationPair, Loader, RedisCache } from "layered-loader";
import { type Contender, type ContenderOptions, MAX_AGE_S } from "./contender.js";
import type { Film } from "./source.js";

const idOf = (film: Film): string => film.id;

/** Creates a loader on Redis. */
function createLoader({ client, prefix, source }: ContenderOptions, more: object = {}): Loader<Film> {
  return new Loader<Film>({
    asyncCache: new RedisCache<Film>(client, { prefix, json: true, ttlInMsecs: MAX_AGE_S * 1_000 }),
    logger: { error: () => undefined },
    cacheKeyFromLoadParamsResolver: (id) => id,
    cacheKeyFromValueResolver: idOf,
    dataSourceGetOneFn: (id) => source.loadOne(id),
    dataSourceGetManyFn: (ids) => source.load(ids),
    ...more,
  });
}

export const contenders: readonly Contender[] = [
  // With `get`, which coalesces loads within a process.
  {
    name: "layered-loader",
    open: (options) => {
      const loader = createLoader(options);
      return {
        request: () => (id) => loader.get(id) as Promise<Film>,
        invalidate: (id) => loader.invalidateCacheFor(id),
      };
    },
  },
  // With `getMany` (one MGET) behind a DataLoader per request. It does not coalesce loads.
  {
    name: "layered-loader getMany",
    open: (options) => {
      const loader = createLoader(options);
      const batch = async (ids: readonly string[]): Promise<Film[]> => {
        const filmOf = new Map((await loader.getMany([...ids])).map((film) => [film.id, film]));
        return ids.map((id) => filmOf.get(id) as Film);
      };
      return {
        request: () => {
          const requestLoader = new DataLoader<string, Film>(batch);
          return (id) => requestLoader.load(id);
        },
        invalidate: (id) => loader.invalidateCacheFor(id),
      };
    },
  },
  // With a cache in memory and invalidation messages between processes.
  {
    name: "layered-loader, in memory",
    open: (options) => {
      const { client, prefix } = options;
      const connection = { enableOfflineQueue: true, lazyConnect: false };
      const { publisher, consumer } = createNotificationPair<Film>({
        channel: `${prefix}-changes`,
        publisherRedis: client.duplicate(connection),
        consumerRedis: client.duplicate(connection),
      });
      const loader = createLoader(options, {
        inMemoryCache: { ttlInMsecs: MAX_AGE_S * 1_000, maxItems: 10_000 },
        notificationPublisher: publisher,
        notificationConsumer: consumer,
      });
      return {
        // Values in memory are available synchronously; all contenders return promises.
        request: () => async (id) => loader.getInMemoryOnly(id) ?? ((await loader.get(id)) as Film),
        invalidate: (id) => loader.invalidateCacheFor(id),
      };
    },
  },
];
