import DataLoader from "dataloader";
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
import type { ReadRequest } from "../tier/request/request.js";
import { type RequestTags, ResultTags } from "../tier/request/tags.js";
import type { EnclosingLoad } from "../tier/request/waiters.js";
import type { InvalidationClock } from "../tier/shared/invalidation-clock.js";
import type { Variants } from "../tier/shared/variants.js";
import { PER_TURN } from "../tier/tick/long-tick.js";
import { batchCall, type CachedLoad, isArrayLike } from "./batch-call.js";
import type { ContextWatch } from "./context-watch.js";
import { type ExistenceParts, givenIds } from "./existence.js";
import { contextChanged, type Identity, identityMistake, identityOf } from "./identity.js";
import { takeKept } from "./kept-report.js";
import type { IdKey, LoaderKeys } from "./loader-keys.js";
import type { CachedLoader, LoaderOptions } from "./loader-options.js";
import type { LoaderRule } from "./loader-rule.js";
import type { RequestSignals } from "./request-signals.js";
import type { Observer, PartCollector, RequestStates } from "./request-states.js";
import type { TypeShapes } from "./type-shapes.js";

/** Makes the requests of one loader, one context and one caller, and passes their loads to the source. */
export class ContextRequests<Id, Value, Context> {
  readonly definition: LoaderDefinition<Id, Value, Context>;
  readonly coordinate: string;
  readonly policy: Policy;
  /** See `SourceBatch`. */
  readonly maxSize: number | undefined;
  readonly #context: Context;
  /** The `this` of the batch function. */
  readonly #loader: CachedLoader<Id, Value>;
  readonly #identity: Identity | undefined;
  readonly #variant: Variant;
  readonly #resultTags: RequestTags["subjectsOf"];
  readonly #source: DataLoader<IdLoad<Id>, Value, unknown>;
  #keyMistake: unknown;
  readonly #collectedBy = new WeakMap<object, PartCollector>();

  /** `identity`: that of the caller, if the loader is PRIVATE and it is known. `loader`: what the user's functions get. */
  constructor(
    definition: LoaderDefinition<Id, Value, Context>,
    context: Context,
    loader: CachedLoader<Id, Value>,
    identity: Identity | undefined,
  ) {
    const { options, policy, parts } = definition;
    this.definition = definition;
    this.coordinate = options.name;
    this.policy = policy;
    this.maxSize = options.maxBatchSize;
    this.#context = context;
    this.#identity = identity;
    this.#variant = definition.variantOf();
    this.#resultTags = options.type === undefined ? undefined : this.#resultTagsOf(options.type);
    const { maxBatchSize } = options;
    this.#loader = loader;
    this.#source = new DataLoader((loads) => this.#callBatch(loads), {
      cache: false,
      batchScheduleFn: (dispatch) => parts.longTick.afterTick(dispatch),
      ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    });
  }

  /** Whether values have tags that are derived from them. */
  get hasResultTags(): boolean {
    return this.#resultTags !== undefined;
  }

  now(): number {
    return this.definition.parts.clock.now();
  }

  /** All ids of a tick are one call. */
  #callBatch(loads: readonly IdLoad<Id>[]): PromiseLike<ArrayLike<Value | Error>> {
    const { options, parts } = this.definition;
    const ids = loads.map(({ id }) => id);
    const given = givenIds(ids, !parts.isProduction);
    const call = batchCall(
      this.coordinate,
      loads.map(({ cached }) => cached),
      () => parts.signals.of(this.coordinate, this.#context),
    );
    const enclosing = loads.flatMap((load) => load.enclosing ?? []);
    const results = parts.tier.loads.together(enclosing, () =>
      options.batch.call(this.#loader as never, given, this.#context, call),
    );
    if (typeof (results as { then?: unknown } | undefined)?.then !== "function") return results;
    return results.then((values) => {
      if (!isArrayLike(values) || values.length !== ids.length) return values;
      // Each of many results is encoded, stored and answers callers.
      return values.length <= PER_TURN ? values : (parts.longTick.inTurns(Array.from(values)) as (Value | Error)[]);
    });
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
  requestOf(given: Id, names: IdKey, isForced = false): LoaderRequest {
    const { mayExist, parts } = this.definition;
    // The batch gets what the key was made of, whatever the caller makes of its object meanwhile.
    const id = typeof given === "object" ? (copyOfInput(given) as Id) : given;
    let hasOtherKey = false;
    const { coordinate, policy } = this;
    const { key, identity } = names;
    const tags = this.#resultTags === undefined ? names.tags : new ResultTags(names.tags, this.#resultTags);
    // That of the caller now, when it asks.
    const observer = this.#observer;
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
      batch: this,
      owner: this,
      caller: undefined,
      input: this.#isPrivate ? undefined : () => id,
      mayExist: mayExist && (() => mayExist(id)),
      load: (waiters, result) => {
        hasOtherKey = typeof id === "object" && !this.#isKeyOf(id, names);
        return this.#source.load(this.#idLoad(id, { waiters, result }));
      },
      excess: () => (hasOtherKey ? changedId(coordinate) : undefined),
      ...(this.definition.options.cacheKeyFn === undefined ? {} : { source: given, context: this.#context }),
      changed: () => (this.readIdentity() === identity ? undefined : contextChanged(coordinate, "identity")),
      signals: () => parts.signals.of(coordinate, this.#context),
      onRead: observer && ((report) => observer.onRead(coordinate, report, undefined, key)),
    };
    return request;
  }

  /** Whether an id still has the key that it was asked for with. An instance of a class, which cannot be copied, may have another one by now. */
  #isKeyOf(id: Id, { key, identity }: IdKey): boolean {
    try {
      return this.definition.names.keyOf(id, identity, this.#variant).name === key.name;
    } catch {
      return false;
    }
  }

  /** The identity of the caller. Undefined if the loader is PUBLIC, or if it is not known. */
  readIdentity(): Identity | undefined {
    return this.#isPrivate ? identityOf(this.definition.parts.identify, this.#context) : undefined;
  }

  #idLoad(id: Id, cached: IdLoad<Id>["cached"]): IdLoad<Id> {
    return { id, cached, enclosing: this.definition.parts.tier.loads.enclosing(), toString: () => String(id) };
  }

  bypass(id: Id, reason: LoaderBypassReason): Promise<Value> {
    this.#reportBypassed(reason);
    return this.#source.load(this.#idLoad(id, undefined));
  }

  #reportBypassed(reason: LoaderBypassReason): void {
    const { coordinate } = this;
    const error = this.#mistakeOf(reason);
    this.definition.parts.channel.publish({
      name: "resolver.bypassed",
      coordinate,
      digest: "",
      reason,
      ...(error === undefined ? {} : { error }),
    });
    this.#observer?.onRead(coordinate, { outcome: "bypassed", isPrivate: this.#isPrivate, reason }, undefined);
  }

  #mistakeOf(reason: LoaderBypassReason): CachedError | undefined {
    const { names, parts } = this.definition;
    if (reason === "NO_IDENTITY") return identityMistake(parts.identify, this.#context, this.coordinate);
    return reason === "KEY_UNUSABLE" ? names.mistakeOf(this.#keyMistake) : undefined;
  }

  remembered(value: object): void {
    const { collector } = this.#observer ?? {};
    if (collector !== undefined) this.#collectedBy.set(value, collector);
  }

  recalled(value: object): void {
    for (const collector of this.#observer?.collector?.members ?? [])
      if (!this.#isIn(value, collector))
        collector.refuse(`\`${this.coordinate}\` had read an id before the operation was executed`);
  }

  #isIn(value: object, collector: PartCollector): boolean {
    return this.#collectedBy.get(value)?.members.has(collector) === true;
  }

  primed(names: IdKey | undefined): void {
    this.#observer?.collector?.addPrimed(names, this.policy);
  }
}

const changedId = (coordinate: string): Excess => ({
  kind: "unkeyable",
  error: new CachedError(
    "CACHED_KEY_UNUSABLE",
    `loader \`${coordinate}\`: the value is not cached: expected an id that stays as it is until its batch has begun, got one that has another key by then; pass plain data, or do not change the object`,
    { coordinate },
  ),
});

/** The request of one id. */
interface LoaderRequest extends KnownRequest {
  /** Whether its value may come from memory, and is kept there. */
  readonly usesMemory: boolean;
}

interface IdLoad<Id> {
  readonly id: Id;
  readonly cached: CachedLoad | undefined;
  readonly enclosing: EnclosingLoad | undefined;
  /** For DataLoader's message about a batch function that returns too few values. */
  toString(): string;
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
  /** Where each loader registers, under its name, how to rebuild its requests from their `input`. */
  readonly requestFactories: Map<string, (input: unknown, context: never) => ReadRequest>;
}

/** What the loaders of one name have in common, whatever their contexts. */
export interface LoaderDefinition<Id, Value, Context> {
  /** `batch` is called under the watch of context reads. */
  readonly options: LoaderOptions<Id, Value, Context>;
  readonly policy: Policy;
  readonly names: LoaderKeys<Id>;
  readonly variantOf: () => Variant;
  readonly mayExist: ((id: Id) => Promise<boolean>) | undefined;
  readonly parts: LoaderParts;
}

export type LoaderBypassReason = "NO_IDENTITY" | "KEY_UNUSABLE" | "REQUESTED" | "MODE_OFF";
