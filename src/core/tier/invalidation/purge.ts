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

export interface PurgeSettings {
  readonly purge: PurgeFunction | undefined;
  readonly purgeTimeoutMs: number;
}

/** Has what was invalidated purged from CDNs. What goes wrong is published, and fails nothing. Never rejects. */
export async function purge(
  subjects: readonly Subject[],
  isSoft: boolean,
  { clock, channel, settings }: { readonly clock: Clock; readonly channel: Channel; readonly settings: PurgeSettings },
): Promise<void> {
  const { purgeTimeoutMs } = settings;
  if (settings.purge === undefined || subjects.length === 0) return;
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
    const purging = (async () => settings.purge?.({ tags, isSoft, signal: controller.signal }))();
    await within(clock, purging, { ms: purgeTimeoutMs, otherwise });
  } catch (error) {
    channel.publish({ name: "purge.failed", tagCount: tags.length, error });
  }
}
