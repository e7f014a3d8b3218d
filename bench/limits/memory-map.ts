import type { Contender } from "../contenders/contender.js";
import type { Film } from "../source.js";

/** The least that a near cache does on a hit: a look into a Map, and the time. No invalidation by other processes. */
export const memoryMap: Contender = {
  name: "bare: Map with expiry",
  kind: "limit",
  module: "limits/memory-map",
  open: ({ source, policy }) => {
    const entries = new Map<string, { readonly film: Film; readonly expiresAt: number }>();
    const load = async (id: string): Promise<Film> => {
      const film = await source.loadOne(id);
      entries.set(id, { film, expiresAt: Date.now() + policy.maxAge * 1_000 });
      return film;
    };
    const read = (id: string): Promise<Film> => {
      const entry = entries.get(id);
      return entry !== undefined && entry.expiresAt > Date.now() ? Promise.resolve(entry.film) : load(id);
    };
    return { request: () => read, invalidate: async (id) => entries.delete(id) };
  },
};
