import { CachedError } from "../base/errors.js";
import { copyOfInput } from "../keys/canonical.js";
import type { KeySpace, Variant } from "../keys/key.js";
import type { KnownTags } from "../keys/known-tags.js";
import type { Policy, PolicySettings } from "../policy/policy.js";
import type { Channel } from "../telemetry/channel.js";
import type { Logger } from "../telemetry/log-listener.js";
import type { Invalidation } from "../tier/invalidation/invalidate.js";
import type { Memory } from "../tier/memory/memory.js";
import type { KnownRequest } from "../tier/read/hit.js";
import type { Reads } from "../tier/read/reads.js";
import { canBeKept, type Memos } from "../tier/request/known-key.js";
import type { Excess } from "../tier/request/loaded.js";
import type { ReadReport, ReadRequest } from "../tier/request/request.js";
import { type RequestTags, ResultTags } from "../tier/request/tags.js";
import type { InvalidationClock } from "../tier/shared/invalidation-clock.js";
import type { Variants } from "../tier/shared/variants.js";
import type { IdLoad, Source } from "./batch-call.js";
import type { ContextWatch } from "./context-watch.js";
import type { ExistenceParts } from "./existence.js";
import { contextChanged, type Identity, identityMistake, identityOf } from "./identity.js";
import { takeKept } from "./kept-report.js";
import type { IdKey, KeyOptions, LoaderKeys } from "./loader-keys.js";
import type { CachedLoader, LoaderKind, LoaderOptions } from "./loader-options.js";
import type { LoaderRule } from "./loader-rule.js";
import type { RequestSignals } from "./request-signals.js";
import type { Observer, PartCollector, RequestStates } from "./request-states.js";
import type { TypeShapes } from "./type-shapes.js";

/**
 * Makes the requests of one loader, one context and one caller, and passes their loads to the
 * source.
 */
export class ContextRequests<Id, Value, Context> {
  readonly definition: LoaderDefinition<Id, Value, Context>;
  readonly coordinate: string;
  readonly policy: Policy;
  /** See `SourceBatch`. */
  readonly maxSize: number | undefined;
  readonly #context: Context;
  readonly #identity: Identity | undefined;
  readonly #variant: Variant;
  readonly #resultTags: RequestTags["subjectsOf"];
  readonly #source: Source<Id, Value>;
  #keyMistake: unknown;
  readonly #collectedBy = new WeakMap<object, PartCollector>();

  /**
   * `identity`: that of the caller, if the loader is PRIVATE and it is known. `loader`: the `this`
   * of a batch function.
   */
  constructor(
    definition: LoaderDefinition<Id, Value, Context>,
    context: Context,
    loader: CachedLoader<Id, Value>,
    identity: Identity | undefined,
  ) {
    const { options, policy } = definition;
    this.definition = definition;
    this.coordinate = options.name;
    this.policy = policy;
    this.maxSize = options.maxBatchSize;
    this.#context = context;
    this.#identity = identity;
    this.#variant = definition.variantOf();
    this.#resultTags = options.type === undefined ? undefined : this.#resultTagsOf(options.type);
    this.#source = definition.sourceOf(context, loader, policy);
  }

  /** Whether values have tags that are derived from them. */
  get hasResultTags(): boolean {
    return this.#resultTags !== undefined;
  }

  now(): number {
    return this.definition.parts.clock.now();
  }

  /** Returns what finds the tags of the entities in a value. Undefined: there are none. */
  #resultTagsOf(type: string): RequestTags["subjectsOf"] {
    const { keys, typeShapes } = this.definition.parts;
    const { entityTagsIn } = typeShapes.of(this.coordinate, type);
    return entityTagsIn && ((value) => keys.tags(entityTagsIn(value, this.#context)));
  }

  get #isPrivate(): boolean {
    return this.policy.scope === "PRIVATE";
  }

  get #observer(): Observer | undefined {
    return this.definition.parts.requestStates.observerOf(this.#context);
  }

  namesOf(id: Id): IdKey | LoaderBypassReason {
    const { names, parts } = this.definition;
    if (parts.requestStates.overrideOf(this.#context) === "BYPASS") return "REQUESTED";
    if (this.#isPrivate && this.#identity === undefined) return "NO_IDENTITY";
    try {
      return names.of(id, this.#identity, this.#variant);
    } catch (error) {
      this.#keyMistake = error;
      return "KEY_UNUSABLE";
    }
  }

  /** `isForced`: it asks the source, whatever the store has. */
  requestOf(given: Id, names: IdKey, isForced = false, ask?: Ask): LoaderRequest {
    const { mayExist, parts, options, inputOf, originOf } = this.definition;
    // The source gets what the key was made of, whatever the caller makes of its object meanwhile.
    const id = typeof given === "object" ? (copyOfInput(given) as Id) : given;
    let hasOtherKey = false;
    const { coordinate, policy } = this;
    const { key, identity } = names;
    const tags = this.#resultTags === undefined ? names.tags : new ResultTags(names.tags, this.#resultTags);
    // That of the caller now, when it asks.
    const observer = toldBy(this.#observer, ask);
    const { tier, channel } = parts;
    const { memory } = tier;
    const override = parts.requestStates.overrideOf(this.#context);
    const request: LoaderRequest = {
      key,
      known: names,
      usesMemory: override === undefined && !isForced && memory !== undefined && canBeKept(names),
      acceptsKept: () => true,
      takeKept: () => takeKept(names, memory as Memory, policy, observer, undefined, channel),
      missed: (result, verdict) => tier.respond(request, result, undefined, verdict),
      policy,
      tags,
      isForced: isForced || override === "REFRESH",
      // The loads of one request are one call.
      batch: options.kind.noun === "function" ? undefined : this,
      owner: this.#context === undefined ? undefined : this,
      caller: undefined,
      input: this.#isPrivate ? undefined : () => (inputOf === undefined ? id : inputOf(id)),
      mayExist: mayExist && (() => mayExist(id)),
      load: (waiters, result) => {
        hasOtherKey = typeof id === "object" && !this.#isKeyOf(id, names);
        return this.#source(this.#idLoad(id, { waiters, result }));
      },
      excess: () => (hasOtherKey ? changedId(coordinate, options.kind) : undefined),
      ...(options.hasOwnKey ? { source: originOf(given), context: this.#context } : {}),
      changed: () => (this.readIdentity(id) === identity ? undefined : contextChanged(coordinate, "identity")),
      signals: () => parts.signals.of(coordinate, parts.requestStates.contextOf(this.#context)),
      onRead: observer && ((report) => observer.onRead(coordinate, report, undefined, key)),
    };
    return request;
  }

  /**
   * Whether an id still has the key that it was asked for with. An instance of a class, which
   * cannot be copied, may have another one by now.
   */
  #isKeyOf(id: Id, { key, identity }: IdKey): boolean {
    try {
      return this.definition.names.keyOf(id, identity, this.#variant).name === key.name;
    } catch {
      return false;
    }
  }

  /** The identity of the caller. Undefined if the loader is PUBLIC, or if it is not known. */
  readIdentity(id: Id): Identity | undefined {
    return this.#isPrivate ? identityOf(this.definition.identifyOf(id), this.#context) : undefined;
  }

  #idLoad(id: Id, cached: IdLoad<Id>["cached"]): IdLoad<Id> {
    return { id, cached, enclosing: this.definition.parts.tier.loads.enclosing(), toString: () => String(id) };
  }

  bypass(id: Id, reason: LoaderBypassReason, ask?: Ask): Promise<Value> {
    const { coordinate } = this;
    const mistake = this.#mistakeOf(id, reason);
    const error = mistake === undefined ? {} : { error: mistake };
    this.definition.parts.channel.publish({ name: "resolver.bypassed", coordinate, digest: "", reason, ...error });
    const report: ReadReport = { outcome: "bypassed", isPrivate: this.#isPrivate, reason };
    toldBy(this.#observer, ask)?.onRead(coordinate, report, undefined);
    return this.#source(this.#idLoad(id, undefined));
  }

  #mistakeOf(id: Id, reason: LoaderBypassReason): CachedError | undefined {
    const { names, identifyOf, identifyPlace } = this.definition;
    if (reason === "NO_IDENTITY") return identityMistake(identifyOf(id), this.#context, this.coordinate, identifyPlace);
    return reason === "KEY_UNUSABLE" ? names.mistakeOf(this.#keyMistake) : undefined;
  }

  remembered(value: object): void {
    const { collector } = this.#observer ?? {};
    if (collector !== undefined) this.#collectedBy.set(value, collector);
  }

  recalled(value: object): void {
    for (const collector of this.#observer?.collector?.members ?? [])
      if (this.#collectedBy.get(value)?.members.has(collector) !== true)
        collector.refuse(`\`${this.coordinate}\` had read an id before the operation was executed`);
  }

  primed(names: IdKey | undefined): void {
    this.#observer?.collector?.addPrimed(names, this.policy);
  }
}

/** Receives how a read was answered, for a caller who wants to know. */
export type Ask = (report: ReadReport) => void;

/** The loader of one caller. */
export interface OwnLoader<Id, Value> extends Pick<CachedLoader<Id, Value>, "loadMany"> {
  load(id: Id, ask?: Ask): Promise<Value>;
  clear(id: Id): unknown;
  clearAll(): unknown;
  prime(id: Id, value: Value | PromiseLike<Value> | Error): unknown;
}

/** Returns an observer that tells the caller too. */
function toldBy(observer: Observer | undefined, ask: Ask | undefined): Observer | undefined {
  if (ask === undefined) return observer;
  return {
    collector: observer?.collector,
    onRead(coordinate, report, info, key) {
      ask(report);
      observer?.onRead(coordinate, report, info, key);
    },
  };
}

const changedId = (coordinate: string, { noun, input }: LoaderKind): Excess => ({
  kind: "unkeyable",
  error: new CachedError(
    "CACHED_KEY_UNUSABLE",
    `${noun} \`${coordinate}\`: the value is not cached: expected an ${input} that stays as it is until its load has begun, got one that has another key by then; do not change it meanwhile`,
    { coordinate },
  ),
});

/** The request of one id. */
interface LoaderRequest extends KnownRequest {
  /** Whether its value may come from memory, and is kept there. */
  readonly usesMemory: boolean;
}

export interface LoaderParts extends ExistenceParts {
  readonly tier: Reads;
  readonly invalidation: Invalidation;
  readonly invalidations: InvalidationClock;
  readonly keys: KeySpace;
  readonly memos: Memos;
  readonly knownTags: KnownTags;
  readonly requestStates: RequestStates;
  readonly signals: RequestSignals;
  readonly channel: Channel;
  readonly logger: Logger;
  readonly defaults: PolicySettings;
  readonly identify: ((context: never) => unknown) | undefined;
  readonly contextWatch: ContextWatch;
  readonly variants: Variants;
  readonly typeShapes: TypeShapes;
  /** Where each loader registers under its name. */
  readonly loaders: Map<string, LoaderRule>;
  /**
   * Where each loader registers, under its name, how to rebuild its requests from their `input`.
   */
  readonly requestFactories: Map<string, (input: unknown, context: never) => ReadRequest>;
}

type MadeOptions<Id, Value, Context> = Pick<LoaderOptions<Id, Value, Context>, "cache" | "maxBatchSize" | "type"> &
  Omit<KeyOptions<Id>, "functions" | "hasOwnKey">;

/** What tells a loader or a function from others: what its ids are, and how they are loaded. */
export interface LoaderMaking<Id, Value, Context> {
  readonly options: MadeOptions<Id, Value, Context>;
  /** Returns what loads ids with the cache. */
  sourceOf(context: Context, loader: CachedLoader<Id, Value>, policy: Policy): Source<Id, Value>;
  /** Returns the loader of a policy with `maxAge: 0`. Default: one that remembers nothing. */
  uncached?(context: Context, loader: CachedLoader<Id, Value>, remembers: boolean): OwnLoader<Id, Value>;
  /** Returns the identity of the caller. */
  readonly identify: ((context: Context, id: Id) => unknown) | undefined;
  /** Where the user has written `identify`. */
  readonly identifyPlace?: string | undefined;
  /** Returns what a load is made from besides its key, if a function of the user makes that. */
  originOf(id: Id): unknown;
  /** Returns plain data from which `idOf` makes the same id in another process. Default: the id. */
  inputOf?(id: Id): unknown;
  /**
   * Returns the id that an invalidation or the inspection names, or that a refresh job has, with
   * the context of its worker. Throws `CACHED_KEY_UNUSABLE`.
   */
  idOf(named: unknown, worker?: { readonly context: Context }): Id;
  readonly mayExist?: ((id: Id) => Promise<boolean>) | undefined;
}

/** What the loaders of one name have in common, whatever their contexts. */
export interface LoaderDefinition<Id, Value, Context> extends LoaderMaking<Id, Value, Context> {
  readonly options: MadeOptions<Id, Value, Context> & KeyOptions<Id>;
  /** Returns what says who calls, for one id and the object that it is read with. */
  readonly identifyOf: (id: Id) => ((context: Context) => unknown) | undefined;
  readonly policy: Policy;
  readonly names: LoaderKeys<Id>;
  readonly variantOf: () => Variant;
  readonly parts: LoaderParts;
}

export type LoaderBypassReason = "NO_IDENTITY" | "KEY_UNUSABLE" | "REQUESTED" | "MODE_OFF";
