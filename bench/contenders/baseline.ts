import DataLoader from "dataloader";
import type { Film } from "../source.js";
import type { Contender, ContenderOptions } from "./contender.js";

/** The floor: DataLoader with MGET and JSON, one loader per request. No coalescing, no leases, no stale values. */
export const baseline: Contender = {
  name: "DataLoader + MGET",
  kind: "floor",
  module: "contenders/baseline",
  open: (options) => openDataLoader(options, (id) => `${options.prefix}:${id}`),
};

/** Opens DataLoader with MGET, with the given names of keys. */
export function openDataLoader(
  { client, source, policy }: ContenderOptions,
  keyOf: (id: string) => string,
): ReturnType<Contender["open"]> {
  const batch = async (ids: readonly string[]): Promise<Film[]> => {
    const names = ids.map(keyOf);
    const texts = await client.mget(names);
    const films = texts.map((text) => (text === null ? undefined : (JSON.parse(text) as Film)));
    const missing = [...films.keys()].filter((index) => films[index] === undefined);
    if (missing.length > 0) {
      const loaded = await source.load(missing.map((index) => ids[index] as string));
      const writes = client.pipeline();
      for (const [nth, index] of missing.entries()) {
        films[index] = loaded[nth];
        writes.set(names[index] as string, JSON.stringify(loaded[nth]), "EX", policy.maxAge);
      }
      writes.exec().catch(() => undefined);
    }
    return films as Film[];
  };
  return {
    request: () => {
      const loader = new DataLoader<string, Film>(batch);
      return (id) => loader.load(id);
    },
    invalidate: (id) => client.del(keyOf(id)),
  };
}

/** The floor on a Cluster, where one MGET cannot have keys of several slots: DataLoader with one GET per key. */
export const clusterBaseline: Contender = {
  name: "DataLoader + GETs",
  kind: "floor",
  module: "contenders/baseline",
  open: ({ client, prefix, source, policy }) => {
    const batch = async (ids: readonly string[]): Promise<Film[]> => {
      const texts = await Promise.all(ids.map((id) => client.get(`${prefix}:${id}`)));
      return Promise.all(
        texts.map(async (text, index) => {
          if (text !== null) return JSON.parse(text) as Film;
          const film = await source.loadOne(ids[index] as string);
          await client.set(`${prefix}:${film.id}`, JSON.stringify(film), "EX", policy.maxAge);
          return film;
        }),
      );
    };
    return {
      request: () => {
        const loader = new DataLoader<string, Film>(batch);
        return (id) => loader.load(id);
      },
      invalidate: (id) => client.del(`${prefix}:${id}`),
    };
  },
};
