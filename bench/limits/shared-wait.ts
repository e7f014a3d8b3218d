import { randomUUID } from "node:crypto";
import type { Contender, ContenderOptions } from "../contenders/contender.js";
import { pause } from "../instant.js";
import type { Film } from "../source.js";
import { copyJson } from "./copy-json.js";
import { digestKey } from "./digest-key.js";

const LOCK_MS = 3_000;
/** How long a wait is without a message, before the store is read again. */
const PATIENCE_MS = 1_000;

/** The callers that get their value in one turn of the event loop. */
const SLICE = 2_500;

interface Caller {
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
  /** The callers of each key that is being read or loaded. */
  readonly #callers = new Map<string, Caller[]>();
  #pending: string[] = [];

  constructor(options: ContenderOptions) {
    this.#options = options;
    this.#channel = `${options.prefix}:loaded`;
    const subscriber = options.client.duplicate({ enableOfflineQueue: true, lazyConnect: false });
    subscriber.on("error", () => undefined);
    subscriber.subscribe(this.#channel).catch(() => undefined);
    subscriber.on("message", (_channel, text) => {
      this.#answer(JSON.parse(text) as Film[]);
    });
  }

  readonly read = (id: string): Promise<Film> =>
    new Promise((resolve, reject) => {
      const callers = this.#callers.get(id);
      if (callers !== undefined) {
        callers.push({ resolve, reject });
        return;
      }
      this.#callers.set(id, [{ resolve, reject }]);
      if (this.#pending.length === 0) void Promise.resolve().then(() => process.nextTick(this.#flush));
      this.#pending.push(id);
    });

  readonly #flush = (): void => {
    const ids = this.#pending;
    this.#pending = [];
    this.#resolve(ids).catch((error: unknown) => {
      for (const id of ids) for (const { reject } of this.#take(id)) reject(error);
    });
  };

  #take(id: string): Caller[] {
    const callers = this.#callers.get(id) ?? [];
    this.#callers.delete(id);
    return callers;
  }

  /** Each caller of a film but the first gets a copy. */
  #answer(films: readonly Film[]): void {
    const callers = films.map((film) => this.#take(film.id));
    const answerFrom = (at: number, from: number): void => {
      let left = SLICE;
      for (let film = films[at]; film !== undefined; at++, from = 0, film = films[at])
        for (const own = callers[at] as Caller[]; from < own.length; from++) {
          if (left-- === 0) {
            setImmediate(answerFrom, at, from);
            return;
          }
          own[from]?.resolve(from === 0 ? film : copyJson(film));
        }
    };
    answerFrom(0, 0);
  }

  async #resolve(ids: readonly string[]): Promise<void> {
    const { client, prefix } = this.#options;
    const texts = await client.mget(ids.map((id) => digestKey(prefix, id)));
    const found: Film[] = [];
    const missing: string[] = [];
    for (const [nth, id] of ids.entries()) {
      const text = texts[nth];
      if (typeof text === "string") found.push(JSON.parse(text) as Film);
      else missing.push(id);
    }
    this.#answer(found);
    if (missing.length === 0) return;
    const lock = randomUUID();
    const locks = client.pipeline();
    for (const id of missing) locks.set(`${prefix}:lock:${id}`, lock, "PX", LOCK_MS, "NX");
    const replies = (await locks.exec()) ?? [];
    const isGranted = (_: string, nth: number): boolean => replies[nth]?.[1] === "OK";
    const granted = missing.filter(isGranted);
    for (const [nth, id] of missing.entries()) if (!isGranted(id, nth)) void this.#readLater(id);
    if (granted.length > 0) await this.#load(granted);
  }

  async #load(ids: readonly string[]): Promise<void> {
    const { client, prefix, source, policy } = this.#options;
    const films = await source.load(ids);
    const writes = client.pipeline();
    for (const film of films) writes.set(digestKey(prefix, film.id), JSON.stringify(film), "EX", policy.maxAge);
    writes.publish(this.#channel, JSON.stringify(films));
    writes.exec().catch(() => undefined);
    this.#answer(films);
  }

  async #readLater(id: string): Promise<void> {
    await pause(PATIENCE_MS);
    if (!this.#callers.has(id)) return;
    this.#pending.push(id);
    if (this.#pending.length === 1) this.#flush();
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
