import DataLoader from "dataloader";
import { type Contender, MAX_AGE_S } from "./contender.js";
import type { Film } from "./source.js";

/** DataLoader with MGET and JSON, one loader per request. No coalescing, no leases, no protection. */
export const byHand: Contender = {
  name: "by hand",
  open: ({ client, prefix, source }) => {
    const keyOf = (id: string): string => `${prefix}:${id}`;
    const batch = async (ids: readonly string[]): Promise<Film[]> => {
      const texts = await client.mget(ids.map(keyOf));
      const films = texts.map((text) => (text === null ? undefined : (JSON.parse(text) as Film)));
      const missing = ids.filter((_, nth) => films[nth] === undefined);
      if (missing.length === 0) return films as Film[];
      const loaded = await source.load(missing);
      const writes = client.pipeline();
      for (const [nth, id] of missing.entries()) writes.set(keyOf(id), JSON.stringify(loaded[nth]), "EX", MAX_AGE_S);
      writes.exec().catch(() => undefined);
      let next = 0;
      return films.map((film) => film ?? (loaded[next++] as Film));
    };
    return {
      request: () => {
        const loader = new DataLoader<string, Film>(batch);
        return (id) => loader.load(id);
      },
      invalidate: (id) => client.del(keyOf(id)),
    };
  },
};
