import type { Redis } from "ioredis";
import { instantMs, pause } from "./instant.js";
import { seededRandom } from "./seeded-random.js";

/** The cached value, about 300 bytes of JSON. `version` is the version in the database when the load began. */
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

/** The behaviour of the source. */
export interface SourceSettings {
  readonly loadMs: number;
  readonly fails: boolean;
  /** The approximate size of a value's JSON. Default: about 290 bytes. */
  readonly valueBytes?: number;
}

/** The simulated data source. Loads wait on a timer, so that they do not slow each other down, and are recorded. */
export class Source {
  settings: SourceSettings = { loadMs: 0, fails: false };
  readonly #database: Redis | undefined;
  readonly #films = new FilmMaker();
  #loads: Load[] = [];

  /** Reads versions from `version:<id>` in `database`. Without a database, every version is 0. */
  constructor(database: Redis | undefined) {
    this.#database = database;
  }

  async load(ids: readonly string[]): Promise<Film[]> {
    this.#loads.push({ at: instantMs(), keys: ids.length });
    const database = this.#database;
    const versions = database === undefined ? [] : await Promise.all(ids.map((id) => database.get(`version:${id}`)));
    const { loadMs, fails, valueBytes } = this.settings;
    if (loadMs > 0) await pause(loadMs);
    if (fails) throw new Error("simulated source failure");
    return ids.map((id, index) => this.#films.make(id, Number(versions[index] ?? 0), valueBytes));
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

/** The JSON of a film without cast, and of one member of the cast, in bytes. */
const FILM_BYTES = 85;
const ROLE_BYTES = 51;
/** How many different films there are of one size, except for their ids, and how many bytes of JSON they have at most. */
const DIFFERENT_FILMS = 1_024;
const DIFFERENT_BYTES = 4_000_000;

/**
 * Makes films. All that takes long is made once per size: a source that takes longer than a cache would hide what the cache costs.
 * The films of several ids share their cast.
 */
export class FilmMaker {
  readonly #filmsOfSize = new Map<number, readonly Film[]>();

  /** Returns the film of an id; the same id gives the same film, in a new object. */
  make(id: string, version: number, valueBytes = FILM_BYTES + 4 * ROLE_BYTES): Film {
    let films = this.#filmsOfSize.get(valueBytes);
    if (films === undefined) {
      const count = Math.max(4, Math.min(DIFFERENT_FILMS, Math.round(DIFFERENT_BYTES / valueBytes)));
      films = Array.from({ length: count }, (_, seed) => makeFilm(seed, valueBytes));
      this.#filmsOfSize.set(valueBytes, films);
    }
    let hash = 0;
    for (let at = 0; at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) | 0;
    const { title, year, rating, cast } = films[(hash >>> 0) % films.length] as Film;
    return { id, title, year, rating, cast, version };
  }
}

function makeFilm(seed: number, valueBytes: number): Film {
  const next = seededRandom(seed);
  const word = (): string => Math.floor(next() * 36 ** 8).toString(36);
  return {
    id: "",
    title: `${word()} ${word()} ${word()}`,
    year: 1920 + Math.floor(next() * 105),
    rating: Math.round(next() * 100) / 10,
    cast: Array.from({ length: Math.max(0, Math.round((valueBytes - FILM_BYTES) / ROLE_BYTES)) }, () => ({
      name: `${word()} ${word()}`,
      role: word(),
    })),
    version: 0,
  };
}
