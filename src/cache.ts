import { systemClock, systemRandom } from "./clock.js";
import { createPacking } from "./codec/packing.js";
import { keyOfCoordinate } from "./directive/coordinate-key.js";
import { CachedError, describeSetting, messageOf } from "./errors.js";
import { createKeySpace } from "./keys/key.js";
import { RequestScopes } from "./loader/request-scope.js";
import { type CachedLoader, type LoaderOptions, userLoader } from "./loader/user-loader.js";
import { type CacheOptions, type Logger, resolveOptions } from "./options.js";
import { type CacheParts, type HasParts, PARTS } from "./parts.js";
import { FailOpenStore } from "./store/fail-open-store.js";
import { memoryStore } from "./store/memory-store.js";
import { Channel } from "./telemetry/channel.js";
import { Counters } from "./telemetry/counters.js";
import type { CacheEvent } from "./telemetry/events.js";
import { Invalidation } from "./tier/invalidate.js";
import { Leases } from "./tier/leases.js";
import { Loads } from "./tier/loads.js";
import { ReadThrough } from "./tier/read-through.js";
import { Serving } from "./tier/serving.js";
import { Waiting } from "./tier/waiting.js";

/** One entry of a cached field, by what its key is made of. */
export interface EntryTarget {
  /** The field, such as `Query.movie`. */
  readonly coordinate: string;
  /** Its arguments, as JSON would have them; defaults are applied. */
  readonly args?: Readonly<Record<string, unknown>>;
  /** What the key needs of the parent object, such as `{ id: 7 }`. */
  readonly source?: unknown;
  /** What the key needs of the context. */
  readonly context?: unknown;
  /** Whose entry, for a PRIVATE field. */
  readonly private?: string | number | bigint;
}

/** What a write makes outdated. */
export interface MutateTarget {
  readonly tags?: readonly string[];
  readonly entries?: readonly EntryTarget[];
}

/** A cache: what schemas are applied with, loaders are made of, and invalidations are told to. */
export interface Cache<Context = unknown> extends HasParts {
  /** A batch function with the shared tier behind it. Errors: `CACHED_OPTION_INVALID`. */
  loader<Id, Value, LoaderContext = Context>(
    options: LoaderOptions<Id, Value, LoaderContext>,
  ): (context: LoaderContext) => CachedLoader<Id, Value>;
  /**
   * Resolves once no request that starts after it can see what was stored or being loaded under this key. Call it after the write is committed.
   * Errors: `CACHED_COORDINATE_UNKNOWN`, `CACHED_KEY_UNUSABLE`; `CACHED_STORE_UNAVAILABLE` if the store has not confirmed it, in which case it is repeated until it has.
   */
  invalidate(target: EntryTarget): Promise<void>;
  /** The same for everything under `tags`; the cost is that of the tags, whatever is under them. */
  invalidateTags(tags: readonly string[]): Promise<void>;
  /**
   * Runs `write` inside a bracket: what it makes outdated is gone before it begins and is not stored again until it has ended. Answers what `write` answers.
   * Rejects with the write's own error only.
   */
  mutate<T>(target: MutateTarget, write: () => T | PromiseLike<T>): Promise<T>;
  /** Releases leases, waits a moment for loads under way, closes what the cache opened; the injected client is not. Afterwards fields resolve uncached. Idempotent. */
  close(): Promise<void>;
}

/** How long `close` and a draining server wait for loads under way. */
const DRAIN_MS = 2_000;

/**
 * Makes a cache. One a process is the rule.
 * Errors: `CACHED_OPTION_INVALID`, one for all mistakes.
 */
export function createCache<Context = unknown>(options: CacheOptions<Context> = {}): Cache<Context> {
  const resolved = resolveOptions(options);
  const clock = resolved.clock ?? systemClock;
  const random = resolved.random ?? systemRandom;
  const channel = new Channel();
  const counters = new Counters();
  channel.listen(counters.listener);
  channel.listen(logListener(resolved.logger ?? console));
  if (resolved.onEvent !== undefined) channel.listen(resolved.onEvent);

  const keys = createKeySpace(resolved.prefix);
  const store = new FailOpenStore(resolved.store ?? memoryStore({ clock }), clock, channel, resolved.storeTimeoutMs);
  const waiting = new Waiting(clock, random);
  const endUse = store.open(keys, waiting.wake);
  const packing = createPacking(resolved);
  const loads = new Loads(clock, channel, packing, resolved.loadTimeoutMs);
  const leases = new Leases(store, clock, random, channel, loads, packing, resolved);
  const serving = new Serving(store, clock, channel, packing, loads, leases.flights);
  const tier = new ReadThrough({ store, clock, random, loads, leases, serving, waiting, settings: resolved });
  const invalidation = new Invalidation(store, clock, leases.flights, resolved);
  const { profiles, defaults, identify } = resolved;
  const scopes = new RequestScopes(tier);
  const drain = (): Promise<void> => leases.drain(DRAIN_MS);
  const parts: CacheParts = {
    tier,
    invalidation,
    scopes,
    keys,
    store,
    clock,
    channel,
    counters,
    profiles,
    defaults,
    identify,
    drain,
  };
  const keyNames = (targets: readonly EntryTarget[]): string[] =>
    targets.map((target) => keyOfCoordinate(parts, target).key.name);
  let closing: Promise<void> | undefined;

  return {
    [PARTS]: parts,
    loader: (loaderOptions) => userLoader(loaderOptions, parts),
    invalidate: async (target) => invalidation.run({ keys: keyNames([target]), tags: [] }),
    invalidateTags: async (tags) => invalidation.run({ keys: [], tags: tagNames(tags, parts) }),
    mutate: async ({ tags = [], entries = [] }, write) =>
      invalidation.around({ keys: keyNames(entries), tags: tagNames(tags, parts) }, write),
    close: () => {
      closing ??= (async () => {
        tier.close();
        await drain();
        await leases.close();
        invalidation.close();
        endUse();
      })();
      return closing;
    },
  };
}

function tagNames(tags: readonly string[], { keys }: CacheParts): string[] {
  if (!Array.isArray(tags) || tags.some((tag) => typeof tag !== "string" || tag === ""))
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `tags: a list of strings was expected, ${describeSetting(tags)} came`,
    );
  return [...new Set(tags as readonly string[])].map((tag) => keys.tag(tag));
}

/** A store that goes away is said once, and once that it is back; what keeps a field from being cached is said once a field and cause. */
function logListener(logger: Logger): (event: CacheEvent) => void {
  let isAway = false;
  const said = new Set<string>();
  const sayOnce = (about: string, message: string): void => {
    if (said.has(about)) return;
    said.add(about);
    logger.warn(`graphql-cached: ${message}`);
  };
  return (event) => {
    if (event.name === "store.failed" && !isAway) {
      isAway = true;
      logger.warn(`graphql-cached: the store is away, requests go on uncached: ${messageOf(event.error)}`);
    } else if (event.name === "store.recovered" && isAway) {
      isAway = false;
      logger.info("graphql-cached: the store is back");
    } else if (event.name === "value.refused" || event.name === "entry.corrupt" || event.name === "resolver.bypassed") {
      if (event.error !== undefined) sayOnce(`${event.coordinate} ${event.error.code}`, event.error.message);
    }
  };
}
