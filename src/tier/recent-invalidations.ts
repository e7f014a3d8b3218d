import type { Clock } from "../clock.js";
import type { Names } from "./unconfirmed-invalidations.js";

/** How long an invalidation may take to reach the replicas of a store that loses its master. */
const RECENT_MS = 60_000;
/** Limit for keys and for tags. Beyond it the oldest are dropped early. */
const MAX_NAMES = 10_000;

/**
 * The invalidations of this process in the last minute. A store that has failed over to a replica,
 * or was restarted with older data, may have lost them, so they are repeated. Repeating one that
 * was not lost costs one load at most.
 */
export class RecentInvalidations {
  readonly #clock: Clock;
  /** When each name was last invalidated, oldest first. */
  readonly #keys = new Map<string, number>();
  readonly #tags = new Map<string, number>();
  /** The keys whose last invalidation was soft. */
  readonly #softKeys = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A key that was invalidated hard stays so: its soft invalidation would bring a lost value back. */
  add({ keys, tags }: Names, isSoft = false): void {
    const now = this.#clock.now();
    const isHard = (key: string): boolean => now - (this.#keys.get(key) ?? Number.NEGATIVE_INFINITY) < RECENT_MS;
    if (!isSoft) for (const key of keys) this.#softKeys.delete(key);
    for (const [recent, names] of [
      [isSoft ? this.#softKeys : this.#keys, isSoft ? keys.filter((key) => !isHard(key)) : keys],
      [this.#tags, tags],
    ] as const) {
      for (const name of names) {
        recent.delete(name);
        recent.set(name, now);
      }
      for (const [name, at] of recent) {
        if (now - at < RECENT_MS && recent.size <= MAX_NAMES) break;
        recent.delete(name);
      }
    }
  }

  /** Returns the names that were invalidated hard, and the keys that were invalidated soft. */
  names(): Names & { readonly softKeys: readonly string[] } {
    const since = this.#clock.now() - RECENT_MS;
    const namesSince = (recent: ReadonlyMap<string, number>): string[] =>
      [...recent].filter(([, at]) => at > since).map(([name]) => name);
    return { keys: namesSince(this.#keys), tags: namesSince(this.#tags), softKeys: namesSince(this.#softKeys) };
  }
}
