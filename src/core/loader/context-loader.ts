import DataLoader from "dataloader";
import { succeeds } from "../base/deferred.js";
import { keyUnusable } from "../base/errors.js";
import { copyOfInput } from "../keys/canonical.js";
import type { KeySpace, Variant } from "../keys/key.js";
import type { KnownTags } from "../keys/known-tags.js";
import type { Policy, PolicySettings } from "../policy/policy.js";
import { asError } from "../store/answers.js";
import type { Channel } from "../telemetry/channel.js";
import type { Logger } from "../telemetry/log-listener.js";
import type { Invalidation } from "../tier/invalidation/invalidate.js";
import type { Memory } from "../tier/memory/memory.js";
import type { KnownRequest, Reads } from "../tier/read/hit.js";
import { canBeKept, type Memos } from "../tier/request/known-key.js";
import { type Excess, isNegative } from "../tier/request/loaded.js";
import type { ReadReport, ReadRequest, SourceBatch } from "../tier/request/request.js";
import { type RequestTags, ResultTags } from "../tier/request/tags.js";
import { type EnclosingLoad, isAbandonment } from "../tier/request/waiters.js";
import type { InvalidationClock } from "../tier/shared/invalidation-clock.js";
import type { Variants } from "../tier/shared/variants.js";
import { type IdLoad, isArrayLike, type Source } from "./batch-call.js";
import type { ContextWatch } from "./context-watch.js";
import type { ExistenceParts } from "./existence.js";
import { contextChanged, type Identity, identityMistake, identityOf } from "./identity.js";
import { takeKept } from "./kept-report.js";
import { IdKey, type KeyOptions, type LoaderKeys } from "./loader-keys.js";
import type { CachedLoader, LoaderKind, LoaderOptions, LoaderRule } from "./loader-options.js";
import { MemoInLoads } from "./memo-in-loads.js";
import { Remembered } from "./remembered.js";
import type { RequestSignals } from "./request-signals.js";
import type { Observer, RequestStates } from "./request-states.js";
import type { TypeShapes } from "./type-shapes.js";

/**
 * The loader of one name, context and caller. It remembers by DataLoader's rules: one promise for
 * each key until it is cleared. It is no DataLoader, since the tier collects the keys of all
 * requests of a tick: collecting those of each request before would cost as much again.
 */
export class ContextLoader<Id, Value, Context> implements OwnLoader<Id, Value>, SourceBatch {
  readonly maxSize: number | undefined;
  readonly outside: SourceBatch;
  readonly #identity: Identity | undefined;
  readonly #isPrivate: boolean;
  readonly #variant: Variant;
  readonly #subjectsOf: RequestTags["subjectsOf"];
  readonly #source: Source<Id, Value>;
  readonly #remembers: boolean;
  /** What this request has read, by the `memoKey` of its id, or by the id if it has no key. */
  readonly #memo = new Map<unknown, Remembered>();
  readonly #memoInLoads = new MemoInLoads<Remembered>();
  /** How much is remembered when what has expired is forgotten. */
  #forgetAt = MIN_FORGOTTEN;
  /** By memo key, whether what was cleared has failed: the next read asks the source again. */
  readonly #cleared = new Map<unknown, { readonly failed: Promise<boolean>; readonly until: number }>();

  /** `identity`: not used by PUBLIC loaders. `loader`: the `this` of a batch function. */
  constructor(
    private readonly definition: LoaderDefinition<Id, Value, Context>,
    private readonly context: Context,
    loader: CachedLoader<Id, Value>,
    identity: Identity | undefined,
  ) {
    const { options, policy } = definition;
    this.maxSize = options.maxBatchSize;
    this.outside = { maxSize: this.maxSize };
    this.#isPrivate = policy.scope === "PRIVATE";
    this.#identity = this.#isPrivate ? identity : undefined;
    this.#variant = definition.variantOf();
    this.#subjectsOf = options.type === undefined ? undefined : subjectsOfType(definition, options.type, context);
    this.#source = definition.sourceOf(context, loader, policy);
    this.#remembers = options.cache !== false;
  }

  load(id: Id, ask?: Ask): Promise<Value> {
    // DataLoader throws its own error, before a lease is requested.
    if (id === undefined || id === null) return refusing(this.#name).load(id as never);
    const { tier } = this.definition.parts;
    const names = this.#namesOf(id);
    if (this.#isForgotten(names)) return this.#read(id, names, ask);
    if (!(names instanceof IdKey)) return this.#remembered(id, names, tier.loads.enclosing(), ask);
    const nesting = tier.nestingOf(names);
    // The memoized promise is the one that waits for this load.
    if (nesting === "own-load") return this.#read(id, names, ask);
    const value = this.#remembered(id, names, nesting === "none" ? undefined : tier.loads.enclosing(), ask);
    // It may be that of a load that waits for the slot of the load around this call.
    if (nesting === "other-load") tier.loads.expedite(names.key, value);
    return value;
  }

  loadMany(ids: ArrayLike<Id>): Promise<(Value | Error)[]> {
    // DataLoader throws its own error.
    if (!isArrayLike(ids)) return refusing(this.#name).loadMany(ids as never);
    return Promise.all(Array.from(ids, (id) => this.load(id).catch(asError)));
  }

  clear(id: Id): void {
    this.#clear(memoKeyOf(id, this.#namesOf(id)));
  }

  clearAll(): void {
    for (const memoKey of [...this.#memo.keys(), ...this.#memoInLoads.entries.keys()]) this.#clear(memoKey);
  }

  prime(id: Id, value: Value | PromiseLike<Value> | Error): void {
    const { tier } = this.definition.parts;
    const names = this.#namesOf(id);
    if (this.#isForgotten(names)) return;
    if (this.#remembers) {
      const memoKey = memoKeyOf(id, names);
      this.#forgetExpired();
      this.#forgetOutdated(memoKey, names);
      const primed: Promise<unknown> = value instanceof Error ? Promise.reject(value) : Promise.resolve(value);
      // Prevents an unhandled rejection if nobody asks for it.
      primed.catch(ignore);
      if (!this.#memo.has(memoKey)) this.#memo.set(memoKey, this.#newlyRead(primed, undefined));
      const load = tier.loads.enclosing();
      if (load !== undefined && this.#inLoad(memoKey, names, load) === undefined)
        this.#memoInLoads.prime(memoKey, this.#newlyRead(primed, load), load);
    }
    const observer = this.#observer;
    observer?.onKnown?.(this.#isPrivate);
    observer?.collector?.addPrimed(names instanceof IdKey ? names : undefined, this.definition.policy);
  }

  /** Returns the request of an id for a worker. Undefined if it has no key. */
  requestFor(id: Id): ReadRequest | undefined {
    const names = this.#namesOf(id);
    return names instanceof IdKey ? this.#requestOf(id, names) : undefined;
  }

  get #name(): string {
    return this.definition.options.name;
  }

  get #observer(): Observer | undefined {
    return this.definition.parts.requestStates.observerOf(this.context);
  }

  #namesOf(id: Id): Names {
    const { names, parts } = this.definition;
    if (parts.requestStates.overrideOf(this.context) === "BYPASS") return { reason: "REQUESTED" };
    if (this.#isPrivate && this.#identity === undefined) return { reason: "NO_IDENTITY" };
    try {
      return names.of(id, this.#identity, this.#variant);
    } catch (cause) {
      return { reason: "KEY_UNUSABLE", cause };
    }
  }

  /** Without an identity, nothing tells a PRIVATE value from that of the next caller. */
  #isForgotten(names: Names): boolean {
    return this.#isPrivate && !(names instanceof IdKey);
  }

  /** Forgets what was read by a memo key, and notes whether that was an error. */
  #clear(memoKey: unknown): void {
    const cleared = [this.#memo.get(memoKey), this.#memoInLoads.entries.get(memoKey)?.last].filter(
      (remembered) => remembered !== undefined,
    );
    this.#memo.delete(memoKey);
    this.#memoInLoads.entries.delete(memoKey);
    if (cleared.length === 0) return;
    const failed = Promise.all(cleared.map(hasRejected)).then((all) => all.includes(true));
    this.#cleared.set(memoKey, { failed, until: Math.max(...cleared.map(({ until }) => until)) });
    void failed.then((isError) => {
      if (!isError && this.#cleared.get(memoKey)?.failed === failed) this.#cleared.delete(memoKey);
    });
  }

  /** Forgets what is outdated: a context can outlive its request, as with a subscription. */
  #forgetOutdated(memoKey: unknown, names: Names): void {
    const remembered = this.#memo.get(memoKey);
    if (remembered !== undefined && this.#isOutdated(remembered, names)) this.#memo.delete(memoKey);
  }

  /** A context that lives for days is asked for most ids once. (P13) */
  #forgetExpired(): void {
    const size = (): number => this.#memo.size + this.#memoInLoads.entries.size + this.#cleared.size;
    if (size() < this.#forgetAt) return;
    const now = this.definition.parts.clock.now();
    for (const memory of [this.#memo, this.#cleared])
      for (const [memoKey, { until }] of memory) if (now >= until) memory.delete(memoKey);
    for (const [memoKey, { last }] of this.#memoInLoads.entries)
      if (now >= last.until) this.#memoInLoads.entries.delete(memoKey);
    this.#forgetAt = MIN_FORGOTTEN + 2 * size();
  }

  /** Returns what a load may have, and forgets it if it is outdated. */
  #inLoad(memoKey: unknown, names: Names, load: EnclosingLoad): ReturnType<MemoInLoads<Remembered>["get"]> {
    const found = this.#memoInLoads.get(memoKey, load);
    if (found === undefined || !this.#isOutdated(found.value, names)) return found;
    this.#memoInLoads.entries.delete(memoKey);
    return undefined;
  }

  #isOutdated(remembered: Remembered, names: Names): boolean {
    const { invalidations, clock, tier } = this.definition.parts;
    if (clock.now() >= remembered.until) return true;
    if (remembered.changes === invalidations.changes) return false;
    // Without a key, nothing says which of them concern it.
    if (!(names instanceof IdKey)) return true;
    const { key, tags } = names;
    // 0: what was read before the first position that was known.
    const position = remembered.position || invalidations.firstPosition;
    const moment = { position, restarts: remembered.restarts };
    if (invalidations.isOlderThanKnown(moment, key, tags.subjects)) return true;
    // Which tags the value has besides is not known.
    const hasMoreTags = this.#subjectsOf !== undefined || tier.hasResultTags({ key, tags });
    if (hasMoreTags && invalidations.hasNewsSince(moment)) return true;
    remembered.changes = invalidations.changes;
    return false;
  }

  #newlyRead(value: Promise<unknown> | undefined, load: EnclosingLoad | undefined): Remembered {
    const { policy, parts } = this.definition;
    const remembered = new Remembered(policy, parts.clock, parts.invalidations, load !== undefined, this.#observer);
    if (value !== undefined) remembered.value = value;
    return remembered;
  }

  /** Returns what this request has read of an id, or reads it. Inside of a load: since it began. */
  #remembered(id: Id, names: Names, load: EnclosingLoad | undefined, ask: Ask | undefined): Promise<Value> {
    const memoKey = memoKeyOf(id, names);
    if (load === undefined) this.#forgetOutdated(memoKey, names);
    const inLoad = load && this.#inLoad(memoKey, names, load);
    const known = load === undefined ? this.#memo.get(memoKey) : inLoad?.value;
    if (known === undefined) {
      if (!this.#remembers) return this.#read(id, names, ask);
      this.#forgetExpired();
      const remembered = this.#newlyRead(undefined, load);
      const value = this.#read(id, names, ask, remembered);
      remembered.value = value;
      if (load === undefined) this.#memo.set(memoKey, remembered);
      else this.#memoInLoads.set(memoKey, remembered, load, this.definition.parts.tier.loads.starts);
      return value;
    }
    const observer = this.#observer;
    if (observer?.onKnown !== undefined && known.toldTo !== observer) {
      known.toldTo = observer;
      // It may have been read before anyone observed the request, or the read has not ended.
      const tell = () => {
        const isPrivate = this.#isPrivate || known.hint?.scope === "PRIVATE";
        observer.onKnown?.(isPrivate, known.freshUntil - this.definition.parts.clock.now());
      };
      known.value.then(tell, tell);
    }
    for (const collector of observer?.collector?.members ?? [])
      if (known.collector?.members.has(collector) !== true)
        collector.refuse(`\`${this.#name}\` had read an id before the operation was executed`);
    if (load === undefined || inLoad?.isOwn === true) return known.value as Promise<Value>;
    const copy = this.#copyOf(known, id, names, ask);
    this.#memoInLoads.set(memoKey, known.withValue(copy), load);
    return copy;
  }

  /**
   * Returns a value of its own for a load, of what another one has read: that may change it at any
   * time, or be the only one that may have it.
   */
  #copyOf(known: Remembered, id: Id, names: Names, ask: Ask | undefined): Promise<Value> {
    if (!(names instanceof IdKey) || known.isBypassed) return this.#read(id, names, ask);
    const { responder } = this.definition.parts.tier;
    known.isShared = true;
    const copy = responder.respondAgain(this.#requestOf(id, names, false, ask), known, known.value) as Promise<Value>;
    return copy.catch((error: unknown) => {
      // Nobody waits for the other load any more, but somebody for this one.
      if (!isAbandonment(error)) throw error;
      return this.#read(id, names, ask);
    });
  }

  #read(id: Id, names: Names, ask: Ask | undefined, remembered?: Remembered): Promise<Value> {
    if (!(names instanceof IdKey)) return this.#bypass(id, names, ask, remembered);
    const { tier } = this.definition.parts;
    if (tier.modes.isOff(this.#name)) return this.#bypass(id, { reason: "MODE_OFF" }, ask, remembered);
    const read = (isForced: boolean): Promise<Value> => {
      const request = this.#requestOf(id, names, isForced, ask, remembered);
      const isKnown = request.usesMemory && tier.isPlain;
      return (isKnown ? tier.readKnown(request) : tier.read(request)) as Promise<Value>;
    };
    const cleared = this.#cleared.get(names.memoKey);
    if (cleared === undefined) return read(false);
    this.#cleared.delete(names.memoKey);
    return cleared.failed.then(read);
  }

  #bypass(id: Id, { reason, cause }: Unnamed, ask: Ask | undefined, remembered?: Remembered): Promise<Value> {
    if (remembered !== undefined) remembered.isBypassed = true;
    const { names, parts, policy, identifyOf, identifyPlace } = this.definition;
    const coordinate = this.#name;
    const error =
      reason === "NO_IDENTITY"
        ? identityMistake(identifyOf(id), this.context, coordinate, identifyPlace)
        : reason === "KEY_UNUSABLE"
          ? names.mistakeOf(cause)
          : undefined;
    const mistake = error === undefined ? {} : { error };
    parts.channel.publish({ name: "resolver.bypassed", coordinate, digest: "", reason, ...mistake });
    const report: ReadReport = { outcome: "bypassed", isPrivate: this.#isPrivate, reason };
    toldBy(this.#observer, ask)?.onRead(coordinate, report, undefined);
    const value = this.#source(this.#idLoad(id, undefined));
    if (remembered !== undefined)
      void value.then((got) => isNegative(got) && remembered.keepFor(policy.negativeMaxAgeMs), ignore);
    return value;
  }

  #idLoad(id: Id, cached: IdLoad<Id>["cached"]): IdLoad<Id> {
    const { loads } = this.definition.parts.tier;
    return { id, cached, enclosing: loads.enclosing(), reader: cached === undefined ? loads.reader() : undefined };
  }

  /** `isForced`: it asks the source, whatever the store has. */
  #requestOf(given: Id, names: IdKey, isForced = false, ask?: Ask, remembered?: Remembered): LoaderRequest {
    const { mayExist, parts, options, inputOf, originOf, policy, identifyOf, names: keys } = this.definition;
    // The source gets what the key was made of, whatever the caller makes of its object meanwhile.
    const id = typeof given === "object" ? (copyOfInput(given) as Id) : given;
    let hasOtherKey = false;
    const source = originOf(given);
    const coordinate = options.name;
    const { key, identity } = names;
    // That of the caller now, when it asks.
    const observer = toldBy(this.#observer, ask);
    const { tier, channel, requestStates, signals } = parts;
    const { memory } = tier;
    const override = requestStates.overrideOf(this.context);
    const request: LoaderRequest = {
      key,
      known: names,
      usesMemory: override === undefined && !isForced && memory !== undefined && canBeKept(names),
      acceptsKept: () => true,
      takeKept: () => {
        const { kept } = names;
        if (kept !== undefined) remembered?.shorten(kept.freshUntilAt, kept.freshUntilAt);
        return takeKept(names, memory as Memory, policy, observer, undefined, channel);
      },
      missed: (respond) => respond(),
      policy,
      tags: this.#subjectsOf === undefined ? names.tags : new ResultTags(names.tags, this.#subjectsOf),
      isForced: isForced || override === "REFRESH",
      // The loads of one request are one call.
      batch: options.kind.noun === "function" ? undefined : this,
      owner: this.context === undefined ? undefined : this,
      identity,
      caller: undefined,
      input: this.#isPrivate ? undefined : () => (inputOf === undefined ? id : inputOf(id)),
      mayExist: mayExist && (() => mayExist(id)),
      load: (waiters, result) => {
        // An instance of a class, which cannot be copied, may have another key by now.
        hasOtherKey = typeof id === "object" && !keys.isKeyOf(id, names, this.#variant);
        // Loaders that are asked with the copy must know whose it is.
        const from = tier.loads.privateValues.coordinateIn(source, this.context);
        if (from !== undefined) tier.loads.privateValues.note(id, from, this.context);
        return this.#source(this.#idLoad(id, { waiters, result }));
      },
      excess: () => (hasOtherKey ? changedId(coordinate, options.kind) : undefined),
      ...(keys.hasOwnKey ? { source, context: this.context } : {}),
      ending: remembered,
      changed: () => {
        const now = this.#isPrivate ? identityOf(identifyOf(id), this.context) : undefined;
        return now === identity ? undefined : contextChanged(coordinate, "identity");
      },
      signals: () => signals.of(coordinate, requestStates.contextOf(this.context)),
      onRead:
        (remembered ?? observer) &&
        ((report) => {
          if (report.outcome !== "bypassed") remembered?.keepFor(report.freshForMs, report.hasFailed);
          else if (report.reason === "DOES_NOT_EXIST") remembered?.keepFor(0);
          observer?.onRead(coordinate, report, undefined, key);
        }),
      onHint: observer && ((hint) => observer.onHint?.(hint, undefined)),
    };
    return request;
  }
}

const MIN_FORGOTTEN = 100;

/** The key of an id, or why it has none; `cause`: what making it has thrown. */
type Names = IdKey | Unnamed;
interface Unnamed {
  readonly reason: "NO_IDENTITY" | "KEY_UNUSABLE" | "REQUESTED" | "MODE_OFF";
  readonly cause?: unknown;
}

export type Ask = (report: ReadReport) => void;

export interface OwnLoader<Id, Value> extends Pick<CachedLoader<Id, Value>, "loadMany"> {
  load(id: Id, ask?: Ask): Promise<Value>;
  clear(id: Id): unknown;
  clearAll(): unknown;
  prime(id: Id, value: Value | PromiseLike<Value> | Error): unknown;
}

interface LoaderRequest extends KnownRequest {
  readonly usesMemory: boolean;
}

const ignore = (): void => undefined;

const hasRejected = async ({ value }: Remembered): Promise<boolean> =>
  !(await succeeds(Promise.race([value, undefined])));

const refusing = (name: string): DataLoader<never, never> => new DataLoader(() => Promise.resolve([]), { name });

/** Not all ids have keys. What stands for one differs from all keys. */
function memoKeyOf(id: unknown, names: Names): unknown {
  if (names instanceof IdKey) return names.memoKey;
  return typeof id === "string" || typeof id === "number" ? `\0${typeof id} ${id}` : id;
}

function toldBy(observer: Observer | undefined, ask: Ask | undefined): Observer | undefined {
  if (ask === undefined) return observer;
  return {
    onRead(coordinate, report, info, key) {
      ask(report);
      observer?.onRead(coordinate, report, info, key);
    },
    onHint: (hint, info) => observer?.onHint?.(hint, info),
  };
}

/** Returns what finds the tags of the entities in a value. Undefined: there are none. */
function subjectsOfType<Id, Value, Context>(
  { options, parts: { keys, typeShapes } }: LoaderDefinition<Id, Value, Context>,
  type: string,
  context: Context,
): RequestTags["subjectsOf"] {
  const { entityTagsIn } = typeShapes.of(options, type);
  return entityTagsIn && ((value) => keys.tags(entityTagsIn(value, context)));
}

const changedId = (coordinate: string, { noun, input }: LoaderKind): Excess => ({
  kind: "unkeyable",
  error: keyUnusable(
    `${noun} \`${coordinate}\`: the value is not cached: expected an ${input} that stays as it is until its load has begun, got one that has another key by then; do not change it meanwhile`,
    { coordinate },
  ),
});

export interface LoaderParts extends ExistenceParts {
  readonly tier: Reads;
  readonly invalidation: Invalidation;
  readonly invalidations: InvalidationClock;
  readonly keys: KeySpace;
  readonly memos: Memos;
  /** The tags that values can have, to find those that nothing can have. */
  readonly knownTags: KnownTags;
  readonly requestStates: RequestStates;
  readonly signals: RequestSignals;
  readonly channel: Channel;
  readonly logger: Logger;
  /** The option `defaults`, with `defaultScope` as its scope. */
  readonly defaults: PolicySettings;
  readonly identify: ((context: never) => unknown) | undefined;
  readonly contextWatch: ContextWatch;
  readonly variants: Variants;
  readonly typeShapes: TypeShapes;
  readonly loaders: Map<string, LoaderRule>;
  /**
   * By coordinate or loader name: recreates requests in a worker that runs refresh jobs. Of a
   * coordinate alone, those of the schema that was applied last.
   */
  readonly requestFactories: Map<string, (input: unknown, context: never) => ReadRequest>;
}

/** What tells a loader or a function from others: what its ids are, and how they are loaded. */
export interface LoaderMaking<Id, Value, Context> {
  readonly options: KeyOptions<Id> & Pick<LoaderOptions<Id, Value, Context>, "cache" | "maxBatchSize" | "type">;
  sourceOf(context: Context, loader: CachedLoader<Id, Value>, policy: Policy): Source<Id, Value>;
  /** Returns the loader of a policy with `maxAge: 0`. Default: one that remembers nothing. */
  uncached?(context: Context, loader: CachedLoader<Id, Value>, remembers: boolean): OwnLoader<Id, Value>;
  readonly identify: ((context: Context, id: Id) => unknown) | undefined;
  readonly identifyPlace?: string | undefined;
  /** Returns what a load is made from, of which `id` can have copies. */
  originOf(id: Id): unknown;
  /** Returns plain data from which `idOf` makes the same id in another process. Default: the id. */
  inputOf?(id: Id): unknown;
  /** Returns the id that a caller, or a job in a worker, names. Throws `CACHED_KEY_UNUSABLE`. */
  idOf(named: unknown, worker?: { readonly context: Context }): Id;
  readonly mayExist?: ((id: Id) => Promise<boolean>) | undefined;
}

export interface LoaderDefinition<Id, Value, Context> extends LoaderMaking<Id, Value, Context> {
  /** Returns what says who calls, for one id and the object that it is read with. */
  readonly identifyOf: (id: Id) => ((context: Context) => unknown) | undefined;
  readonly policy: Policy;
  readonly names: LoaderKeys<Id>;
  readonly variantOf: () => Variant;
  readonly parts: LoaderParts;
}
