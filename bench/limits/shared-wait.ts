import { randomUUID } from "node:crypto";
import type { Contender, ContenderOptions } from "../contenders/contender.js";
import { pause } from "../instant.js";
import type { Film } from "../source.js";
import { copyJson } from "./copy-json.js";
import { digestKey } from "./digest-key.js";

const LOCK_MS = 3_000;
/** How long a wait is without a message, before the store is read again. */
const PATIENCE_MS = 1_000;

interface Wait {
  readonly id: string;
  readonly resolve: (film: Film) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The least that coordinates the loads of several processes: one wait per key and process, a lock by SET NX for all missing
 * keys of a tick in one pipeline, and one message with the loaded values. A crash, an invalidation or a lost message is
 * nobody's business here.
 */
class SharedWait {
  readonly #options: ContenderOptions;
  readonly #channel: string;
  readonly #running = new Map<string, Promise<Film>>();
  readonly #waits = new Map<string, Wait>();
  #pending: Wait[] = [];

  constructor(options: ContenderOptions) {
    this.#options = options;
    this.#channel = `${options.prefix}:loaded`;
    const subscriber = options.client.duplicate({ enableOfflineQueue: true, lazyConnect: false });
    subscriber.on("error", () => undefined);
    subscriber.subscribe(this.#channel).catch(() => undefined);
    subscriber.on("message", (_channel, text) => {
      for (const film of JSON.parse(text) as Film[]) this.#waits.get(film.id)?.resolve(film);
    });
  }

  /** Each caller but the first gets a copy. */
  readonly read = (id: string): Promise<Film> => {
    const running = this.#running.get(id);
    if (running !== undefined) return running.then(copyJson);
    const promise = new Promise<Film>((resolve, reject) => {
      if (this.#pending.length === 0) void Promise.resolve().then(() => process.nextTick(this.#flush));
      const end = (): void => {
        this.#running.delete(id);
        this.#waits.delete(id);
      };
      this.#pending.push({
        id,
        resolve: (film) => {
          end();
          resolve(film);
        },
        reject: (error) => {
          end();
          reject(error);
        },
      });
    });
    this.#running.set(id, promise);
    return promise;
  };

  readonly #flush = (): void => {
    const waits = this.#pending;
    this.#pending = [];
    this.#resolve(waits).catch((error: unknown) => {
      for (const { reject } of waits) reject(error);
    });
  };

  async #resolve(waits: readonly Wait[]): Promise<void> {
    const { client, prefix } = this.#options;
    const texts = await client.mget(waits.map(({ id }) => digestKey(prefix, id)));
    const missing: Wait[] = [];
    for (const [nth, wait] of waits.entries()) {
      const text = texts[nth];
      if (typeof text === "string") wait.resolve(JSON.parse(text) as Film);
      else missing.push(wait);
    }
    if (missing.length === 0) return;
    // Waiting begins before the lock is requested, so that no message comes too early.
    for (const wait of missing) this.#waits.set(wait.id, wait);
    const lock = randomUUID();
    const locks = client.pipeline();
    for (const { id } of missing) locks.set(`${prefix}:lock:${id}`, lock, "PX", LOCK_MS, "NX");
    const replies = (await locks.exec()) ?? [];
    const [granted, refused]: [Wait[], Wait[]] = [[], []];
    for (const [nth, wait] of missing.entries()) (replies[nth]?.[1] === "OK" ? granted : refused).push(wait);
    if (granted.length > 0) await this.#load(granted);
    for (const wait of refused) void this.#readLater(wait);
  }

  async #load(waits: readonly Wait[]): Promise<void> {
    const { client, prefix, source, policy } = this.#options;
    const films = await source.load(waits.map(({ id }) => id));
    for (const [nth, { resolve }] of waits.entries()) resolve(films[nth] as Film);
    const writes = client.pipeline();
    for (const film of films) writes.set(digestKey(prefix, film.id), JSON.stringify(film), "EX", policy.maxAge);
    writes.publish(this.#channel, JSON.stringify(films));
    writes.exec().catch(() => undefined);
  }

  async #readLater(wait: Wait): Promise<void> {
    await pause(PATIENCE_MS);
    if (this.#waits.get(wait.id) !== wait) return;
    this.#pending.push(wait);
    this.#flush();
  }
}

/** Coordinated loads without any guarantee. */
export const sharedWait: Contender = {
  name: "bare: lock and one wait a key",
  kind: "limit",
  module: "limits/shared-wait",
  open: (options) => {
    const shared = new SharedWait(options);
    return { request: () => shared.read, invalidate: (id) => options.client.del(digestKey(options.prefix, id)) };
  },
};
