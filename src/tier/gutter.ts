import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.js";
import type { Names } from "./kept-names.js";
import type { Loaded } from "./loads.js";

/** A load without a lease, and until when its result counts; undefined while it runs. */
interface Unleased {
  readonly loaded: Promise<Loaded>;
  untilAt: number | undefined;
}

/** So many results are kept at most; the least recently used go first. */
const MAX_KEPT = 1_000;

/**
 * Where loads go that have no lease, since the store is away or a wait was too long: a key is loaded once at a time in a process, and for a
 * moment afterwards what was loaded is kept, so that an outage of the store does not become one of the source.
 * Source: "Scaling Memcache at Facebook", NSDI 2013, §3.3, on gutter servers.
 */
export class Gutter {
  readonly #clock: Clock;
  readonly #byKey = new LRUCache<string, Unleased>({ max: MAX_KEPT });

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** What is being loaded or was loaded less than `keepMs` ago; else what `begin` loads. Failures, and values that cannot be stored, are not kept. */
  shared(key: string, keepMs: number, begin: () => Promise<Loaded>): Promise<Loaded> {
    const known = this.#byKey.get(key);
    if (known !== undefined && (known.untilAt === undefined || this.#clock.now() < known.untilAt)) return known.loaded;
    const unleased: Unleased = { loaded: begin(), untilAt: undefined };
    this.#byKey.set(key, unleased);
    void unleased.loaded.then((loaded) => {
      const mayKeep = keepMs > 0 && loaded.kind === "loaded" && loaded.content !== undefined;
      unleased.untilAt = this.#clock.now() + (mayKeep ? keepMs : 0);
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
