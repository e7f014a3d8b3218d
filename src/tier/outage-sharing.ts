import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.js";
import type { Loaded } from "./loads.js";
import type { Names } from "./unconfirmed-invalidations.js";

/** A load without a lease. */
interface Unleased {
  readonly loaded: Promise<Loaded>;
  readonly startedAt: number;
}

/** So many results are kept at most; the least recently used go first. */
const MAX_KEPT = 1_000;

/**
 * Where loads go that have no lease, since the store is away or a wait was too long: who asks for a key soon after such a load has begun shares it,
 * so that an outage of the store does not become one of the source. Nobody can say meanwhile what other processes have invalidated, so
 * time is counted from the start of the load: what is shared is never older than `outageShareMs`.
 * Source: "Scaling Memcache at Facebook", NSDI 2013, §3.3, on outageSharing servers.
 */
export class OutageSharing {
  readonly #clock: Clock;
  readonly #outageShareMs: number;
  readonly #byKey = new LRUCache<string, Unleased>({ max: MAX_KEPT });

  constructor(clock: Clock, outageShareMs: number) {
    this.#clock = clock;
    this.#outageShareMs = outageShareMs;
  }

  /** What is being loaded or was loaded since less than `outageShareMs`, or `atMostMs`; else what `begin` loads. Failures, and values that cannot be stored, are not kept. */
  shared(key: string, atMostMs: number, begin: () => Promise<Loaded>): Promise<Loaded> {
    const now = this.#clock.now();
    const known = this.#byKey.get(key);
    if (known !== undefined && now - known.startedAt <= Math.min(this.#outageShareMs, atMostMs)) return known.loaded;
    const unleased: Unleased = { loaded: begin(), startedAt: now };
    this.#byKey.set(key, unleased);
    void unleased.loaded.then((loaded) => {
      const mayKeep = loaded.kind === "loaded" && loaded.content !== undefined;
      if (!mayKeep && this.#byKey.get(key) === unleased) this.#byKey.delete(key);
    });
    return unleased.loaded;
  }

  /** After an invalidation nobody joins what began before it. Which loads a tag concerns is not known, so it is all of them. */
  detach({ keys, tags }: Names): void {
    if (tags.length > 0) this.#byKey.clear();
    else for (const key of keys) this.#byKey.delete(key);
  }
}
