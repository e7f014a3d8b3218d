import DataLoader from "dataloader";
import { Deferred } from "../base/deferred.js";
import type { CachedError } from "../base/errors.js";
import type { Policy } from "../policy/policy.js";
import { asError } from "../store/answers.js";
import type { Channel } from "../telemetry/channel.js";
import type { Invalidation } from "../tier/invalidation/invalidate.js";
import type { InvalidationCount } from "../tier/invalidation/recent-invalidations.js";
import type { NearNames } from "../tier/near/near-cache.js";
import type { Nesting } from "../tier/read/hit.js";
import type { Reads } from "../tier/read/reads.js";
import type { ModeReason } from "../tier/record/modes.js";
import type { EnclosingLoad } from "../tier/request/enclosing-load.js";
import type { ReadRequest } from "../tier/request/request.js";
import { isAbandonment } from "../tier/request/waiters.js";
import type { Identity } from "./identity.js";
import { MemoInLoads } from "./memo-in-loads.js";

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
  /** Forgets what this request has read for `id`. If that was an error, the next `load` asks the source again. */
  clear(id: Id): this;
  /** Forgets everything this request has read. */
  clearAll(): this;
  /**
   * Makes `value` the result for `id` in this request, unless the request has already read it. A value from the near
   * cache does not count as read. Stores nothing.
   */
  prime(id: Id, value: Value | PromiseLike<Value> | Error): this;
}

/** Why an id is loaded without the cache. */
export type LoaderBypassReason = "NO_IDENTITY" | "KEY_UNUSABLE" | "REQUESTED" | ModeReason;

/** The names of one id, and the caller's identity, which is part of the key of PRIVATE values. */
export interface IdNames extends NearNames {
  readonly identity: Identity | undefined;
  /** What a request remembers the id by: the only one of its ids with this key has the same value. */
  readonly memoKey: string;
}

/** Builds the requests of one context, and loads ids without the cache. */
export interface IdRequests<Id, Value> {
  /** The loader that the user's functions get. Undefined: the one that is being made. */
  readonly loader?: CachedLoader<Id, Value> | undefined;
  namesOf(id: Id): IdNames | LoaderBypassReason;
  /** Returns what the near cache has of an id, and reports it as served. */
  near(names: IdNames): Promise<Value> | undefined;
  /** `isForced`: it asks the source, whatever the store has. */
  requestOf(id: Id, names: IdNames, isForced?: boolean): ReadRequest;
  /** Loads an id without the cache. */
  loadUncached(id: Id): Promise<Value>;
  /** Notes that the context remembers a value from now on, which it is reading. */
  remembered(value: object): void;
  /** Notes that the context uses a value that it remembers. */
  recalled(value: object): void;
  /** Whether a value that the context remembers has to be read again, to be a part of what is collected now. */
  mustReadAgain(value: object): boolean;
  /** Notes that the context was given a value. */
  primed(names: IdNames | undefined): void;
  /** Tells the observer of the request that an id bypasses the cache. */
  reportBypassed(reason: LoaderBypassReason): void;
  /** The mistake behind a bypass, if there is one to report. */
  mistakeOf(reason: LoaderBypassReason): CachedError | undefined;
}

/** DataLoader's options for what a request remembers. */
export interface MemoOptions {
  readonly cache?: boolean;
  readonly batchScheduleFn?: (dispatch: () => void) => void;
}

/** The part of a loader's definition that its contexts share with all others. */
export interface ContextLoaderDefinition {
  readonly name: string;
  readonly policy: Pick<Policy, "scope">;
  readonly memo: MemoOptions;
  readonly parts: { readonly tier: Reads; readonly channel: Channel; readonly invalidation: Invalidation };
}

/**
 * The loader of one name for one context. It remembers by DataLoader's rules: one promise for each key until it
 * is cleared. It is no DataLoader, since the tier collects the keys of all requests of a tick: to collect those
 * of each request before would cost as much again.
 */
export class ContextLoader<Id, Value> implements CachedLoader<Id, Value> {
  readonly #definition: ContextLoaderDefinition;
  readonly #invalidations: InvalidationCount;
  readonly #requests: IdRequests<Id, Value>;
  /** What this request has read, by the `memoKey` of its id, or by the id if it has no key. */
  readonly #memo = new Map<unknown, Promise<unknown>>();
  /** What its loads have read. Undefined until the first. */
  #memoInLoads: MemoInLoads<Promise<unknown>> | undefined;
  /**
   * Whether what was cleared is an error, by memo key. The error can be shared by the store for a moment, and clearing it
   * asks for another attempt. Contains only what is read again with the next `load`. Undefined until the first.
   */
  #cleared: Map<unknown, Promise<boolean>> | undefined;
  /** When to read. Undefined: at once. */
  readonly #schedule: BatchSchedule | undefined;
  /**
   * Keys that this request has read from the store or primed. They skip the near cache, so that their value stays
   * the same. Undefined until the first.
   */
  #known: Set<string> | undefined;
  /**
   * How many invalidations this process had made when each key was read, or last compared with them. What
   * this process invalidates afterwards, it reads again. Undefined until the first invalidation.
   */
  #countAtRead: Map<string, number> | undefined;
  readonly #countAtStart: number;

  /** `requests`: those of the context. */
  constructor(definition: ContextLoaderDefinition, requests: IdRequests<Id, Value>) {
    const { batchScheduleFn } = definition.memo;
    this.#definition = definition;
    this.#invalidations = definition.parts.invalidation.made;
    this.#countAtStart = this.#invalidations.count;
    this.#schedule =
      batchScheduleFn === undefined ? undefined : new BatchSchedule(batchScheduleFn.bind(requests.loader ?? this));
    this.#requests = requests;
  }

  get name(): string {
    return this.#definition.name;
  }

  load(id: Id): Promise<Value> {
    // DataLoader throws its own error, before a lease is requested.
    if (id === undefined || id === null) return refusing(this.name).load(id as never);
    const names = this.#requests.namesOf(id);
    const { tier } = this.#definition.parts;
    if (typeof names === "string" && this.#isForgotten(names)) return this.#readOnTime(id, names, "none");
    if (typeof names === "string") return this.#remembered(memoKeyOf(id, names), id, names, tier.enclosingLoad());
    if (this.#invalidations.count !== this.#countAtStart) this.#forgetInvalidated(id, names);
    const { hasNear } = tier;
    const { memoKey } = names;
    if (hasNear && this.#known?.has(memoKey) !== true) {
      const near = this.#requests.near(names);
      if (near !== undefined) return near;
    }
    const nesting = tier.nestingOf(names);
    // The memoized promise is the one that waits for this load.
    if (nesting === "own-load") return this.#read(id, names, nesting);
    if (hasNear) this.#addKnown(names);
    const value = this.#remembered(memoKey, id, names, nesting === "none" ? undefined : tier.enclosingLoad());
    // The memoized promise may be that of a load that waits for the slot of the load around this call.
    if (nesting === "other-load") tier.expedite(names, value);
    return value;
  }

  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]> {
    // DataLoader throws its own error.
    if (!isArrayLike(ids)) return refusing(this.name).loadMany(ids as never);
    return Promise.all(Array.from(ids, (id) => this.load(id).catch(asError)));
  }

  clear(id: Id): this {
    const names = this.#requests.namesOf(id);
    const memoKey = memoKeyOf(id, names);
    this.#noteCleared(memoKey);
    this.#forget(memoKey);
    if (typeof names !== "string") this.#known?.delete(names.memoKey);
    return this;
  }

  clearAll(): this {
    for (const memoKey of [...this.#memo.keys(), ...(this.#memoInLoads?.keys() ?? [])]) this.#noteCleared(memoKey);
    this.#memo.clear();
    this.#memoInLoads?.clear();
    this.#known = undefined;
    return this;
  }

  prime(id: Id, value: Value | PromiseLike<Value> | Error): this {
    const names = this.#requests.namesOf(id);
    if (this.#isForgotten(names)) return this;
    if (typeof names !== "string" && this.#invalidations.count !== this.#countAtStart)
      this.#forgetInvalidated(id, names);
    this.#rememberUnlessKnown(memoKeyOf(id, names), value);
    if (typeof names !== "string") this.#addKnown(names);
    this.#requests.primed(typeof names === "string" ? undefined : names);
    return this;
  }

  #noteCleared(memoKey: unknown): void {
    const values = [this.#memo.get(memoKey), this.#memoInLoads?.last(memoKey)].filter((value) => value !== undefined);
    if (values.length === 0) return;
    const failed = Promise.all(values.map(hasRejected)).then((all) => all.includes(true));
    this.#cleared ??= new Map();
    this.#cleared.set(memoKey, failed);
    void failed.then((isError) => {
      if (!isError && this.#cleared?.get(memoKey) === failed) this.#cleared.delete(memoKey);
    });
  }

  #addKnown({ memoKey }: IdNames): void {
    this.#known ??= new Set();
    this.#known.add(memoKey);
  }

  /** Forgets what this request has read or primed for an id that this process has invalidated since. */
  #forgetInvalidated(id: Id, names: IdNames): void {
    const { memoKey } = names;
    const { tier } = this.#definition.parts;
    const { count } = this.#invalidations;
    this.#countAtRead ??= new Map();
    const since = this.#countAtRead.get(memoKey) ?? this.#countAtStart;
    this.#countAtRead.set(memoKey, count);
    if (since === count) return;
    const request = this.#requests.requestOf(id, names);
    const hasResultTags = tier.hasResultTags(request);
    if (!this.#invalidations.hasChangedSince(since, request.key, request.tags.subjects, hasResultTags)) return;
    this.#forget(memoKey);
    this.#known?.delete(memoKey);
  }

  #forget(memoKey: unknown): void {
    this.#memo.delete(memoKey);
    this.#memoInLoads?.delete(memoKey);
  }

  #rememberUnlessKnown(memoKey: unknown, value: Value | PromiseLike<Value> | Error): void {
    if (this.#definition.memo.cache === false) return;
    const primed = value instanceof Error ? Promise.reject(value) : Promise.resolve(value);
    // Prevents an unhandled rejection if nobody asks for it.
    primed.catch(() => undefined);
    this.#requests.remembered(primed);
    if (this.#memo.get(memoKey) === undefined) this.#memo.set(memoKey, primed);
    const load = this.#definition.parts.tier.enclosingLoad();
    if (load !== undefined && this.#memoInLoads?.get(memoKey, load) === undefined)
      this.#rememberInLoad(memoKey, primed, load);
  }

  /** Returns what this request has read under `memoKey`, or reads it. Inside of a load: what was read since the load began. */
  #remembered(
    memoKey: unknown,
    id: Id,
    names: IdNames | LoaderBypassReason,
    load: EnclosingLoad | undefined,
  ): Promise<Value> {
    if (load !== undefined) return this.#rememberedInLoad(memoKey, id, names, load);
    const known = this.#memo.get(memoKey);
    if (known !== undefined && !this.#requests.mustReadAgain(known)) {
      this.#requests.recalled(known);
      return known as Promise<Value>;
    }
    const value = this.#readOnTime(id, names, "none");
    this.#requests.remembered(value);
    if (this.#definition.memo.cache !== false) this.#memo.set(memoKey, value);
    return value;
  }

  #rememberedInLoad(
    memoKey: unknown,
    id: Id,
    names: IdNames | LoaderBypassReason,
    load: EnclosingLoad,
  ): Promise<Value> {
    const known = this.#memoInLoads?.get(memoKey, load);
    if (known === undefined || this.#requests.mustReadAgain(known.value)) {
      const value = this.#readOnTime(id, names, "other-load");
      this.#requests.remembered(value);
      if (this.#definition.memo.cache !== false) this.#rememberInLoad(memoKey, value, load);
      return value;
    }
    const value = known.value as Promise<Value>;
    this.#requests.recalled(value);
    if (known.load === load) return value;
    return value.catch((error: unknown) => {
      // Nobody waits for the other load any more, but somebody for this one.
      if (!isAbandonment(error)) throw error;
      if (this.#memoInLoads?.get(memoKey, load)?.value === value) this.#memoInLoads.delete(memoKey);
      return this.#rememberedInLoad(memoKey, id, names, load);
    });
  }

  #rememberInLoad(memoKey: unknown, value: Promise<unknown>, load: EnclosingLoad): void {
    this.#memoInLoads ??= new MemoInLoads();
    this.#memoInLoads.set(memoKey, value, load, this.#definition.parts.tier.loadStarts);
  }

  /**
   * Whether nothing is remembered of an id: without the caller's identity, nothing tells a PRIVATE value from that of the
   * next caller, whose request can have the same context.
   */
  #isForgotten(names: IdNames | LoaderBypassReason): boolean {
    return typeof names === "string" && this.#definition.policy.scope === "PRIVATE";
  }

  /** Reads an id when the schedule says so. */
  #readOnTime(id: Id, names: IdNames | LoaderBypassReason, nesting: Nesting): Promise<Value> {
    const schedule = this.#schedule;
    if (schedule === undefined) return this.#read(id, names, nesting);
    return schedule.dispatched().then(() => this.#read(id, names, nesting));
  }

  #read(id: Id, names: IdNames | LoaderBypassReason, nesting: Nesting): Promise<Value> {
    if (typeof names === "string") return this.#bypass(id, names);
    const { tier } = this.#definition.parts;
    if (!tier.modes.isUnrestricted) {
      const reason = tier.modes.reasonOf(this.name);
      if (reason === "MODE_OFF") return this.#bypass(id, reason);
      if (reason === "MODE_OBSERVE") return this.#observe(id, names);
    }
    const cleared = this.#cleared?.get(names.memoKey);
    if (cleared === undefined) return tier.read(this.#requests.requestOf(id, names), nesting) as Promise<Value>;
    this.#cleared?.delete(names.memoKey);
    return cleared.then(
      (isError) => tier.read(this.#requests.requestOf(id, names, isError), nesting) as Promise<Value>,
    );
  }

  #observe(id: Id, names: IdNames): Promise<Value> {
    this.#reportBypassed("MODE_OBSERVE");
    const request = this.#requests.requestOf(id, names);
    return this.#definition.parts.tier.observe(request, () => this.#requests.loadUncached(id)) as Promise<Value>;
  }

  #bypass(id: Id, reason: LoaderBypassReason): Promise<Value> {
    this.#reportBypassed(reason);
    return this.#requests.loadUncached(id);
  }

  #reportBypassed(reason: LoaderBypassReason): void {
    const error = this.#requests.mistakeOf(reason);
    this.#definition.parts.channel.publish({
      name: "resolver.bypassed",
      coordinate: this.name,
      digest: "",
      reason,
      ...(error === undefined ? {} : { error }),
    });
    this.#requests.reportBypassed(reason);
  }
}

/** Resolves to whether a promise has rejected by now. */
const hasRejected = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise, undefined]).then(
    () => false,
    () => true,
  );

/** When the ids that are asked for together are read, as DataLoader's `batchScheduleFn` says. */
class BatchSchedule {
  readonly #schedule: (dispatch: () => void) => void;
  #next: Promise<void> | undefined;

  constructor(schedule: (dispatch: () => void) => void) {
    this.#schedule = schedule;
  }

  /** Resolves when what is asked for now is to be read. Throws what the schedule throws. */
  dispatched(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    let hasDispatched = false;
    const { promise: next, resolve } = new Deferred<void>();
    this.#schedule(() => {
      hasDispatched = true;
      // It may be called again, when others are asked for.
      if (this.#next === next) this.#next = undefined;
      resolve();
    });
    if (!hasDispatched) this.#next = next;
    return next;
  }
}

/** Returns a DataLoader for arguments that it refuses. */
const refusing = (name: string): DataLoader<never, never> => new DataLoader(() => Promise.resolve([]), { name });

/** What DataLoader accepts: an array, or an object that has as many members as its length says. */
export const isArrayLike = (value: unknown): value is ArrayLike<unknown> =>
  typeof value === "object" && value !== null && typeof (value as { length?: unknown }).length === "number";

/** Returns what a request remembers an id by, in a form that no other id has: not all have names. */
function memoKeyOf(id: unknown, names: IdNames | LoaderBypassReason): unknown {
  if (typeof names !== "string") return names.memoKey;
  return typeof id === "string" || typeof id === "number" ? `\0${typeof id} ${id}` : id;
}
