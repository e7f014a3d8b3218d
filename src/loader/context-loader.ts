import DataLoader from "dataloader";
import type { CachedError } from "../errors.js";
import type { Channel } from "../telemetry/channel.js";
import type { Invalidation } from "../tier/invalidate.js";
import type { NearNames } from "../tier/near-cache.js";
import type { Reads } from "../tier/reads.js";
import type { ReadRequest } from "../tier/request.js";
import type { Identity } from "./identity.js";

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
export type LoaderBypassReason = "NO_IDENTITY" | "KEY_UNUSABLE" | "REQUESTED";

/** The names of one id, and the caller's identity, which is part of the key of PRIVATE values. */
export interface IdNames extends NearNames {
  readonly identity: Identity | undefined;
}

/** Builds the requests of one context, and loads ids without the cache. */
export interface IdRequests<Id, Value> {
  namesOf(id: Id): IdNames | LoaderBypassReason;
  /** Returns what the near cache has of an id, and reports it as served. */
  near(names: IdNames): Promise<Value> | undefined;
  requestOf(id: Id, names: IdNames): ReadRequest;
  bypass(id: Id, reason: LoaderBypassReason): Promise<Value>;
  /** The mistake behind a bypass, if there is one to report. */
  mistakeOf(reason: LoaderBypassReason): CachedError | undefined;
}

/** One id with its names, or with the reason why it has none. */
class IdLookup<Id> {
  readonly id: Id;
  readonly names: IdNames | LoaderBypassReason;

  constructor(id: Id, names: IdNames | LoaderBypassReason) {
    this.id = id;
    this.names = names;
  }
}

/** DataLoader's options for the memo of a request. */
export interface MemoOptions {
  readonly cache?: boolean;
  readonly batchScheduleFn?: (dispatch: () => void) => void;
}

/** The loader of one name for one context. */
export class ContextLoader<Id, Value> implements CachedLoader<Id, Value> {
  readonly name: string;
  readonly #options: MemoOptions;
  readonly #requests: IdRequests<Id, Value>;
  readonly #tier: Reads;
  readonly #channel: Channel;
  readonly #invalidation: Invalidation;
  /** Remembers what this request has read. Undefined until the first read that the near cache cannot answer. */
  #memo: DataLoader<IdLookup<Id>, unknown, unknown> | undefined;
  /**
   * Keys that this request has read or primed. They skip the near cache, so that their value stays
   * the same. Undefined until the first.
   */
  #known: Set<string> | undefined;
  /**
   * How many invalidations this process had made when each key was read, or last compared with them. What
   * this process invalidates afterwards, it reads again. Undefined until the first invalidation.
   */
  #countAtRead: Map<string, number> | undefined;
  readonly #countAtStart: number;

  constructor(
    requestsOf: (loader: CachedLoader<Id, Value>) => IdRequests<Id, Value>,
    name: string,
    tier: Reads,
    channel: Channel,
    invalidation: Invalidation,
    options: MemoOptions = {},
  ) {
    this.#invalidation = invalidation;
    this.#countAtStart = invalidation.count;
    this.#options = options;
    this.#requests = requestsOf(this);
    this.name = name;
    this.#tier = tier;
    this.#channel = channel;
  }

  load(id: Id): Promise<Value> {
    // DataLoader throws its own error, before a lease is requested.
    if (id === undefined || id === null) return this.#memoized().load(id as never) as Promise<Value>;
    const names = this.#requests.namesOf(id);
    if (typeof names === "string") return this.#memoized().load({ id, names }) as Promise<Value>;
    if (this.#invalidation.count !== this.#countAtStart) this.#forgetInvalidated(id, names);
    const { hasNear } = this.#tier;
    if (hasNear && this.#known?.has(names.key.name) !== true) {
      const near = this.#requests.near(names);
      if (near !== undefined) return near;
    }
    const lookup = new IdLookup(id, names);
    const nesting = this.#tier.nestingOf(names);
    // The memoized promise is the one that waits for this load.
    if (nesting === "own-load") return this.#read([lookup]).then(([value]) => value as Value);
    if (hasNear) this.#addKnown(names);
    const value = this.#memoized().load(lookup) as Promise<Value>;
    // The memoized promise may be that of a load that waits for the slot of the load around this call.
    if (nesting === "other-load") this.#tier.expedite(names, value);
    return value;
  }

  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]> {
    // DataLoader throws its own error.
    if (!isArrayLike(ids)) return this.#memoized().loadMany(ids as never) as Promise<(Value | Error)[]>;
    const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
    return Promise.all(Array.from(ids, (id) => this.load(id).catch(asError)));
  }

  clear(id: Id): this {
    const names = this.#requests.namesOf(id);
    this.#memo?.clear({ id, names });
    if (typeof names !== "string") this.#known?.delete(names.key.name);
    return this;
  }

  clearAll(): this {
    this.#memo?.clearAll();
    this.#known = undefined;
    return this;
  }

  prime(id: Id, value: Value | PromiseLike<Value> | Error): this {
    const names = this.#requests.namesOf(id);
    if (typeof names !== "string" && this.#invalidation.count !== this.#countAtStart)
      this.#forgetInvalidated(id, names);
    this.#memoized().prime({ id, names }, value as Value | Error);
    if (typeof names !== "string") this.#addKnown(names);
    return this;
  }

  #addKnown({ key }: IdNames): void {
    this.#known ??= new Set();
    this.#known.add(key.name);
  }

  /** Forgets what this request has read or primed for an id that this process has invalidated since. */
  #forgetInvalidated(id: Id, names: IdNames): void {
    const { name } = names.key;
    const { count } = this.#invalidation;
    this.#countAtRead ??= new Map();
    const since = this.#countAtRead.get(name) ?? this.#countAtStart;
    this.#countAtRead.set(name, count);
    if (since === count) return;
    const request = this.#requests.requestOf(id, names);
    const hasResultTags = this.#tier.hasResultTags(request);
    if (!this.#invalidation.hasChangedSince(since, request.key, request.tags.names, hasResultTags)) return;
    this.#memo?.clear({ id, names });
    this.#known?.delete(name);
  }

  async #read(lookups: readonly IdLookup<Id>[]): Promise<readonly unknown[]> {
    const requests: ReadRequest[] = [];
    for (const { id, names } of lookups)
      if (typeof names !== "string") requests.push(this.#requests.requestOf(id, names));
    const results = await this.#tier.readMany(requests);
    if (requests.length === lookups.length) return results;
    let next = 0;
    return lookups.map(({ id, names }) => (typeof names === "string" ? this.#bypass(id, names) : results[next++]));
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

  #memoized(): DataLoader<IdLookup<Id>, unknown, unknown> {
    if (this.#memo !== undefined) return this.#memo;
    const { batchScheduleFn, ...options } = this.#options;
    this.#memo = new DataLoader<IdLookup<Id>, unknown, unknown>((lookups) => this.#read(lookups), {
      ...options,
      ...(batchScheduleFn === undefined ? {} : { batchScheduleFn: batchScheduleFn.bind(this) }),
      name: this.name,
      cacheKeyFn: memoKeyOf,
    });
    return this.#memo;
  }
}

/** What DataLoader accepts: an array, or an object that has as many members as its length says. */
export const isArrayLike = (value: unknown): value is ArrayLike<unknown> =>
  typeof value === "object" && value !== null && typeof (value as { length?: unknown }).length === "number";

const memoKeyOf = ({ id, names }: IdLookup<unknown>): unknown => (typeof names === "string" ? id : names.key.name);
