import { assemble } from "./assembly.js";
import { keyOfCoordinate } from "./directive/coordinate-key.js";
import { CachedError, describeSetting } from "./errors.js";
import type { CachedLoader } from "./loader/context-loader.js";
import { createLoaderFactory, type LoaderOptions } from "./loader/loader-factory.js";
import { type CacheOptions, resolveOptions } from "./options.js";
import { type CacheParts, type HasParts, PARTS } from "./parts.js";
import { type RefreshJob, readJob } from "./tier/refresh-job.js";

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
   * Says what the request with this context wants of the cache, from here on. `BYPASS`: nothing, neither to read nor to store. `REFRESH`:
   * values that are loaded now, and stored for everybody. Who may say so is for the caller to decide.
   * Errors: `CACHED_OPTION_INVALID` where `context` is no object, or there is no such override.
   */
  override(context: Context & object, override: "BYPASS" | "REFRESH"): void;
  /**
   * Runs a refresh that `refreshQueue` was given, in a worker whose cache has the same schema or loaders, store and prefix; `context` is what
   * its load gets. Answers whether the value was stored: false where the lease is lost, the load failed, or the value was invalidated meanwhile.
   * Errors: `CACHED_OPTION_INVALID`, `CACHED_COORDINATE_UNKNOWN`, `CACHED_KEY_UNUSABLE` where the job does not fit this cache.
   */
  refresh(job: RefreshJob, context?: Context): Promise<boolean>;
  /** Releases leases, waits a moment for loads under way, closes what the cache decoded; the injected client is not. Afterwards fields resolve uncached. Idempotent. */
  close(): Promise<void>;
}

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
    loader: (loaderOptions) => createLoaderFactory(loaderOptions, parts),
    invalidate: async (target, { soft = false } = {}) =>
      invalidation.run({ keys: keyNames([target]), tags: [] }, soft ? "soft" : "hard"),
    invalidateTags: async (tags) => invalidation.run({ keys: [], tags: tagNames(tags, parts) }),
    mutate: async ({ tags = [], entries = [] }, write) =>
      invalidation.around({ keys: keyNames(entries), tags: tagNames(tags, parts) }, write),
    override: (context, override) => {
      if (typeof context !== "object" || context === null || !["BYPASS", "REFRESH"].includes(override))
        throw new CachedError(
          "CACHED_OPTION_INVALID",
          `cache.override: a request's context and BYPASS or REFRESH were expected, ${describeSetting(context)} and ${describeSetting(override)} came`,
        );
      parts.scopes.override(context, override);
    },
    refresh: async (job, context) => (closing === undefined ? refresh(job, context, parts) : false),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

function refresh(job: unknown, context: unknown, parts: CacheParts): Promise<boolean> {
  const { coordinate, key, input, ...lease } = readJob(job, parts.packing);
  const requestFactory = parts.requestFactories.get(coordinate);
  if (requestFactory === undefined)
    throw new CachedError(
      "CACHED_COORDINATE_UNKNOWN",
      `cache.refresh: \`${coordinate}\` was expected to be a loader or cached field here; there are ${[...parts.requestFactories.keys()].join(", ") || "none"}`,
      { coordinate },
    );
  const request = requestFactory(input, context as never);
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
      `tags: a list of strings was expected, ${Array.isArray(tags) ? "a list with something else in it" : `a ${typeof tags}`} came`,
    );
  return [...new Set(tags as readonly string[])].map((tag) => keys.tag(tag));
}
