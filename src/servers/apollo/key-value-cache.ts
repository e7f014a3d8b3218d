import { CachedError, describeSetting, messageOf } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import type { Key, KeyInput } from "../../core/keys/key.js";
import { type CacheHandle, type CacheParts, partsOf } from "../../core/parts.js";
import type { Policy } from "../../core/policy/policy.js";
import { NO_TAGS, type ReadRequest } from "../../core/tier/request/request.js";

/**
 * Returns the cache's store as Apollo Server's KeyValueCache, for `new ApolloServer({ cache })`
 * (persisted queries) and the response cache plugin. Its keys are separate from those of fields and loaders.
 *
 * The interface has no load, so there is no lease: a caller that finds nothing, computes a value and
 * sets it may set an outdated one. A `set` that is still under way never overwrites a later `set` or `delete`.
 *
 * Throws `CACHED_OPTION_INVALID` for an invalid argument.
 */
export function keyValueCache(cache: CacheHandle<never>, options: KeyValueCacheOptions = {}): KeyValueCache {
  const parts = partsOf(cache, "keyValueCache");
  checkOptionNames(options, "keyValueCache", ["maxAge"], { ttl: "`maxAge`, in seconds" });
  const { maxAge = 300 } = options;
  secondsOf(maxAge, "maxAge");
  const variant = parts.keys.variant({ kind: "text", shape: "", versions: [], keyTemplate: [], tagTemplates: [] });
  parts.variants.declare(COORDINATE, variant);
  const keyOf = (key: string, caller: string): Key => {
    checkString(key, "key", caller);
    const input: KeyInput = { kind: "text", coordinate: COORDINATE, identity: undefined, parts: JSON.stringify(key) };
    try {
      return parts.keys.entry(input, variant);
    } catch (cause) {
      throw new CachedError("CACHED_OPTION_INVALID", `${caller}: ${messageOf(cause)}; pass a digest of the key`, {
        cause,
      });
    }
  };
  return {
    async get(key) {
      try {
        const value = await parts.tier.peek(textRequest(keyOf(key, "keyValueCache.get"), "", MAX_SECONDS));
        return typeof value === "string" ? value : undefined;
      } catch {
        return undefined;
      }
    },
    async set(key, value, { ttl } = {}) {
      checkString(value, "value", "keyValueCache.set");
      const seconds = ttl === null ? MAX_SECONDS : secondsOf(ttl ?? maxAge, "ttl");
      const name = keyOf(key, "keyValueCache.set");
      if (seconds <= 0) await parts.invalidation.run({ keys: [name], tags: [] }, "hard", { via: "set" });
      else await write(textRequest(name, value, seconds, ttl === null), parts);
    },
    async delete(key) {
      const name = keyOf(key, "keyValueCache.delete");
      await parts.invalidation.run({ keys: [name], tags: [] }, "hard", { via: "delete" });
    },
  };
}

/** Options of `keyValueCache`. */
export interface KeyValueCacheOptions {
  /** How long a value that is set without a `ttl` is kept, in seconds. Default: 300. */
  readonly maxAge?: number | undefined;
}

/** Apollo Server's interface of the same name, for strings. */
export interface KeyValueCache {
  /** Never rejects; undefined for a value that cannot be read, and for a key that cannot be set. */
  get(key: string): Promise<string | undefined>;
  /**
   * `ttl` is in seconds; null means that the value does not expire. Resolves when the value is stored, or when a later `set` or `delete` has
   * superseded it. Rejects with `CACHED_OPTION_INVALID` for an invalid argument, such as a key of more than 65,000
   * characters, or with `CACHED_STORE_UNAVAILABLE` if the store has not confirmed that the old value is gone.
   */
  set(key: string, value: string, options?: { readonly ttl?: number | null }): Promise<void>;
  /**
   * Rejects with `CACHED_STORE_UNAVAILABLE` if the store has not confirmed; the deletion is then retried in the background.
   * Rejects with `CACHED_OPTION_INVALID` for a key that cannot be set.
   */
  delete(key: string): Promise<void>;
}

const COORDINATE = "KeyValueCache";
const MAX_SECONDS = 2_147_483_647;
/** Maximum attempts when other processes set the same key concurrently; after that, theirs stands. */
const MAX_ATTEMPTS = 5;

/** Removes the old value, and with it the lease of any concurrent `set`, whose value the store then refuses, before it acquires a lease. */
async function write(request: ReadRequest, { invalidation, invalidations, leases }: CacheParts): Promise<void> {
  // Before everything else, so that concurrent calls stay in their order.
  if (invalidations.origin === undefined) await invalidations.start();
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    await invalidation.run({ keys: [request.key], tags: [] }, "replace", { via: "set" });
    const acquired = await leases.acquire({
      request,
      supersededAt: 0,
      isRefresh: false,
      hasValue: false,
    });
    if (acquired.kind === "in-flight" && acquired.inFlight.request === request) {
      await acquired.inFlight.settled;
      return;
    }
    // The store is unavailable or the key is taken: the old value is gone, and none replaces it.
    const { kind } = acquired;
    if (kind !== "in-flight" && kind !== "busy" && kind !== "value" && kind !== "expired") return;
  }
}

function textRequest(key: Key, value: string, seconds: number, neverExpires = false): ReadRequest {
  const policy: Policy = {
    maxAgeMs: Math.ceil(seconds * 1000),
    staleWhileRevalidateMs: 0,
    refresh: "BACKGROUND",
    neverExpires,
    staleIfErrorMs: 0,
    negativeMaxAgeMs: 0,
    jitterRatio: 0,
    earlyRefreshBeta: 0,
    scope: "PUBLIC",
  };
  return { key, policy, tags: NO_TAGS, load: () => value };
}

function checkString(text: unknown, what: string, caller: string): void {
  if (typeof text === "string") return;
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `${caller}: expected a string as the ${what}, got a value of type ${typeof text}`,
  );
}

function secondsOf(value: unknown, what: string): number {
  if (typeof value === "number" && !Number.isNaN(value)) return Math.min(value, MAX_SECONDS);
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `keyValueCache: \`${what}\`: expected a number of seconds, got ${describeSetting(value)}`,
  );
}
