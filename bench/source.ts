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
    return ids.map((id, index) => makeFilm(id, Number(versions[index] ?? 0), valueBytes));
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

/** Returns the film of an id; the same id gives the same film. */
export function makeFilm(id: string, version: number, valueBytes = FILM_BYTES + 4 * ROLE_BYTES): Film {
  let hash = 0;
  for (let at = 0; at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) | 0;
  const next = seededRandom(hash);
  const word = (): string => Math.floor(next() * 36 ** 8).toString(36);
  return {
    id,
    title: `${word()} ${word()} ${word()}`,
    year: 1920 + Math.floor(next() * 105),
    rating: Math.round(next() * 100) / 10,
    cast: Array.from({ length: Math.max(0, Math.round((valueBytes - FILM_BYTES) / ROLE_BYTES)) }, () => ({
      name: `${word()} ${word()}`,
      role: word(),
    })),
    version,
  };
}
