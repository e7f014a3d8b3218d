import type { Redis } from "ioredis";
import { chance } from "./chance.js";
import { instantMs, pause } from "./instant.js";

/** What is cached: about 300 bytes of JSON. `version` is what the database held when the load began. */
export interface Film {
  readonly id: string;
  readonly title: string;
  readonly year: number;
  readonly rating: number;
  readonly cast: readonly { readonly name: string; readonly role: string }[];
  readonly version: number;
}

/** One call of the source: when it began, and for how many keys. */
export interface Load {
  readonly at: number;
  readonly keys: number;
}

/** How the source behaves. */
export interface SourceSettings {
  readonly loadMs: number;
  readonly fails: boolean;
}

/** The thing behind the cache: it takes its time on a timer, so that nobody's load slows down another's, and remembers its loads. */
export class Source {
  settings: SourceSettings = { loadMs: 0, fails: false };
  readonly #database: Redis | undefined;
  #loads: Load[] = [];

  /** Versions come from `database`, as `version:<id>`; without one, every version is 0. */
  constructor(database: Redis | undefined) {
    this.#database = database;
  }

  async load(ids: readonly string[]): Promise<Film[]> {
    this.#loads.push({ at: instantMs(), keys: ids.length });
    const versions = await Promise.all(ids.map((id) => this.#database?.get(`version:${id}`) ?? "0"));
    const { loadMs, fails } = this.settings;
    if (loadMs > 0) await pause(loadMs);
    if (fails) throw new Error("the source fails, as it was told to");
    return ids.map((id, index) => makeFilm(id, Number(versions[index])));
  }

  async loadOne(id: string): Promise<Film> {
    const [film] = await this.load([id]);
    return film as Film;
  }

  /** The loads since it was last asked. */
  takeLoads(): Load[] {
    const loads = this.#loads;
    this.#loads = [];
    return loads;
  }
}

function makeFilm(id: string, version: number): Film {
  let hash = 0;
  for (let at = 0; at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) | 0;
  const next = chance(hash);
  const word = (): string => Math.floor(next() * 36 ** 8).toString(36);
  return {
    id,
    title: `${word()} ${word()} ${word()}`,
    year: 1920 + Math.floor(next() * 105),
    rating: Math.round(next() * 100) / 10,
    cast: Array.from({ length: 4 }, () => ({ name: `${word()} ${word()}`, role: word() })),
    version,
  };
}
