import { randomBytes } from "node:crypto";
import type { Cancel, Clock } from "../clock.js";
import type { Store } from "../store/store.js";
import type { Flights } from "./flights.js";
import type { TierSettings } from "./settings.js";

/** What is to be invalidated, by names in the store. */
export interface Names {
  readonly keys: readonly string[];
  readonly tags: readonly string[];
}

/** What could not be invalidated is tried again this often. */
const REPEAT_MS = 250;
/** Beyond this many kept names the oldest are given up; their entries end by their ttl. */
const MAX_KEPT = 10_000;

/** Invalidates keys and tags, in the store and in this process, and runs writes inside a bracket. */
export class Invalidation {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #flights: Flights;
  readonly #settings: TierSettings;
  readonly #kept = { keys: new Set<string>(), tags: new Set<string>() };
  #repeat: Cancel | undefined;

  constructor(store: Store, clock: Clock, flights: Flights, settings: TierSettings) {
    this.#store = store;
    this.#clock = clock;
    this.#flights = flights;
    this.#settings = settings;
  }

  /**
   * Resolves once no reader that starts now can get a value loaded before.
   * Errors: `CACHED_STORE_UNAVAILABLE` if the store has not said so; the invalidation is then kept, and repeated until it has.
   */
  async run({ keys, tags }: Names): Promise<void> {
    this.#detach({ keys, tags });
    const results = await Promise.allSettled([
      keys.length === 0 ? undefined : this.#store.invalidate(keys),
      tags.length === 0 ? undefined : this.#store.invalidateTags(tags, this.#settings.loadTimeoutMs),
    ]);
    this.#detach({ keys, tags });
    const [ofKeys, ofTags] = results;
    this.#keep({ keys: ofKeys.status === "rejected" ? keys : [], tags: ofTags.status === "rejected" ? tags : [] });
    const failed = results.find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason as Error;
  }

  /**
   * Runs `write` while a fence stands: what was stored is gone before it begins, and what is loaded during it is not stored, also if this
   * process dies on the way, for `fenceMs`. Rejects with the write's own error only; a store that does not answer is no reason not to write.
   */
  async around<T>(names: Names, write: () => T | PromiseLike<T>): Promise<T> {
    const fenced = [...names.keys, ...names.tags];
    const writer = randomBytes(16).toString("latin1");
    await this.run(names).catch(() => undefined);
    await this.#store.openFence(fenced, writer, this.#settings.fenceMs).catch(() => undefined);
    try {
      return await write();
    } finally {
      // Both, and in this order: the fence keeps the tags' nonces from changing, the note in the record stops fills that began in the bracket.
      await this.run(names).catch(() => undefined);
      await this.#store.closeFence(fenced, writer).catch(() => this.#keep(names));
    }
  }

  close(): void {
    this.#repeat?.();
  }

  #detach({ keys, tags }: Names): void {
    this.#flights.detach(tags.length > 0 ? undefined : keys);
  }

  #keep({ keys, tags }: Names): void {
    for (const [kept, names] of [
      [this.#kept.keys, keys],
      [this.#kept.tags, tags],
    ] as const)
      for (const name of names) {
        kept.delete(name);
        kept.add(name);
        const [oldest] = kept;
        if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
      }
    if (this.#kept.keys.size + this.#kept.tags.size > 0)
      this.#repeat ??= this.#clock.after(REPEAT_MS, () => this.#repeatKept());
  }

  #repeatKept(): void {
    this.#repeat = undefined;
    const names = { keys: [...this.#kept.keys], tags: [...this.#kept.tags] };
    this.#kept.keys.clear();
    this.#kept.tags.clear();
    // What fails again is kept again.
    this.run(names).catch(() => undefined);
  }
}
