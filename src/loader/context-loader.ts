import DataLoader from "dataloader";
import type { CachedError } from "../errors.js";
import type { Channel } from "../telemetry/channel.js";
import type { Invalidation } from "../tier/invalidate.js";
import type { Reads } from "../tier/reads.js";
import type { ReadRequest } from "../tier/request.js";

/** A DataLoader of one request, backed by the shared tier. */
export interface CachedLoader<Id, Value> {
  /** The `name` of the loader. */
  readonly name: string;
  /** Rejects with the error of the batch function. Throws a TypeError for null and undefined. */
  load(id: Id): Promise<Value>;
  /**
   * Returns the values in the order of `ids`, with an Error in the place of each id that failed.
   * Never rejects. Throws a TypeError if `ids` is no array, or contains null or undefined.
   */
  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]>;
  /** Forgets what this request has read for `id`. */
  clear(id: Id): this;
  /** Forgets everything this request has read. */
  clearAll(): this;
  /**
   * Makes `value` the result for `id` in this request, unless the request has already read it.
   * Stores nothing.
   */
  prime(id: Id, value: Value | PromiseLike<Value> | Error): this;
}

/** Why an id is loaded without the cache. */
type LoaderBypassReason = "NO_IDENTITY" | "KEY_UNUSABLE" | "REQUESTED";

/** Builds the requests of one context, and loads ids without the cache. */
export interface IdRequests<Id, Value> {
  requestOf(id: Id): ReadRequest | LoaderBypassReason;
  bypass(id: Id, reason: LoaderBypassReason): Promise<Value>;
  /** The mistake behind a bypass, if there is one to report. */
  mistakeOf(reason: LoaderBypassReason): CachedError | undefined;
}

/** One id with its request, or with the reason why it has none. */
interface IdLookup<Id> {
  readonly id: Id;
  readonly request: ReadRequest | LoaderBypassReason;
}

/** DataLoader's options for the memo of a request. */
export interface MemoOptions {
  readonly cache?: boolean;
  readonly batchScheduleFn?: (dispatch: () => void) => void;
}

/** The loader of one name for one context. */
export class ContextLoader<Id, Value> implements CachedLoader<Id, Value> {
  readonly #loader: DataLoader<IdLookup<Id>, unknown, unknown>;
  readonly #requests: IdRequests<Id, Value>;
  readonly #tier: Reads;
  readonly #channel: Channel;
  readonly name: string;
  /**
   * Keys that this request has read or primed. They skip the near cache, so that their value stays
   * the same.
   */
  readonly #known = new Set<string>();
  readonly #invalidation: Invalidation;
  /**
   * How many invalidations this process had made when each key was read, or last compared with them. What
   * this process invalidates afterwards, it reads again. Empty until the first invalidation.
   */
  readonly #countAtRead = new Map<string, number>();
  readonly #countAtStart: number;

  constructor(
    requestsOf: (loader: CachedLoader<Id, Value>) => IdRequests<Id, Value>,
    name: string,
    tier: Reads,
    channel: Channel,
    invalidation: Invalidation,
    { batchScheduleFn, ...options }: MemoOptions = {},
  ) {
    this.#invalidation = invalidation;
    this.#countAtStart = invalidation.count;
    this.#requests = requestsOf(this);
    this.name = name;
    this.#tier = tier;
    this.#channel = channel;
    this.#loader = new DataLoader<IdLookup<Id>, unknown, unknown>((lookups) => this.#read(lookups), {
      ...options,
      ...(batchScheduleFn === undefined ? {} : { batchScheduleFn: batchScheduleFn.bind(this) }),
      name,
      cacheKeyFn: memoKeyOf,
    });
  }

  load(id: Id): Promise<Value> {
    // DataLoader throws its own error, before a lease is requested.
    if (id === undefined || id === null) return this.#loader.load(id as never) as Promise<Value>;
    const lookup = this.#lookup(id);
    if (this.#invalidation.count !== this.#countAtStart) this.#forgetInvalidated(lookup);
    const { request } = lookup;
    const nesting = typeof request === "string" ? "none" : this.#tier.nestingOf(request);
    // The memoized promise is the one that waits for this load.
    if (nesting === "own-load") return this.#read([lookup]).then(([value]) => value as Value);
    const near = this.#tier.hasNear ? this.#near(request) : undefined;
    if (near !== undefined) return Promise.resolve(near.value as Value);
    const value = this.#loader.load(lookup) as Promise<Value>;
    // The memoized promise may be that of a load that waits for the slot of the load around this call.
    if (nesting === "other-load") this.#tier.expedite(request as ReadRequest, value);
    return value;
  }

  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]> {
    // DataLoader throws its own error.
    if (!isArrayLike(ids)) return this.#loader.loadMany(ids as never) as Promise<(Value | Error)[]>;
    const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
    return Promise.all(Array.from(ids, (id) => this.load(id).catch(asError)));
  }

  clear(id: Id): this {
    const lookup = this.#lookup(id);
    this.#loader.clear(lookup);
    if (typeof lookup.request !== "string") this.#known.delete(lookup.request.key.name);
    return this;
  }

  clearAll(): this {
    this.#loader.clearAll();
    this.#known.clear();
    return this;
  }

  prime(id: Id, value: Value | PromiseLike<Value> | Error): this {
    const lookup = this.#lookup(id);
    if (this.#invalidation.count !== this.#countAtStart) this.#forgetInvalidated(lookup);
    this.#loader.prime(lookup, value as Value | Error);
    if (typeof lookup.request !== "string") this.#known.add(lookup.request.key.name);
    return this;
  }

  /** Forgets what this request has read or primed for an id that this process has invalidated since. */
  #forgetInvalidated(lookup: IdLookup<Id>): void {
    const { request } = lookup;
    if (typeof request === "string") return;
    const { name } = request.key;
    const { count } = this.#invalidation;
    const since = this.#countAtRead.get(name) ?? this.#countAtStart;
    this.#countAtRead.set(name, count);
    if (since === count) return;
    const hasResultTags = this.#tier.hasResultTags(request);
    if (!this.#invalidation.hasChangedSince(since, request.key, request.tags.names, hasResultTags)) return;
    this.#loader.clear(lookup);
    this.#known.delete(name);
  }

  async #read(lookups: readonly IdLookup<Id>[]): Promise<readonly unknown[]> {
    const requests = lookups.map(({ request }) => request).filter((request) => typeof request !== "string");
    const results = await this.#tier.readMany(requests);
    if (requests.length === lookups.length) return results;
    let next = 0;
    return lookups.map(({ id, request }) =>
      typeof request === "string" ? this.#bypass(id, request) : results[next++],
    );
  }

  #bypass(id: Id, reason: LoaderBypassReason): Promise<Value> {
    const error = this.#requests.mistakeOf(reason);
    this.#channel.publish({
      name: "resolver.bypassed",
      coordinate: this.name,
      digest: "",
      reason,
      ...(error === undefined ? {} : { error }),
    });
    const promise = this.#requests.bypass(id, reason);
    // Prevents an unhandled rejection before DataLoader attaches its handlers.
    promise.catch(() => undefined);
    return promise;
  }

  #near(request: IdLookup<Id>["request"]): { readonly value: unknown } | undefined {
    if (typeof request === "string" || this.#known.has(request.key.name)) return undefined;
    const near = this.#tier.near(request);
    if (near === undefined) this.#known.add(request.key.name);
    return near;
  }

  #lookup(id: Id): IdLookup<Id> {
    return { id, request: this.#requests.requestOf(id) };
  }
}

/** What DataLoader accepts: an array, or an object that has as many members as its length says. */
const isArrayLike = (value: unknown): value is ArrayLike<unknown> =>
  typeof value === "object" && value !== null && typeof (value as { length?: unknown }).length === "number";

const memoKeyOf = ({ id, request }: IdLookup<unknown>): unknown =>
  typeof request === "string" ? id : request.key.name;
