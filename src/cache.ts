import { systemClock, systemRandom } from "./clock.js";
import { jsonCodec } from "./codec/json-codec.js";
import { keyOfCoordinate } from "./directive/coordinate-key.js";
import { CachedError, describeSetting } from "./errors.js";
import { createKeySpace } from "./keys/key.js";
import { RequestScopes } from "./loader/request-scope.js";
import { type CachedLoader, type LoaderOptions, userLoader } from "./loader/user-loader.js";
import { type CacheOptions, type ResolvedOptions, resolveOptions } from "./options.js";
import { type CacheParts, type HasParts, PARTS } from "./parts.js";
import { FailOpenStore } from "./store/fail-open-store.js";
import { memoryStore } from "./store/memory-store.js";
import { Channel } from "./telemetry/channel.js";
import { Counters } from "./telemetry/counters.js";
import { logListener } from "./telemetry/log-listener.js";
import { Gutter } from "./tier/gutter.js";
import { Invalidation } from "./tier/invalidate.js";
import { KeptNames } from "./tier/kept-names.js";
import { Leases } from "./tier/leases.js";
import { Loads } from "./tier/loads.js";
import { ReadThrough } from "./tier/read-through.js";
import { type RefreshJob, readJob } from "./tier/refresh-job.js";
import { Serving } from "./tier/serving.js";
import { SourceGuard } from "./tier/source-guard.js";
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

/** How an entry is invalidated. */
export interface InvalidateOptions {
  /** The old value is served until the new one is loaded, which the next reader sets off. For what may be old for a moment. */
  readonly soft?: boolean;
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
  invalidate(target: EntryTarget, how?: InvalidateOptions): Promise<void>;
  /** The same for everything under `tags`; the cost is that of the tags, whatever is under them. */
  invalidateTags(tags: readonly string[]): Promise<void>;
  /**
   * Runs `write` inside a bracket: what it makes outdated is gone before it begins and is not stored again until it has ended. Answers what `write` answers.
   * Rejects with the write's own error only.
   */
  mutate<T>(target: MutateTarget, write: () => T | PromiseLike<T>): Promise<T>;
  /**
   * Runs a refresh that `refreshQueue` was given, in a worker whose cache has the same schema or loaders, store and prefix; `context` is what
   * its load gets. Answers whether the value was stored: false where the lease is lost, the load failed, or the value was invalidated meanwhile.
   * Errors: `CACHED_OPTION_INVALID`, `CACHED_COORDINATE_UNKNOWN`, `CACHED_KEY_UNUSABLE` where the job does not fit this cache.
   */
  refresh(job: RefreshJob, context?: Context): Promise<boolean>;
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
  const { parts, close } = assemble(resolveOptions(options));
  const { invalidation } = parts;
  const keyNames = (targets: readonly EntryTarget[]): string[] =>
    targets.map((target) => keyOfCoordinate(parts, target).key.name);
  let closing: Promise<void> | undefined;

  return {
    [PARTS]: parts,
    loader: (loaderOptions) => userLoader(loaderOptions, parts),
    invalidate: async (target, { soft = false } = {}) =>
      invalidation.run({ keys: keyNames([target]), tags: [] }, soft ? "soft" : "hard"),
    invalidateTags: async (tags) => invalidation.run({ keys: [], tags: tagNames(tags, parts) }),
    mutate: async ({ tags = [], entries = [] }, write) =>
      invalidation.around({ keys: keyNames(entries), tags: tagNames(tags, parts) }, write),
    refresh: async (job, context) => (closing === undefined ? refresh(job, context, parts) : false),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

/** Puts the parts of a cache together, and answers them with what takes them apart. */
function assemble(options: ResolvedOptions): { parts: CacheParts; close(): Promise<void> } {
  const { clock = systemClock, random = systemRandom, codec = jsonCodec, logger = console, onEvent } = options;
  const channel = new Channel();
  const counters = new Counters();
  for (const listener of [counters.listener, logListener(logger), onEvent])
    if (listener !== undefined) channel.listen(listener);

  const keys = createKeySpace(options.prefix);
  const store = new FailOpenStore(options.store ?? memoryStore({ clock }), clock, channel, options.storeTimeoutMs);
  const waiting = new Waiting(clock, random);
  const loads = new Loads(clock, channel, codec, new SourceGuard(clock, options), options.loadTimeoutMs);
  const leases = new Leases(store, clock, random, channel, loads, options);
  const kept = new KeptNames();
  const gutter = new Gutter(clock);
  const serving = new Serving({ store, clock, channel, codec, loads, gutter, kept, gutterMs: options.gutterMs });
  const tier = new ReadThrough({ store, clock, random, loads, leases, serving, waiting, kept, settings: options });
  const invalidation = new Invalidation(store, clock, gutter, kept, options);
  const endUse = store.open(keys, waiting.wake, () => invalidation.replay());
  const { profiles, defaults, identify } = options;
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
      channel,
      counters,
      profiles,
      defaults,
      identify,
      remakers: new Map(),
      drain,
    },
    close: async () => {
      tier.close();
      await drain();
      await leases.close();
      invalidation.close();
      endUse();
    },
  };
}

function refresh(job: unknown, context: unknown, parts: CacheParts): Promise<boolean> {
  const { coordinate, key, input, ...lease } = readJob(job);
  const remake = parts.remakers.get(coordinate);
  if (remake === undefined)
    throw new CachedError(
      "CACHED_COORDINATE_UNKNOWN",
      `cache.refresh: \`${coordinate}\` was expected to be a loader or cached field here; there are ${[...parts.remakers.keys()].join(", ") || "none"}`,
      { coordinate },
    );
  const request = remake(input, context as never);
  if (request.key.name !== key)
    throw new CachedError(
      "CACHED_KEY_UNUSABLE",
      `cache.refresh: the job's \`${coordinate}\` has another key here; the worker needs the same \`prefix\`, schema and loaders`,
      { coordinate },
    );
  return parts.leases.adopt(request, lease);
}

function tagNames(tags: readonly string[], { keys }: CacheParts): string[] {
  if (!Array.isArray(tags) || tags.some((tag) => typeof tag !== "string" || tag === ""))
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `tags: a list of strings was expected, ${describeSetting(tags)} came`,
    );
  return [...new Set(tags as readonly string[])].map((tag) => keys.tag(tag));
}
