import type { Clock } from "../clock.js";
import type { Names } from "./unconfirmed-invalidations.js";

/** How long an invalidation may take to reach the copies of a store that loses its master. */
const RECENT_MS = 60_000;
/** Beyond this many names the oldest are forgotten early. */
const MAX_RECENT = 10_000;

/**
 * What this process has invalidated in the last minute. A store that has failed over to a copy, or was restarted with older data, may not
 * know of it any more, so it is told again: an invalidation too many costs a load at most.
 */
export class RecentInvalidations {
  readonly #clock: Clock;
  readonly #at = { keys: new Map<string, number>(), tags: new Map<string, number>() };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  note({ keys, tags }: Names): void {
    const now = this.#clock.now();
    for (const [noted, names] of [
      [this.#at.keys, keys],
      [this.#at.tags, tags],
    ] as const) {
      for (const name of names) {
        noted.delete(name);
        noted.set(name, now);
      }
      // In the order of their times, so the first that is recent enough ends it.
      for (const [name, at] of noted) {
        if (now - at < RECENT_MS && noted.size <= MAX_RECENT) break;
        noted.delete(name);
      }
    }
  }

  all(): Names {
    const since = this.#clock.now() - RECENT_MS;
    const recent = (noted: ReadonlyMap<string, number>): string[] =>
      [...noted].filter(([, at]) => at > since).map(([name]) => name);
    return { keys: recent(this.#at.keys), tags: recent(this.#at.tags) };
  }
}
