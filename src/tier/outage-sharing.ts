import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.js";
import type { Loaded } from "./loaded.js";
import type { Names } from "./unconfirmed-invalidations.js";

/** A load without a lease. */
interface UnleasedLoad {
  readonly loaded: Promise<Loaded>;
  readonly startedAt: number;
}

/** Maximum number of shared loads. The least recently used are dropped first. */
const MAX_LOADS = 1_000;

/**
 * Shares loads that have no lease, because the store is unavailable or the wait for another load
 * was too long: a request for the same key soon after the start of such a load gets its result.
 * This keeps an outage of the store from overloading the source.
 *
 * Meanwhile this process cannot know what other processes have invalidated. The time is therefore
 * counted from the start of the load: no shared result is older than `outageShareMs`.
 *
 * Source: "Scaling Memcache at Facebook", NSDI 2013, §3.3, on handling failures.
 */
export class OutageSharing {
  readonly #clock: Clock;
  readonly #outageShareMs: number;
  readonly #byKey = new LRUCache<string, UnleasedLoad>({ max: MAX_LOADS });

  constructor(clock: Clock, outageShareMs: number) {
    this.#clock = clock;
    this.#outageShareMs = outageShareMs;
  }

  /**
   * Returns the load of `key` that began at most `outageShareMs` and at most `maxAgeMs` ago, or
   * calls `begin` and shares its load. Failures and values that cannot be stored are shared only
   * while they load.
   */
  share(key: string, maxAgeMs: number, begin: () => Promise<Loaded>): Promise<Loaded> {
    const now = this.#clock.now();
    const recent = this.#byKey.get(key);
    if (recent !== undefined && now - recent.startedAt <= Math.min(this.#outageShareMs, maxAgeMs)) return recent.loaded;
    const load: UnleasedLoad = { loaded: begin(), startedAt: now };
    this.#byKey.set(key, load);
    void load.loaded.then((loaded) => {
      const canShare = loaded.kind === "loaded" && loaded.refusal === undefined;
      if (!canShare && this.#byKey.get(key) === load) this.#byKey.delete(key);
    });
    return load.loaded;
  }

  /**
   * Called on an invalidation: later requests do not join loads that began before it. A tag
   * detaches all loads, since their tags are not known.
   */
  detach({ keys, tags }: Names): void {
    if (tags.length > 0) this.#byKey.clear();
    else for (const key of keys) this.#byKey.delete(key);
  }
}
