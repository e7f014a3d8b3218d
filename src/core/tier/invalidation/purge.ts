import { type Clock, within } from "../../base/clock.js";
import { CachedError } from "../../base/errors.js";
import { nameOfSubject, type Subject } from "../../keys/key.js";
import type { Channel } from "../../telemetry/channel.js";

/** What a CDN is to forget, after an invalidation by this process. */
export interface Purge {
  /** As in the headers `Cache-Tag` and `Surrogate-Key`: every response with any of them. */
  readonly tags: readonly string[];
  /** Whether the invalidation was a soft one: old responses may be served while they are fetched again. */
  readonly isSoft: boolean;
  /** Aborts when the purge is given up, after `purgeTimeoutMs`. */
  readonly signal: AbortSignal;
}

/** Purges a CDN. What it returns is awaited before the invalidation resolves, and thereby before a mutation is answered. */
export type PurgeFunction = (purge: Purge) => unknown;

/** The parts that `Purger` uses. */
export interface PurgerParts {
  readonly clock: Clock;
  readonly channel: Channel;
  readonly settings: { readonly purge: PurgeFunction | undefined; readonly purgeTimeoutMs: number };
}

/** Has what was invalidated purged from CDNs. What goes wrong is published, and fails nothing. */
export class Purger {
  readonly #parts: PurgerParts;

  constructor(parts: PurgerParts) {
    this.#parts = parts;
  }

  /** Never rejects. */
  async run(subjects: readonly Subject[], isSoft: boolean): Promise<void> {
    const { clock, channel, settings } = this.#parts;
    const { purge, purgeTimeoutMs } = settings;
    if (purge === undefined || subjects.length === 0) return;
    const tags = subjects.map(nameOfSubject);
    const controller = new AbortController();
    const otherwise = (): never => {
      const error = new CachedError(
        "CACHED_PURGE_TIMEOUT",
        `invalidation.purge: expected it to end within ${purgeTimeoutMs} ms; purge in the background, or raise \`purgeTimeoutMs\``,
      );
      controller.abort(error);
      throw error;
    };
    try {
      const purging = (async () => purge({ tags, isSoft, signal: controller.signal }))();
      await within(clock, purging, { ms: purgeTimeoutMs, otherwise });
    } catch (error) {
      channel.publish({ name: "purge.failed", tagCount: tags.length, error });
    }
  }
}
