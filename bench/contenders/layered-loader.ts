import DataLoader from "dataloader";
import { createNotificationPair, Loader, RedisCache } from "layered-loader";
import type { Film } from "../source.js";
import type { Contender, Equipment } from "./contender.js";

const idOf = (film: Film): string => film.id;

/** On Redis alone. What it has for stale values is a refresh ahead of expiry, so the stale window is the last part of an entry's logId. */
function createLoader({ client, prefix, source, keeping }: Equipment, more: object = {}): Loader<Film> {
  const { maxAge, staleFor } = keeping;
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

/** layered-loader by `get`, which coalesces loads within a process. */
export const layeredLoader: Contender = {
  name: "layered-loader",
  kind: "peer",
  open: (equipment) => {
    const loader = createLoader(equipment);
    return {
      request: () => (id) => loader.get(id) as Promise<Film>,
      invalidate: (id) => loader.invalidateCacheFor(id),
    };
  },
};

/** layered-loader with values in the process's memory too, and with the messages by which processes tell each other of invalidations. */
export const layeredLoaderNear: Contender = {
  name: "layered-loader, in memory",
  kind: "peer",
  open: (equipment) => {
    const { client, prefix, keeping } = equipment;
    const own = { enableOfflineQueue: true, lazyConnect: false };
    const { publisher, consumer } = createNotificationPair<Film>({
      channel: `${prefix}-changes`,
      publisherRedis: client.duplicate(own),
      consumerRedis: client.duplicate(own),
    });
    const loader = createLoader(equipment, {
      inMemoryCache: { ttlInMsecs: keeping.maxAge * 1_000, maxItems: 10_000 },
      notificationPublisher: publisher,
      notificationConsumer: consumer,
    });
    return {
      // What is in memory is there at once; the promise is what all contenders answer with.
      request: () => async (id) => loader.getInMemoryOnly(id) ?? ((await loader.get(id)) as Film),
      invalidate: (id) => loader.invalidateCacheFor(id),
    };
  },
};

/** layered-loader by `getMany`, one MGET, behind a DataLoader a request; it does not coalesce loads. */
export const layeredLoaderMany: Contender = {
  name: "layered-loader getMany",
  kind: "peer",
  open: (equipment) => {
    const loader = createLoader(equipment);
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
