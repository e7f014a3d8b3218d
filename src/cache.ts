import type { ExecutionArgs, ExecutionResult } from "graphql";
import { assemble } from "./assembly.js";
import { CachedError, describeSetting, type ErrorCode, optionInvalid } from "./core/base/errors.js";
import {
  checkInvalidationTarget,
  checkWriteTarget,
  type InvalidateTarget,
  invalidatedSubjects,
  meantTags,
  namesOfInvalidation,
  namesOfOneEntry,
} from "./core/directive/invalidation/invalidation-target.js";
import { nameOfSubject, RESPONSES } from "./core/keys/key.js";
import { createLoaderFactory } from "./core/loader/batched-loader.js";
import {
  type CachedFunction,
  createCachedFunction,
  type FunctionOptions,
  type LoadFunction,
} from "./core/loader/cached-function.js";
import type { CachedLoader, LoaderOptions } from "./core/loader/loader-options.js";
import { CacheHandle, type CacheParts, factoryName } from "./core/parts.js";
import { ResponseCaches } from "./core/responses/execute.js";
import type { ResponsesOptions } from "./core/responses/options.js";
import type { InvalidationCause } from "./core/telemetry/events.js";
import { type RefreshJob, readJob } from "./core/tier/lease/refresh-job.js";
import type { Mode } from "./core/tier/shared/modes.js";
import { resolveOptions } from "./option-checks.js";
import type { CacheOptions } from "./options.js";
import { type CacheHealth, healthOf } from "./tools/inspection/health.js";

/** A cache, made by `createCache`. `Context` is the type of the GraphQL context. */
export class Cache<Context = object> extends CacheHandle<Context> {
  readonly #parts: CacheParts;
  readonly #close: () => Promise<void>;
  #closing: Promise<void> | undefined;
  readonly #responses: ResponseCaches;

  /** @internal */
  constructor(parts: CacheParts, close: () => Promise<void>) {
    super(parts);
    this.#parts = parts;
    this.#close = close;
    this.#responses = new ResponseCaches(parts);
  }

  /**
   * Creates a loader: a batch function with the cache in front of it. The result returns the
   * DataLoader of a request's context.
   *
   * Throws `CACHED_OPTION_INVALID` with every mistake in `options`.
   */
  loader<Id, Value, LoaderContext = Context>(
    options: LoaderOptions<Id, Value, LoaderContext>,
  ): (context: LoaderContext) => CachedLoader<Id, Value> {
    return createLoaderFactory(options, this.#parts);
  }

  /**
   * Returns a function with the cache in front of it. Its key is made of all arguments. Equal calls
   * share one load, in all processes; each caller gets a value of its own. It needs no request.
   *
   * Throws `CACHED_OPTION_INVALID` with every mistake in `options`.
   */
  wrap<Load extends LoadFunction>(
    options: FunctionOptions<Load>,
  ): CachedFunction<Parameters<Load>, Awaited<ReturnType<Load>>> {
    return createCachedFunction(options, this.#parts);
  }

  /**
   * Invalidates one entry, or every entry of a field, loader or function if `target` has no other
   * property than its coordinate or name; if the selection is part of the key, the entries of all
   * selections. Call it after the write is committed. A request that starts after the returned
   * promise has resolved never gets a value that was stored, or was being loaded, before. The cost
   * does not depend on the number of entries.
   *
   * Rejects with `CACHED_OPTION_INVALID`, `CACHED_COORDINATE_UNKNOWN` or `CACHED_KEY_UNUSABLE` for
   * a target that names no entry, and with `CACHED_STORE_UNAVAILABLE` if the store did not confirm;
   * the invalidation is then retried in the background, and this process does not read these
   * entries from the store until it succeeds.
   */
  async invalidate(target: InvalidateTarget, options: InvalidateOptions = {}): Promise<void> {
    checkInvalidationTarget(target, "cache.invalidate");
    const kind = kindOf(options, "cache.invalidate");
    await this.#parts.invalidation.run(namesOfInvalidation(this.#parts, target), kind, { via: "cache.invalidate" });
  }

  /**
   * Invalidates everything under the prefix: the entries of all fields, loaders and releases. The
   * cost does not depend on their number. Rejects as `invalidate` does; this process then reads
   * nothing from the store until it succeeds.
   */
  async clear(options: InvalidateOptions = {}): Promise<void> {
    await this.#parts.invalidation.clear(kindOf(options, "cache.clear"), { via: "cache.clear" });
  }

  /**
   * Invalidates every entry with one of these tags, at a cost that depends on the number of tags
   * only. Rejects as `invalidate` does.
   */
  invalidateTags(tags: readonly string[], options?: InvalidateOptions): Promise<void>;
  /** @internal */
  invalidateTags(tags: readonly string[], options: InvalidateOptions, cause: InvalidationCause): Promise<void>;
  async invalidateTags(
    tags: readonly string[],
    options: InvalidateOptions = {},
    cause: InvalidationCause = { via: "cache.invalidateTags" },
  ): Promise<void> {
    const kind = kindOf(options, "cache.invalidateTags");
    const subjects = invalidatedSubjects(this.#parts, tags, cause.via);
    await this.#parts.invalidation.run({ keys: [], tags: subjects }, kind, cause);
  }

  /**
   * Returns what an invalidation of tags purges: digests as in the headers `Cache-Tag` and
   * `Surrogate-Key`, the same in all processes. Throws `CACHED_OPTION_INVALID` for what
   * `invalidateTags` refuses.
   */
  edgeTags(tags: readonly string[]): string[] {
    return this.#parts.keys.invalidatedTags(meantTags(tags, "cache.edgeTags")).map(nameOfSubject);
  }

  /**
   * Runs `write` and returns its result. The entries in `target` are invalidated before and after,
   * and nothing is stored for them while `write` runs, even if this process dies.
   *
   * Rejects with the error of `write`, and as `invalidate` does for an invalid target; then `write`
   * is not called.
   */
  async mutate<T>(target: MutateTarget, write: () => T | PromiseLike<T>): Promise<T> {
    checkWriteTarget(target, "cache.mutate");
    if (typeof write !== "function")
      throw optionInvalid(
        `cache.mutate: \`write\`: expected a function that makes the change, got ${describeSetting(write)}`,
      );
    const { tags = [], entries = [] } = target;
    const names = entries.map((entry, nth) =>
      namesOfOneEntry(this.#parts, entry, {
        caller: `cache.mutate: \`entries[${nth}]\``,
        otherwise: "call cache.invalidate before and after the write",
      }),
    );
    const keys = names.flatMap((one) => one.keys);
    return this.#parts.invalidation.around(
      { keys, tags: [...invalidatedSubjects(this.#parts, tags, "cache.mutate"), ...names.flatMap((one) => one.tags)] },
      write,
      { via: "cache.mutate" },
    );
  }

  /**
   * Executes an operation as `execute` of graphql does, for servers without a plugin: graphql-http
   * and graphql-js itself. The document must be valid. A query whose whole response is stored is
   * not executed at all; which responses are, for how long and for whom follows from cache hints,
   * `@cached` and what was read. Mutations, subscriptions and everything else are executed as
   * always.
   *
   * Rejects as `execute` does, and with `CACHED_OPTION_INVALID` for invalid arguments.
   */
  execute(args: ExecutionArgs, options: ResponsesOptions = DEFAULT_RESPONSES): Promise<ExecutionResult> {
    return this.#responses.execute(args, options);
  }

  /**
   * Changes how the request with this context uses the cache, from now on. `BYPASS` neither reads
   * nor stores. `REFRESH` loads every value anew and stores it. Check first whether the caller may
   * do this.
   *
   * Throws `CACHED_OPTION_INVALID` if `context` is not an object or `override` is neither value.
   */
  override(context: Context & object, override: "BYPASS" | "REFRESH"): void {
    if (typeof context !== "object" || context === null)
      throw optionInvalid(`cache.override: expected the context object of a request, got ${describeSetting(context)}`);
    if (override !== "BYPASS" && override !== "REFRESH")
      throw optionInvalid(`cache.override: expected "BYPASS" or "REFRESH", got ${describeSetting(override)}`);
    this.#parts.requestStates.override(context, override);
  }

  /**
   * Makes `others` count as the request of `context`: options that loaders are made from before
   * there is a context, data sources. What reads with them has its identity, override, aborts and
   * traces. Call it before they read. Returns `context`.
   *
   * Throws `CACHED_OPTION_INVALID` for what is no object, and for objects that count as the request
   * of another context.
   */
  request<RequestContext extends Context & object>(
    context: RequestContext,
    ...others: readonly object[]
  ): RequestContext {
    for (const [nth, one] of [context, ...others].entries())
      if (typeof one !== "object" || one === null)
        throw optionInvalid(
          `cache.request: expected ${nth === 0 ? "the context object of a request" : "objects that belong to it"}, got ${describeSetting(one)}`,
        );
    if (this.#parts.requestStates.join(context, others) !== undefined)
      throw optionInvalid(
        "cache.request: expected objects of one request, got one that counts as the request of another context; make it anew for each request",
      );
    return context;
  }

  /**
   * Sets how this process uses the cache for a field, a loader, whole responses (`responses`), or
   * everything if there is no coordinate, from the next read on. `off`: neither look up nor store,
   * each read calls its source. `on`: use the cache. While everything is off, nothing is on.
   * Invalidations work in both modes.
   *
   * Throws `CACHED_OPTION_INVALID` for another mode, and `CACHED_COORDINATE_UNKNOWN` for a
   * coordinate that this cache does not have.
   */
  setMode(mode: Mode, coordinate?: string): void {
    const { rules, loaders, tier } = this.#parts;
    tier.modes.set(mode, coordinate, new Set([...rules.fields.keys(), ...loaders.keys(), RESPONSES]));
  }

  /**
   * Runs a refresh job that `loads.refreshQueue` received in this or another process. The cache
   * needs the same schema or loaders, store and prefix; `context` is passed to the load. Resolves
   * to whether the value was stored: false if the lease was lost, the load failed, or the value was
   * invalidated meanwhile.
   *
   * Rejects with `CACHED_OPTION_INVALID`, `CACHED_COORDINATE_UNKNOWN` or `CACHED_KEY_UNUSABLE` if
   * the job does not fit this cache.
   */
  async refresh(job: RefreshJob, context?: Context): Promise<boolean> {
    return this.#closing === undefined ? refresh(job, context, this.#parts) : false;
  }

  /**
   * Returns the health of the cache in this process, for alerts and status pages. Reads from each
   * node of the store, so it takes a round trip, or `storeTimeoutMs` if a node does not reply.
   * Never rejects. Requests are answered in every state, so do not take a process out of service
   * because of it.
   */
  health(): Promise<CacheHealth> {
    return healthOf(this.#parts, this.#closing !== undefined);
  }

  /**
   * Resolves when what this process has begun is done: what was loaded is stored, stale values are
   * refreshed, and invalidations are confirmed. For `waitUntil` of a serverless platform, which
   * freezes the process afterwards. Never rejects; resolves after `loadTimeoutMs` in any case.
   */
  settled(): Promise<void> {
    return this.#parts.settled();
  }

  /**
   * Waits up to two seconds for loads and `@invalidates` mutations under way, releases leases and
   * closes connections that the cache has opened. The store's client stays open. Fields then
   * resolve without the cache; invalidations still take effect in the processes that share the
   * store. Calling it again returns the same promise.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
}

/** How values are invalidated. */
export interface InvalidateOptions {
  /**
   * Serve the old values until they have been loaded again, which the next request starts. A value
   * that is being loaded meanwhile is stale from the start or, if one entry or a tag of its result
   * is invalidated, not stored. Default: false.
   */
  readonly soft?: boolean | undefined;
}

/** What a write makes outdated. */
export interface MutateTarget {
  readonly tags?: readonly string[] | undefined;
  /** Each names one entry. */
  readonly entries?: readonly InvalidateTarget[] | undefined;
}

const DEFAULT_RESPONSES: ResponsesOptions = {};

/** Creates a cache; most processes need one. Throws `CACHED_OPTION_INVALID` with all mistakes. */
export function createCache<Context = object>(options: CacheOptions<Context> = {}): Cache<Context> {
  const { parts, close } = assemble(resolveOptions(options));
  return new Cache(parts, close);
}

/** Throws `CACHED_OPTION_INVALID` for options that are none. */
function kindOf(options: unknown, caller: string): "hard" | "soft" {
  if (typeof options !== "object" || options === null)
    throw optionInvalid(`${caller}: expected options such as { soft: true }, got ${describeSetting(options)}`);
  const unknown = Object.keys(options).find((name) => name !== "soft");
  if (unknown !== undefined) throw optionInvalid(`${caller}: \`${unknown}\`: unknown option; the only one is soft`);
  const { soft = false } = options as { readonly soft?: unknown };
  if (typeof soft !== "boolean")
    throw optionInvalid(`${caller}: \`soft\`: expected a boolean, got ${describeSetting(soft)}`);
  return soft ? "soft" : "hard";
}

function refresh(job: unknown, context: unknown, parts: CacheParts): Promise<boolean> {
  const { coordinate, key, input, ...lease } = readJob(job, parts.packing);
  const fail = (code: ErrorCode, mistake: string): never => {
    throw new CachedError(code, `cache.refresh: ${mistake}`, { coordinate });
  };
  const { requestFactories } = parts;
  // A name ends with the variant and the digest.
  const [variantId = ""] = key.split(":").slice(-2);
  const factory = requestFactories.get(factoryName(coordinate, variantId)) ?? requestFactories.get(coordinate);
  const request =
    factory?.(input, context as never) ??
    fail(
      "CACHED_COORDINATE_UNKNOWN",
      `expected a job of a cached field or loader of this cache, got \`${coordinate}\`; known are ${[...requestFactories.keys()].filter((name) => !name.includes(" ")).join(", ") || "none"}`,
    );
  if (request.key.name === key) return parts.leases.adopt(request, lease);
  return fail(
    "CACHED_KEY_UNUSABLE",
    parts.keys.nameUnder(request.key, variantId) === key
      ? `expected a job of this release, got one of a release in which \`${coordinate}\` has another shape, \`version\`, key, tags or codec; run each release's jobs in workers of the same release`
      : `the job of \`${coordinate}\` has another key in this process; use the same \`prefix\`, schema and loaders in the worker`,
  );
}
