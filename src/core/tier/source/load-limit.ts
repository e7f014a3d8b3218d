import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import { Multimap } from "../../base/multimap.js";

/**
 * Bounds the loads of one key in this process: one that is invalidated again and again would be loaded as often at the same time, since later
 * readers must not join. The second load begins at once; readers that would begin a third wait until one ends, and share the next. A load that
 * runs for longer than `leaseMs` does not count. Loads that cannot be shared, and those inside a load of the key, are not limited.
 */
export class LoadLimit {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #running = new Multimap<string, { readonly startedAt: number }>();
  readonly #waits = new Map<string, { readonly over: Promise<void>; end(): void }>();

  constructor(clock: Clock, { leaseMs }: { readonly leaseMs: number }) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  /** Counts a load of `key` that begins now and runs until `ended`, which never rejects. */
  add(key: string, ended: Promise<unknown>): void {
    const load = { startedAt: this.#clock.now() };
    this.#running.add(key, load);
    void ended.then(() => {
      this.#running.delete(key, load);
      this.#waits.get(key)?.end();
    });
  }

  isReached(key: string): boolean {
    const since = this.#clock.now() - this.#leaseMs;
    return this.#running.get(key).filter(({ startedAt }) => startedAt > since).length >= MAX_LOADS_OF_A_KEY;
  }

  /** Resolves when a load of `key` has ended, or after a short while. All readers of a key share it. */
  untilChanged(key: string): Promise<void> {
    const existing = this.#waits.get(key);
    if (existing !== undefined) return existing.over;
    const { promise, resolve: end } = new Deferred<void>();
    const cancel = this.#clock.after(RECHECK_MS, end);
    const over = promise.then(() => {
      cancel();
      this.#waits.delete(key);
    });
    this.#waits.set(key, { over, end });
    return over;
  }
}

const MAX_LOADS_OF_A_KEY = 2;

/** How often a reader that waits for a place looks whether another process has loaded meanwhile. */
const RECHECK_MS = 100;
