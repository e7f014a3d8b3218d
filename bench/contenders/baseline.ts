import DataLoader from "dataloader";
import type { Film } from "../source.js";
import type { Contender } from "./contender.js";

/** DataLoader with MGET and JSON, one loader per request: no coalescing, no leases, no stale values. */
export const baseline: Contender = {
  name: "DataLoader + MGET",
  kind: "baseline",
  open: ({ client, prefix, source, policy }) => {
    const batch = async (ids: readonly string[]): Promise<Film[]> => {
      const texts = await client.mget(ids.map((id) => `${prefix}:${id}`));
      const films = texts.map((text) => (text === null ? undefined : (JSON.parse(text) as Film)));
      const missing = ids.filter((_, index) => films[index] === undefined);
      if (missing.length > 0) {
        const loaded = await source.load(missing);
        const writes = client.pipeline();
        for (const film of loaded) writes.set(`${prefix}:${film.id}`, JSON.stringify(film), "EX", policy.maxAge);
        writes.exec().catch(() => undefined);
        let next = 0;
        for (const [index, film] of films.entries()) if (film === undefined) films[index] = loaded[next++];
      }
      return films as Film[];
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
