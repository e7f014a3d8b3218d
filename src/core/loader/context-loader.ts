import DataLoader from "dataloader";
import { asError } from "../store/answers.js";
import type { Nesting } from "../tier/read/hit.js";
import type { Reads } from "../tier/read/reads.js";
import { type EnclosingLoad, isAbandonment } from "../tier/request/waiters.js";
import type { InvalidationClock } from "../tier/shared/invalidation-clock.js";
import { isArrayLike } from "./batch-call.js";
import type { Ask, ContextRequests, LoaderBypassReason, OwnLoader } from "./context-requests.js";
import type { IdKey } from "./loader-keys.js";
import { MemoInLoads } from "./memo-in-loads.js";

/**
 * The loader of one name for one context and caller. It remembers by DataLoader's rules: one
 * promise for each key until it is cleared. It is no DataLoader, since the tier collects the keys
 * of all requests of a tick: to collect those of each request before would cost as much again.
 */
export class ContextLoader<Id, Value, Context> implements OwnLoader<Id, Value> {
  readonly name: string;
  readonly #requests: ContextRequests<Id, Value, Context>;
  readonly #tier: Reads;
  readonly #invalidations: InvalidationClock;
  readonly #remembers: boolean;
  /** What this request has read, by the `memoKey` of its id, or by the id if it has no key. */
  readonly #memo = new Map<unknown, Remembered>();
  readonly #memoInLoads = new MemoInLoads<Remembered>();
  /**
   * Whether what was cleared is an error, by memo key. The error can be shared by the store for a
   * moment, and clearing it asks for another attempt. Contains only what is read again with the
   * next `load`.
   */
  readonly #cleared = new Map<unknown, Promise<boolean>>();

  constructor(requests: ContextRequests<Id, Value, Context>) {
    const { options, parts } = requests.definition;
    this.name = options.name;
    this.#requests = requests;
    this.#tier = parts.tier;
    this.#invalidations = parts.invalidations;
    this.#remembers = options.cache !== false;
  }

  load(id: Id, ask?: Ask): Promise<Value> {
    // DataLoader throws its own error, before a lease is requested.
    if (id === undefined || id === null) return refusing(this.name).load(id as never);
    const names = this.#requests.namesOf(id);
    const tier = this.#tier;
    if (this.#isForgotten(names)) return this.#read(id, names, "none", ask);
    if (typeof names === "string")
      return this.#remembered(memoKeyOf(id, names), id, names, tier.loads.enclosing(), ask);
    this.#forgetOutdated(names);
    const { memoKey } = names;
    const nesting = tier.nestingOf(names);
    // The memoized promise is the one that waits for this load.
    if (nesting === "own-load") return this.#read(id, names, nesting, ask);
    const value = this.#remembered(memoKey, id, names, nesting === "none" ? undefined : tier.loads.enclosing(), ask);
    // The memoized promise may be that of a load that waits for the slot of the load around this
    // call.
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
    return this;
  }

  clearAll(): this {
    for (const memoKey of [...this.#memo.keys(), ...this.#memoInLoads.keys()]) this.#noteCleared(memoKey);
    this.#memo.clear();
    this.#memoInLoads.clear();
    return this;
  }

  prime(id: Id, value: Value | PromiseLike<Value> | Error): this {
    const names = this.#requests.namesOf(id);
    if (this.#isForgotten(names)) return this;
    if (typeof names !== "string") this.#forgetOutdated(names);
    this.#rememberUnlessKnown(memoKeyOf(id, names), value);
    this.#requests.primed(typeof names === "string" ? undefined : names);
    return this;
  }

  #noteCleared(memoKey: unknown): void {
    const values = [this.#memo.get(memoKey)?.value, this.#memoInLoads.last(memoKey)?.value].filter(
      (value) => value !== undefined,
    );
    if (values.length === 0) return;
    const failed = Promise.all(values.map(hasRejected)).then((all) => all.includes(true));
    this.#cleared.set(memoKey, failed);
    void failed.then((isError) => {
      if (!isError && this.#cleared.get(memoKey) === failed) this.#cleared.delete(memoKey);
    });
  }

  /**
   * Forgets what was read or primed for an id if its `maxAge` is over, or something that it depends
   * on was invalidated since, as far as this process knows: a context can outlive its request, as
   * that of a subscription does.
   */
  #forgetOutdated(names: IdKey): void {
    const { memoKey } = names;
    const remembered = this.#memo.get(memoKey);
    if (remembered !== undefined && this.#isOutdated(remembered, names)) this.#memo.delete(memoKey);
    const inLoads = this.#memoInLoads.last(memoKey);
    if (inLoads !== undefined && this.#isOutdated(inLoads, names)) this.#memoInLoads.delete(memoKey);
  }

  #isOutdated(remembered: Remembered, { key, tags }: IdKey): boolean {
    const invalidations = this.#invalidations;
    if (this.#requests.now() - remembered.readAt >= this.#requests.policy.maxAgeMs) return true;
    if (remembered.changes === invalidations.changes) return false;
    const position = Math.max(remembered.position, invalidations.firstPosition);
    if (!invalidations.isUntouched(position, key, tags.subjects)) return true;
    // Which tags the value has besides is not known.
    const hasMoreTags = this.#requests.hasResultTags || this.#tier.hasResultTags({ key, tags });
    if (hasMoreTags && position < invalidations.latest) return true;
    remembered.changes = invalidations.changes;
    return false;
  }

  #newlyRead(value: Promise<unknown>): Remembered {
    const { position, changes } = this.#invalidations;
    return { value, position, changes, readAt: this.#requests.now() };
  }

  #forget(memoKey: unknown): void {
    this.#memo.delete(memoKey);
    this.#memoInLoads.delete(memoKey);
  }

  #rememberUnlessKnown(memoKey: unknown, value: Value | PromiseLike<Value> | Error): void {
    if (!this.#remembers) return;
    const primed = value instanceof Error ? Promise.reject(value) : Promise.resolve(value);
    // Prevents an unhandled rejection if nobody asks for it.
    primed.catch(() => undefined);
    this.#requests.remembered(primed);
    if (!this.#memo.has(memoKey)) this.#memo.set(memoKey, this.#newlyRead(primed));
    const load = this.#tier.loads.enclosing();
    if (load !== undefined && this.#memoInLoads.get(memoKey, load) === undefined)
      this.#memoInLoads.set(memoKey, this.#newlyRead(primed), load, this.#tier.loads.starts);
  }

  /**
   * Returns what this request has read under `memoKey`, or reads it. Inside of a load: what was
   * read since the load began.
   */
  #remembered(
    memoKey: unknown,
    id: Id,
    names: IdKey | LoaderBypassReason,
    load: EnclosingLoad | undefined,
    ask: Ask | undefined,
  ): Promise<Value> {
    const inLoad = load && this.#memoInLoads.get(memoKey, load);
    const known = (load === undefined ? this.#memo.get(memoKey) : inLoad?.value)?.value as Promise<Value> | undefined;
    if (known === undefined) {
      const value = this.#read(id, names, load === undefined ? "none" : "other-load", ask);
      this.#requests.remembered(value);
      if (this.#remembers && load !== undefined)
        this.#memoInLoads.set(memoKey, this.#newlyRead(value), load, this.#tier.loads.starts);
      else if (this.#remembers) this.#memo.set(memoKey, this.#newlyRead(value));
      return value;
    }
    this.#requests.recalled(known);
    if (inLoad?.load === load) return known;
    return known.catch((error: unknown) => {
      // Nobody waits for the other load any more, but somebody for this one.
      if (!isAbandonment(error)) throw error;
      if (this.#memoInLoads.last(memoKey)?.value === known) this.#memoInLoads.delete(memoKey);
      return this.#remembered(memoKey, id, names, load, ask);
    });
  }

  /**
   * Whether nothing is remembered of an id: without an identity, nothing tells a PRIVATE value from
   * that of the next caller of the same context.
   */
  #isForgotten(names: IdKey | LoaderBypassReason): boolean {
    return typeof names === "string" && this.#requests.policy.scope === "PRIVATE";
  }

  #read(id: Id, names: IdKey | LoaderBypassReason, nesting: Nesting, ask: Ask | undefined): Promise<Value> {
    const requests = this.#requests;
    const tier = this.#tier;
    if (typeof names === "string") return requests.bypass(id, names, ask);
    if (tier.modes.isOff(this.name)) return requests.bypass(id, "MODE_OFF", ask);
    const cleared = this.#cleared.get(names.memoKey);
    const read = (isForced: boolean): Promise<Value> => {
      const request = requests.requestOf(id, names, isForced, ask);
      const isKnown = request.usesMemory && nesting === "none" && tier.isPlain;
      return (isKnown ? tier.readKnown(request) : tier.read(request, nesting)) as Promise<Value>;
    };
    if (cleared === undefined) return read(false);
    this.#cleared.delete(names.memoKey);
    return cleared.then(read);
  }
}

/** What a request remembers of an id. */
interface Remembered {
  readonly value: Promise<unknown>;
  /** Up to where this process knew the invalidations when it was asked for. */
  readonly position: number;
  /** The `changes` of the invalidation clock up to which it has been compared. */
  changes: number;
  /** On the clock of this process. */
  readonly readAt: number;
}

/** Resolves to whether a promise has rejected by now. */
const hasRejected = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise, undefined]).then(
    () => false,
    () => true,
  );

/** Returns a DataLoader for arguments that it refuses. */
const refusing = (name: string): DataLoader<never, never> => new DataLoader(() => Promise.resolve([]), { name });

/**
 * Returns what a request remembers an id by, in a form that no other id has: not all have names.
 */
function memoKeyOf(id: unknown, names: IdKey | LoaderBypassReason): unknown {
  if (typeof names !== "string") return names.memoKey;
  return typeof id === "string" || typeof id === "number" ? `\0${typeof id} ${id}` : id;
}
