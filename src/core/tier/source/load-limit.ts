import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";

/** How many loads of one key a process runs at a time. */
const MAX_LOADS_OF_A_KEY = 2;

/** How often a reader that waits for a place looks whether another process has loaded meanwhile. */
const RECHECK_MS = 100;

/**
 * Bounds the loads of one key in this process. An invalidation makes the lease of a load void but
 * does not end the load itself, and later readers must not join it. Without a limit, a key that is
 * invalidated again and again while it loads would be loaded as often at the same time.
 *
 * The second load begins at once, so that a reader does not wait for a load that began before an
 * invalidation. Readers that would begin a third wait until one of the two ends, and then share the
 * next. A load that runs for longer than `leaseMs` no longer counts, since it may never end. Loads
 * that cannot be shared, and those inside a load of the same key, are not limited.
 */
export class LoadLimit {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  /** When the running loads began, by key. */
  readonly #running = new Map<string, { readonly startedAt: number }[]>();
  readonly #waits = new Map<string, { readonly over: Promise<void>; end(): void }>();

  constructor(clock: Clock, { leaseMs }: { readonly leaseMs: number }) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  /** Counts a load of `key` that begins now and runs until `ended`, which never rejects. */
  add(key: string, ended: Promise<unknown>): void {
    const load = { startedAt: this.#clock.now() };
    this.#running.set(key, [...(this.#running.get(key) ?? []), load]);
    void ended.then(() => {
      const others = (this.#running.get(key) ?? []).filter((other) => other !== load);
      if (others.length === 0) this.#running.delete(key);
      else this.#running.set(key, others);
      this.#waits.get(key)?.end();
    });
  }

  isReached(key: string): boolean {
    const running = this.#running.get(key);
    if (running === undefined || running.length < MAX_LOADS_OF_A_KEY) return false;
    const since = this.#clock.now() - this.#leaseMs;
    return running.filter(({ startedAt }) => startedAt > since).length >= MAX_LOADS_OF_A_KEY;
  }

  /** Resolves when a load of `key` has ended, or after a short while. All readers of a key share it. */
  untilChanged(key: string): Promise<void> {
    const existing = this.#waits.get(key);
    if (existing !== undefined) return existing.over;
    const { promise: over, resolve } = new Deferred<void>();
    const cancel = this.#clock.after(RECHECK_MS, () => wait.end());
    const wait = {
      over,
      end: () => {
        cancel();
        this.#waits.delete(key);
        resolve();
      },
    };
    this.#waits.set(key, wait);
    return over;
  }
}
