import type { Redis } from "ioredis";
import { instantMs, pause } from "../instant.js";
import { seededRandom } from "../seeded-random.js";

/** The cached value, about 290 bytes of JSON. `version` is the version in the database when the load began. */
export interface Film {
  readonly id: string;
  readonly title: string;
  readonly year: number;
  readonly rating: number;
  readonly cast: readonly { readonly name: string; readonly role: string }[];
  readonly version: number;
}

/** One load: its start and its number of keys. */
export interface Load {
  readonly at: number;
  readonly keys: number;
}

/** The simulated data source. Loads wait on a timer, so that they do not slow each other down, and are recorded. */
export class Source {
  loadMs = 0;
  readonly #database: Redis | undefined;
  #loads: Load[] = [];

  /** Reads versions from `version:<id>` in `database`. Without a database, every version is 0. */
  constructor(database?: Redis) {
    this.#database = database;
  }

  async load(ids: readonly string[]): Promise<Film[]> {
    this.#loads.push({ at: instantMs(), keys: ids.length });
    const database = this.#database;
    const versions = database === undefined ? [] : await Promise.all(ids.map((id) => database.get(`version:${id}`)));
    if (this.loadMs > 0) await pause(this.loadMs);
    return ids.map((id, nth) => filmOf(id, Number(versions[nth] ?? 0)));
  }

  async loadOne(id: string): Promise<Film> {
    const [film] = await this.load([id]);
    return film as Film;
  }

  /** Returns the loads since the previous call. */
  takeLoads(): Load[] {
    const loads = this.#loads;
    this.#loads = [];
    return loads;
  }
}

/** All that takes long is made once: a source that takes longer than a cache would hide what the cache costs. */
const FILMS = Array.from({ length: 1_024 }, (_, seed) => {
  const next = seededRandom(seed);
  const word = (): string => Math.floor(next() * 36 ** 8).toString(36);
  return {
    title: `${word()} ${word()} ${word()}`,
    year: 1920 + Math.floor(next() * 105),
    rating: Math.round(next() * 100) / 10,
    cast: Array.from({ length: 4 }, () => ({ name: `${word()} ${word()}`, role: word() })),
  };
});

/** Returns the film of an id; the same id gives the same film, in a new object. Films of several ids share their cast. */
export function filmOf(id: string, version: number): Film {
  let hash = 0;
  for (let at = 0; at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) | 0;
  const { title, year, rating, cast } = FILMS[(hash >>> 0) % FILMS.length] as (typeof FILMS)[number];
  return { id, title, year, rating, cast, version };
}
