import { CachedError, describeSetting } from "../errors.js";
import type { Key } from "../keys/key.js";
import { type CacheParts, type HasParts, PARTS } from "../parts.js";
import type { Policy } from "../policy/policy.js";
import type { ReadRequest, RequestTags } from "../tier/request.js";

/** What the key-value cache may be told. */
export interface KeyValueCacheOptions {
  /** How long, in seconds, a value is kept that is set without a ttl. Not said: 300. */
  readonly maxAge?: number;
}

/** Apollo Server's interface of the same name, for strings. */
export interface KeyValueCache {
  /** Never rejects: what cannot be read is not there. */
  get(key: string): Promise<string | undefined>;
  /**
   * `ttl` is in seconds. Resolves once the value is stored, or a later `set` or `delete` has overtaken it.
   * Errors: `CACHED_OPTION_INVALID`; `CACHED_STORE_UNAVAILABLE` if the store has not confirmed that the old value is gone.
   */
  set(key: string, value: string, options?: { readonly ttl?: number | null }): Promise<void>;
  /** Errors: `CACHED_STORE_UNAVAILABLE` if the store has not confirmed it, in which case it is repeated until it has. */
  delete(key: string): Promise<void>;
}

/**
 * The shared tier as Apollo Server's KeyValueCache: for `new ApolloServer({ cache })`, which keeps persisted queries in it, and for the response-cache
 * plugin. Its keys meet no field's and no loader's.
 *
 * The interface has no load, so there is no lease around one: who reads nothing, computes, and sets, may set what has become outdated meanwhile.
 * What is kept from happening is that a `set` that is under way stores its value after a later `set` or `delete` has ended.
 */
export function keyValueCache(cache: HasParts, { maxAge = 300 }: KeyValueCacheOptions = {}): KeyValueCache {
  const parts = cache[PARTS];
  secondsOf(maxAge, "maxAge");
  const keyOf = (key: string): Key =>
    parts.keys.entry({ kind: "text", coordinate: COORDINATE, identity: undefined, parts: key });
  return {
    async get(key) {
      const value = await parts.tier.peek(textRequest(keyOf(key), "", MOST_SECONDS)).catch(() => undefined);
      return typeof value === "string" ? value : undefined;
    },
    async set(key, value, { ttl } = {}) {
      if (typeof value !== "string")
        throw new CachedError(
          "CACHED_OPTION_INVALID",
          `keyValueCache.set: a string was expected, ${typeof value} came`,
        );
      const seconds = secondsOf(ttl ?? maxAge, "ttl");
      const name = keyOf(key);
      if (seconds <= 0) await parts.invalidation.run({ keys: [name.name], tags: [] });
      else await write(textRequest(name, value, seconds), parts);
    },
    delete: async (key) => parts.invalidation.run({ keys: [keyOf(key).name], tags: [] }),
  };
}

const COORDINATE = "KeyValueCache";
const MOST_SECONDS = 2_147_483_647;
/** So often a value is tried to be set while others set the same key. After that theirs is as good. */
const ATTEMPTS = 5;

/**
 * Takes away what is there, and with it the lease of whoever is setting the key, before a lease of its own is asked for: a `set` that began
 * earlier cannot store its value any more.
 */
async function write(request: ReadRequest, { invalidation, leases }: CacheParts): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    await invalidation.run({ keys: [request.key.name], tags: [] }, "replace");
    const acquired = await leases.acquire({ request, tagVersions: [], supersededAt: 0, isRefresh: false });
    if (acquired.kind === "in-inFlight" && acquired.inFlight.request === request) {
      await acquired.inFlight.stored;
      return;
    }
    // The store is away, or has something else at this key: nothing old is there, and nothing new.
    if (acquired.kind !== "in-inFlight" && acquired.kind !== "busy" && acquired.kind !== "value") return;
  }
}

const NO_TAGS: RequestTags = { rule: "", names: [], namesOf: undefined };

function textRequest(key: Key, value: string, seconds: number): ReadRequest {
  const policy: Policy = {
    maxAgeMs: Math.ceil(seconds * 1000),
    staleWhileRevalidateMs: 0,
    refresh: "BACKGROUND",
    neverExpires: false,
    staleIfErrorMs: 0,
    negativeMaxAgeMs: 0,
    jitterRatio: 0,
    earlyRefreshBeta: 0,
    scope: "PUBLIC",
  };
  return { key, policy, tags: NO_TAGS, load: () => value };
}

function secondsOf(value: unknown, what: string): number {
  if (typeof value === "number" && !Number.isNaN(value)) return Math.min(value, MOST_SECONDS);
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    `keyValueCache: \`${what}\` must be a number of seconds, ${describeSetting(value)} came`,
  );
}
