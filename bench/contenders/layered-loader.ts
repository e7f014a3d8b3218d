import DataLoader from "dataloader";
import { createNotificationPair, Loader, RedisCache } from "layered-loader";
import type { Film } from "../source.js";
import type { Contender, ContenderOptions } from "./contender.js";

const idOf = (film: Film): string => film.id;

/** Creates a loader on Redis only. It has no stale values but refreshes before expiry, so the stale window is the last part of the TTL. */
function createLoader({ client, prefix, source, policy }: ContenderOptions, more: object = {}): Loader<Film> {
  const { maxAge, staleFor } = policy;
  return new Loader<Film>({
    asyncCache: new RedisCache<Film>(client, {
      prefix,
      json: true,
      ttlInMsecs: (maxAge + staleFor) * 1_000,
      ...(staleFor > 0 ? { ttlLeftBeforeRefreshInMsecs: staleFor * 1_000 } : {}),
    }),
    logger: { error: () => undefined },
    cacheKeyFromLoadParamsResolver: (id) => id,
    cacheKeyFromValueResolver: idOf,
    dataSourceGetOneFn: (id) => source.loadOne(id),
    dataSourceGetManyFn: (ids) => source.load(ids),
    ...more,
  });
}

/** layered-loader with `get`, which coalesces loads within a process. */
export const layeredLoader: Contender = {
  name: "layered-loader",
  kind: "peer",
  module: "contenders/layered-loader",
  open: (options) => {
    const loader = createLoader(options);
    return {
      request: () => (id) => loader.get(id) as Promise<Film>,
      invalidate: (id) => loader.invalidateCacheFor(id),
    };
  },
};

/** layered-loader with an in-memory cache and invalidation messages between processes. */
export const layeredLoaderNear: Contender = {
  name: "layered-loader, in memory",
  kind: "peer",
  module: "contenders/layered-loader",
  open: (options) => {
    const { client, prefix, policy } = options;
    const connection = { enableOfflineQueue: true, lazyConnect: false };
    const { publisher, consumer } = createNotificationPair<Film>({
      channel: `${prefix}-changes`,
      publisherRedis: client.duplicate(connection),
      consumerRedis: client.duplicate(connection),
    });
    const loader = createLoader(options, {
      inMemoryCache: { ttlInMsecs: policy.maxAge * 1_000, maxItems: 10_000 },
      notificationPublisher: publisher,
      notificationConsumer: consumer,
    });
    return {
      // In-memory values are available synchronously; all contenders return promises.
      request: () => async (id) => loader.getInMemoryOnly(id) ?? ((await loader.get(id)) as Film),
      invalidate: (id) => loader.invalidateCacheFor(id),
    };
  },
};

/** layered-loader with `getMany` (one MGET) behind a DataLoader per request. It does not coalesce loads. */
export const layeredLoaderMany: Contender = {
  name: "layered-loader getMany",
  kind: "peer",
  module: "contenders/layered-loader",
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
};
