import type { Contender } from "../contenders/contender.js";
import type { Film } from "../source.js";

interface Entry {
  readonly film: Film;
  readonly expiresAt: number;
  /** How many invalidations there had been. */
  readonly invalidations: number;
}

/**
 * The least that a cache in process memory does on a hit: a look into a Map, the time, and whether anything was invalidated since
 * the entry was made.
 */
export class MemoryMap {
  invalidations = 0;
  readonly #entries = new Map<string, Entry>();
  readonly #maxAgeMs: number;

  constructor(maxAgeS: number) {
    this.#maxAgeMs = maxAgeS * 1_000;
  }

  get(key: string): Film | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && entry.invalidations === this.invalidations && entry.expiresAt > Date.now()
      ? entry.film
      : undefined;
  }

  set(key: string, film: Film): Film {
    this.#entries.set(key, { film, expiresAt: Date.now() + this.#maxAgeMs, invalidations: this.invalidations });
    return film;
  }
}

/** A near cache behind a loader. An invalidation drops all entries, and reaches no other process. */
export const memoryMap: Contender = {
  name: "bare: Map with expiry",
  kind: "limit",
  module: "limits/memory-map",
  open: ({ source, policy }) => {
    const entries = new MemoryMap(policy.maxAge);
    const load = async (id: string): Promise<Film> => entries.set(id, await source.loadOne(id));
    const read = (id: string): Promise<Film> => {
      const film = entries.get(id);
      return film === undefined ? load(id) : Promise.resolve(film);
    };
    return {
      request: () => read,
      invalidate: async () => {
        entries.invalidations++;
      },
    };
  },
};
