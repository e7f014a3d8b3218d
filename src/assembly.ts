import { type Cancel, type Clock, type Random, systemClock, systemRandom } from "./clock.js";
import { createPacking } from "./codec/packing.js";
import { CachedError } from "./errors.js";
import { createKeySpace } from "./keys/key.js";
import { ContextWatch } from "./loader/context-watch.js";
import { RequestScopes } from "./loader/request-scope.js";
import type { ResolvedOptions } from "./options.js";
import type { CacheParts } from "./parts.js";
import { FailOpenStore } from "./store/fail-open-store.js";
import { memoryStore } from "./store/memory-store.js";
import type { Store } from "./store/store.js";
import { Channel } from "./telemetry/channel.js";
import { Counters } from "./telemetry/counters.js";
import type { Listener } from "./telemetry/events.js";
import { logListener } from "./telemetry/log-listener.js";
import { Invalidation } from "./tier/invalidate.js";
import { Leases } from "./tier/leases.js";
import { Loads } from "./tier/loads.js";
import { NearCache } from "./tier/near-cache.js";
import { OutageSharing } from "./tier/outage-sharing.js";
import { ReadThrough } from "./tier/read-through.js";
import { Responder } from "./tier/responder.js";
import { SourceGuard } from "./tier/source-guard.js";
import { UnconfirmedInvalidations } from "./tier/unconfirmed-invalidations.js";
import { Waiting } from "./tier/waiting.js";

/** How long `close` and a draining server wait for loads under way. */
const DRAIN_MS = 2_000;

/** Puts the parts of a cache together, and answers them with what takes them apart. */
export function assemble(options: ResolvedOptions): { parts: CacheParts; close(): Promise<void> } {
  const { clock = systemClock, random = systemRandom, logger = console, onEvent } = options;
  const counters = new Counters();
  const channel = channelTo(counters.listener, logListener(logger), onEvent);
  const keys = createKeySpace(options.prefix);
  const store = new FailOpenStore(options.store ?? memoryStore({ clock }), clock, channel, options.storeTimeoutMs);
  const waiting = new Waiting(clock, random);
  const packing = createPacking(options);
  const loads = new Loads(clock, channel, packing, new SourceGuard(clock, options), options.loadTimeoutMs);
  const { near, endFollowing } = nearCacheOn(store, keys.prefix, options, clock, random);
  const leases = new Leases(store, clock, random, channel, loads, packing, options);
  const kept = new UnconfirmedInvalidations();
  const outageSharing = new OutageSharing(clock, options.outageShareMs);
  const responder = new Responder({ store, clock, channel, packing, loads, outageSharing, kept });
  const tier = new ReadThrough({
    store,
    clock,
    random,
    loads,
    leases,
    responder,
    waiting,
    kept,
    near,
    settings: options,
  });
  const invalidation = new Invalidation({ store, clock, outageSharing, kept, near, settings: options });
  const endUse = store.open(keys, waiting.wake, () => invalidation.replay());
  const scopes = new RequestScopes(tier);
  const drain = (): Promise<void> => leases.drain(DRAIN_MS);
  return {
    parts: {
      tier,
      leases,
      invalidation,
      scopes,
      keys,
      store,
      clock,
      packing,
      channel,
      counters,
      ...rulesOf(options, channel),
      requestFactories: new Map(),
      drain,
    },
    close: async () => {
      tier.close();
      await drain();
      await leases.close();
      await invalidation.close();
      endFollowing?.();
      endUse();
    },
  };
}

function channelTo(...listeners: readonly (Listener | undefined)[]): Channel {
  const channel = new Channel();
  for (const listener of listeners) if (listener !== undefined) channel.listen(listener);
  return channel;
}

/** What schemas and loaders are held to. */
function rulesOf(
  { profiles, defaults, identify, authDirectives, warnOnContextReads, sharedContextKeys = [] }: ResolvedOptions,
  channel: Channel,
): Pick<CacheParts, "profiles" | "defaults" | "identify" | "authDirectives" | "contextWatch"> {
  const isWatched = warnOnContextReads ?? process.env.NODE_ENV !== "production";
  const contextWatch = isWatched ? new ContextWatch(channel, sharedContextKeys) : undefined;
  return { profiles, defaults, identify, authDirectives, contextWatch };
}

const NEAR_CACHE_DEFAULTS = { maxBytes: 32 * 1024 * 1024, maxEntries: 10_000 };

function nearCacheOn(
  store: Store,
  prefix: string,
  { nearCache }: ResolvedOptions,
  clock: Clock,
  random: Random,
): { readonly near: NearCache | undefined; readonly endFollowing: Cancel | undefined } {
  if (nearCache === undefined) return { near: undefined, endFollowing: undefined };
  if (store.follow === undefined)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `createCache: \`nearCache\` needs a store that tells of changes, such as redisStore(), the store \`${store.name}\` came; leave \`nearCache\` out`,
    );
  const { maxBytes, maxEntries } = { ...NEAR_CACHE_DEFAULTS, ...nearCache };
  const isFrozen = nearCache.freeze ?? process.env.NODE_ENV !== "production";
  const near = new NearCache(clock, random, { maxBytes, maxEntries, isFrozen });
  return { near, endFollowing: store.follow(prefix, near) };
}
