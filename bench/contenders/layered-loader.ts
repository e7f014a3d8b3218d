import DataLoader from "dataloader";
import { Loader, RedisCache } from "layered-loader";
import type { Film } from "../source.js";
import type { Contender, Equipment } from "./contender.js";

const idOf = (film: Film): string => film.id;

/** On Redis alone. What it has for stale values is a refresh ahead of expiry, so the stale window is the last part of an entry's life. */
function createLoader({ client, prefix, source, keeping }: Equipment): Loader<Film> {
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
