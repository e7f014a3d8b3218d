import type { Redis } from "ioredis";
import { instantMs, pause } from "../instant.js";
import { seededRandom } from "../seeded-random.js";

/** The cached value. `version` is the version in the database when the load began. */
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
  /** The approximate size of a value as JSON. */
  valueBytes = 290;
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
    const castSize = Math.max(0, Math.round((this.valueBytes - FILM_BYTES) / MEMBER_BYTES));
    return ids.map((id, nth) => filmOf(id, Number(versions[nth] ?? 0), castSize));
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

const CAST_SIZE = 4;
/** The JSON of a film without its cast, and of a member of the cast. */
const FILM_BYTES = 103;
const MEMBER_BYTES = 46;

/** All that takes long is made once: a source that takes longer than a cache would hide what the cache costs. */
const FILMS = Array.from({ length: 1_024 }, (_, seed) => {
  const next = seededRandom(seed);
  const word = (): string => Math.floor(next() * 36 ** 8).toString(36);
  return {
    title: `${word()} ${word()} ${word()}`,
    year: 1920 + Math.floor(next() * 105),
    rating: Math.round(next() * 100) / 10,
    cast: Array.from({ length: CAST_SIZE }, () => ({ name: `${word()} ${word()}`, role: word() })),
  };
});

const MEMBERS = FILMS.flatMap(({ cast }) => cast);

/** Returns the film of an id; the same id gives the same film, in a new object. Films of several ids share their cast. */
export function filmOf(id: string, version: number, castSize = CAST_SIZE): Film {
  let hash = 0;
  for (let at = 0; at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) | 0;
  const nth = (hash >>> 0) % FILMS.length;
  const film = FILMS[nth] as (typeof FILMS)[number];
  const first = nth % (MEMBERS.length - castSize);
  return { id, ...film, cast: castSize === CAST_SIZE ? film.cast : MEMBERS.slice(first, first + castSize), version };
}
