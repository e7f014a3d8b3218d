import type { Redis } from "ioredis";
import type { Film } from "../source.js";
import { digestKey } from "./digest-key.js";

/** A field that waits for its value, and what its resolver needs if there is none. */
interface Read {
  readonly load: () => Promise<Film>;
  readonly resolve: (film: Film | Promise<Film>) => void;
}

/**
 * The least that a cached field costs on Redis: a text of its parent object and its arguments, whose digest is the key, one MGET
 * for all fields of a tick, and one promise per field. No freshness, no events, no protection.
 */
export class FieldReader {
  readonly #client: Redis;
  readonly #prefix: string;
  readonly #maxAgeS: number;
  /** The reads of this tick, by the text of their key. */
  #groups = new Map<string, Read[]>();

  constructor(client: Redis, prefix: string, maxAgeS: number) {
    this.#client = client;
    this.#prefix = prefix;
    this.#maxAgeS = maxAgeS;
  }

  /** Returns the value of a field, which `load` loads if it is not stored. */
  read(key: string, load: () => Promise<Film>): Promise<Film> {
    return new Promise((resolve) => {
      const group = this.#groups.get(key);
      if (group !== undefined) {
        group.push({ load, resolve });
        return;
      }
      if (this.#groups.size === 0) void Promise.resolve().then(() => process.nextTick(this.#flush));
      this.#groups.set(key, [{ load, resolve }]);
    });
  }

  readonly #flush = (): void => {
    const names = Array.from(this.#groups.keys(), (key) => digestKey(this.#prefix, key));
    const groups = [...this.#groups.values()];
    this.#groups = new Map();
    this.#client.mget(names).then(
      (texts) => {
        for (const [nth, reads] of groups.entries()) this.#answer(names[nth] as string, texts[nth] ?? null, reads);
      },
      () => {
        for (const { load, resolve } of groups.flat()) resolve(load());
      },
    );
  };

  #answer(name: string, text: string | null, reads: readonly Read[]): void {
    for (const { load, resolve } of reads)
      resolve(text === null ? this.#store(name, load()) : (JSON.parse(text) as Film));
  }

  async #store(name: string, loading: Promise<Film>): Promise<Film> {
    const film = await loading;
    this.#client.set(name, JSON.stringify(film), "EX", this.#maxAgeS).catch(() => undefined);
    return film;
  }
}
