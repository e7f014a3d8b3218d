import { types } from "node:util";
import DataLoader from "dataloader";
import { ignoreRejection } from "../base/deferred.js";
import { CachedError, checkOptionsObject, describeSetting } from "../base/errors.js";
import type { Meanings } from "../base/option-names.js";
import { canonicalize } from "../keys/canonical.js";
import { type Key, type KeySpace, memoText, type Variant } from "../keys/key.js";
import type { KnownTags as KnownTagTexts } from "../keys/known-tags.js";
import { checkTagsOfValue } from "../keys/tag-template.js";
import {
  compilePolicy,
  GENERAL_SETTINGS,
  MEANINGS,
  type Policy,
  type PolicySettings,
  secondsDoubts,
  settingsMistakes,
} from "../policy/policy.js";
import type { Entry } from "../store/entry.js";
import type { Channel } from "../telemetry/channel.js";
import type { Logger } from "../telemetry/log-listener.js";
import type { Invalidation } from "../tier/invalidation/invalidate.js";
import type { Reads } from "../tier/read/reads.js";
import type { Variants } from "../tier/record/variants.js";
import type { CallSignals } from "../tier/request/caller.js";
import type { EnclosingLoad } from "../tier/request/enclosing-load.js";
import type { Excess } from "../tier/request/loaded.js";
import type { SourceBatch } from "../tier/request/request.js";
import {
  type Compare,
  KnownTags,
  NO_TAGS,
  type ReadReport,
  type ReadRequest,
  type RequestTags,
  ResultTags,
} from "../tier/request/request.js";
import { InertControl, type ResultControl } from "../tier/request/result-control.js";
import { Waiters } from "../tier/request/waiters.js";
import { inTurns, type LongTick, PER_TURN } from "../tier/tick/long-tick.js";
import { CallerLoader } from "./caller-loader.js";
import {
  type CachedLoader,
  ContextLoader,
  type ContextLoaderDefinition,
  type IdNames,
  type IdRequests,
  isArrayLike,
  type LoaderBypassReason,
  type MemoOptions,
} from "./context-loader.js";
import type { ContextWatch } from "./context-watch.js";
import { batchExistence, type ExistenceGuard, type ExistenceParts } from "./existence.js";
import { contextChanged, type Identity, identityMistake, identityOf } from "./identity.js";
import type { LoaderRule } from "./loader-rule.js";
import { reportNear } from "./near-report.js";
import { GivenIds, type IdOf, Placement } from "./placement.js";
import type { Observer, PartCollector, RequestScopes } from "./request-scope.js";
import type { RequestSignals } from "./request-signals.js";
import type { TypeShapes } from "./type-shapes.js";

/** What belongs to one call of a batch function. */
export interface BatchCall {
  /**
   * Aborts when no request waits for any of the ids any more. To be passed to the source, instead of the
   * signal of the request, which is not the only one that waits.
   */
  readonly signal: AbortSignal;
  /**
   * Controls how the result of each id is cached, in the order of the ids: with `results[0]`, the
   * result of the first one.
   */
  readonly results: readonly ResultControl[];
}

/** The options of `cache.loader`: a name, a batch function, and policy settings in seconds. */
export interface LoaderOptions<Id, Value, Context> extends Omit<PolicySettings, "key" | "tags" | "subtree"> {
  /** Names the loader's entries in all processes. Must be a GraphQL name. */
  readonly name: string;
  /**
   * Loads `ids` and returns the values in the same order and number. An Error in the place of a
   * value fails that id only. Called with the ids of one tick that this process has to load, and with the
   * loader of the request as `this`.
   */
  readonly batch: (ids: readonly Id[], context: Context, call: BatchCall) => PromiseLike<ArrayLike<Value | Error>>;
  /** Returns the tags of one id. */
  readonly tags?: (id: Id) => readonly string[];
  /** Returns the key of an id. Required if ids are neither plain data nor instances of `types` with `keyOf`. */
  readonly cacheKeyFn?: (id: Id) => unknown;
  /**
   * Knows which ids cannot exist, for example a `bloomGuard`. Such ids resolve to null without a
   * load, and nothing is stored for them. Called once per tick with the ids that have no entry;
   * returns one boolean per id, in order, and true if it does not know.
   */
  readonly exists?: ExistenceGuard<Id>;
  /**
   * Returns whether a stored value is the same as one that `batch` has just returned, while the mode of the loader is
   * `observe`. Both are copies. Must be synchronous. Default: a deep comparison of what is stored.
   */
  readonly compare?: (stored: Value, loaded: Value) => boolean;
  /** The maximum number of ids per call of `batch`. Default: no limit. */
  readonly maxBatchSize?: number;
  /**
   * Returns the id that a value has. A value with another id than the one that it was loaded by is reported and not stored.
   * False: the ids of values are not those of the loader. Default: the property `id`, if the first values show that it is
   * what they are loaded by, and among the ids of one call.
   */
  readonly idOf?: IdOf<Value>;
  /**
   * Whether a request remembers what it has read. False: each `load` asks the shared cache again, and
   * `prime` has no effect. Default: true.
   */
  readonly cache?: boolean;
  /**
   * Called once for the ids of a request that are asked for together; reads them when it calls
   * `dispatch`. Called with the loader of the request as `this`. Default: at the end of the tick.
   */
  readonly batchScheduleFn?: (dispatch: () => void) => void;
  /**
   * The GraphQL type of the values. A release in which the type has another shape keeps entries of
   * its own. Default: none; then set `version`, and change it whenever the values change.
   */
  readonly type?: string;
}

/** The parts of a cache that loaders use. */
export interface LoaderParts extends ExistenceParts {
  readonly tier: Reads;
  readonly invalidation: Invalidation;
  readonly keys: KeySpace;
  readonly knownTags: KnownTagTexts;
  readonly scopes: RequestScopes;
  readonly signals: RequestSignals;
  readonly channel: Channel;
  readonly logger: Logger;
  readonly profiles: Readonly<Record<string, PolicySettings>>;
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

type OwnOption = "tags" | Exclude<keyof LoaderOptions<never, never, never>, keyof PolicySettings>;

const aFunction = (value: unknown): string | undefined => (typeof value === "function" ? undefined : "a function");

/** The options that are not settings of the policy. Each has a check, which returns what was expected of an invalid value. */
const OWN_OPTIONS: Readonly<Record<OwnOption, (value: unknown) => string | undefined>> = {
  name: (value) => (typeof value === "string" && /^[A-Za-z_][A-Za-z0-9_]*$/.test(value) ? undefined : "a GraphQL name"),
  batch: aFunction,
  tags: aFunction,
  cacheKeyFn: aFunction,
  exists: (value) =>
    typeof (value as { readonly has?: unknown } | null)?.has === "function"
      ? undefined
      : "an object with the method has",
  compare: aFunction,
  batchScheduleFn: aFunction,
  maxBatchSize: (value) => (Number.isInteger(value) && (value as number) >= 1 ? undefined : "an integer of at least 1"),
  idOf: (value) => (typeof value === "function" || value === false ? undefined : "a function or false"),
  cache: (value) =>
    typeof value === "boolean" ? undefined : "true or false, whether a request remembers what it has read",
  type: (value) => (typeof value === "string" && value !== "" ? undefined : "the name of a GraphQL type"),
};
/** What other loaders and caches call an option. */
const MEANINGS_OF_OPTIONS: Meanings = {
  ...MEANINGS,
  batchfn: "`batch`",
  batchloadfn: "`batch`",
  load: "`batch`",
  loadmany: "`batch`",
  fetch: "`batch`",
  resolve: "`batch`",
  key: "`cacheKeyFn`",
  keyfn: "`cacheKeyFn`",
  cachekey: "`cacheKeyFn`",
  batchsize: "`maxBatchSize`",
};
const REQUIRED_OPTIONS: readonly string[] = ["name", "batch"] satisfies OwnOption[];

/**
 * Creates a loader from a batch function, backed by the shared tier. Returns a function from a
 * request's context to the loader of that context. Without a context object, every call creates a
 * new loader.
 * Throws `CACHED_OPTION_INVALID` with all mistakes at once.
 */
export function createLoaderFactory<Id, Value, Context>(
  options: LoaderOptions<Id, Value, Context>,
  parts: LoaderParts,
): (context: Context) => CachedLoader<Id, Value> {
  checkOptionsObject(options, "cache.loader");
  const { profiles, defaults, identify } = parts;
  const { name, type } = options;
  const settings = policySettingsOf(options);
  const mistakes = settingMistakes(settings);
  // Only valid settings can be merged.
  const compiled = mistakes.length > 0 ? undefined : compilePolicy({ declared: [settings], profiles, defaults });
  mistakes.push(
    ...ownMistakes(options),
    ...(compiled?.policy.scope === "PRIVATE" && identify === undefined ? [IDENTIFY_MISSING] : []),
    ...profileMistakes(options.profile, profiles),
    ...(parts.isProduction && hasOtherBatch(options, parts.loaders) ? [NAME_TAKEN] : []),
    ...(compiled?.mistakes ?? []),
    ...(typeof type === "string" && type !== "" ? [parts.typeShapes.want(name, type) ?? []].flat() : []),
  );
  if (compiled === undefined || mistakes.length > 0)
    throw new CachedError("CACHED_OPTION_INVALID", `${placeOf(name)}: ${mistakes.join("; ")}`, {
      coordinate: typeof name === "string" ? name : undefined,
    });

  for (const doubt of secondsDoubts(settings)) parts.logger.warn(`graphql-cached: ${placeOf(name)}: ${doubt}`);
  const { settings: merged, policy, versions } = compiled;
  const variantOf = variantSource(options, policy, versions, parts);
  const names = new LoaderNames(options, parts);
  const { exists, compare, maxBatchSize, idOf } = options;
  const definition: LoaderDefinition<Id, Value, Context> = {
    name,
    batch: watchedBatch(options, policy, parts.contextWatch),
    policy,
    names,
    variantOf,
    mayExist: exists === undefined ? undefined : batchExistence(exists, parts),
    placement: new Placement(name, idOf),
    parts,
    compare: compare as Compare | undefined,
    memo: memoOptions(options),
    ...(type === undefined ? {} : { type }),
    ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
  };
  // A development server evaluates a changed module again, with the cache on `globalThis`.
  const isReplacing = hasOtherBatch(options, parts.loaders);
  if (isReplacing && parts.loaders.get(name)?.isReplacement === false)
    parts.logger.info(
      `graphql-cached: ${placeOf(name)} was called again with another \`batch\`; the later loader replaces the earlier one. In production it throws: if these are two loaders, rename one of them`,
    );
  parts.loaders.set(name, {
    name,
    isReplacement: isReplacing,
    batch: options.batch,
    policy,
    settings: merged,
    hasIdInKey: options.cacheKeyFn === undefined,
    variantOf,
    tagsOf: (id) => names.tagsOf(id as Id),
    tagTextsOf: (id) => names.tagTextsOf(id as Id),
    keyOf: (id, identity) => names.keyOf(id as Id, identity, variantOf()),
  });
  const isPrivate = policy.scope === "PRIVATE";
  const create = (context: Context): CachedLoader<Id, Value> => {
    const isCached = policy.maxAgeMs > 0;
    if (identify === undefined)
      return isCached
        ? new ContextRequests(definition, context).loader
        : uncachedLoader(options, context, parts, policy.scope === "PRIVATE");
    const readIdentity = (): Identity | undefined => identityOf(identify, context);
    const { contextWatch } = parts;
    const identity = (): Identity | undefined => {
      if (isPrivate) parts.tier.readPrivate(name);
      // A load that uses a PUBLIC loader does not depend on who asks.
      return contextWatch.pause(readIdentity);
    };
    return new CallerLoader(name, identity, (loader, caller) => {
      if (isCached) return new ContextLoader(definition, new ContextRequests(definition, context, loader));
      // Nothing tells a PRIVATE value of an unknown caller from that of the next one.
      const isForgotten = isPrivate && caller === undefined;
      return uncachedLoader(
        isForgotten ? { ...options, cache: false } : options,
        context,
        parts,
        policy.scope === "PRIVATE",
      );
    });
  };
  const loaderOf = perContext(create, (context) =>
    parts.logger.warn(
      `graphql-cached: ${placeOf(name)}: expected the context of a request, an object, got ${typeOfContext(context)}; without it, each call has a loader of its own, which neither batches nor remembers`,
    ),
  );
  parts.requestFactories.set(name, (id, context) => {
    const requests = new ContextRequests(definition, context, loaderOf(context));
    const own = requests.namesOf(id as Id);
    if (typeof own !== "string") return requests.requestOf(id as Id, own);
    throw new CachedError("CACHED_KEY_UNUSABLE", `cache.refresh: \`${name}\`: cannot build a key for the job's id`, {
      coordinate: name,
    });
  });

  return loaderOf;
}

/** The loader of a policy with `maxAge: 0`: a plain DataLoader. */
function uncachedLoader<Id, Value, Context>(
  options: LoaderOptions<Id, Value, Context>,
  context: Context,
  { signals, longTick, isProduction, scopes }: LoaderParts,
  isPrivate: boolean,
): CachedLoader<Id, Value> {
  const { name, batch, cacheKeyFn, maxBatchSize } = options;
  const requestSignal = signalOf(() => signals.of(name, context));
  const call = (ids: readonly Id[]): BatchCall => new UncachedCall(requestSignal, name, ids.length);
  const load = (ids: readonly Id[]): ReturnType<typeof batch> =>
    batch.call(loader, new GivenIds(ids, !isProduction).list, context, call(ids));
  const loader: DataLoader<Id, Value, unknown> = new DataLoader(load, {
    name,
    ...(cacheKeyFn === undefined ? {} : { cacheKeyFn }),
    ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    // Not DataLoader's own, which fake timers stop.
    batchScheduleFn: (dispatch) => longTick.afterTick(dispatch),
    ...memoOptions(options),
  });
  const read = loader.load.bind(loader);
  loader.load = (id) => {
    if (scopes.hasObservers) scopes.observerOf(context)?.collector?.addUncached(name, isPrivate);
    return read(id);
  };
  // DataLoader declares that its name can be null. This one has a name.
  return loader as CachedLoader<Id, Value>;
}

/** Returns a function that returns the signal of a request. One that has none gets one that never aborts. */
const signalOf =
  (signals: () => CallSignals | undefined): (() => AbortSignal) =>
  () =>
    signals()?.request[0] ?? new AbortController().signal;

/** The options that concern the memo of a request. */
function memoOptions({
  cache,
  batchScheduleFn,
}: Pick<LoaderOptions<never, never, never>, "cache" | "batchScheduleFn">): MemoOptions {
  return {
    ...(cache === undefined ? {} : { cache }),
    ...(batchScheduleFn === undefined ? {} : { batchScheduleFn }),
  };
}

/** A call of a batch function without the cache: it has the signal of its request. */
class UncachedCall implements BatchCall {
  readonly #requestSignal: () => AbortSignal;
  readonly #coordinate: string;
  readonly #length: number;
  #results: readonly ResultControl[] | undefined;

  constructor(requestSignal: () => AbortSignal, coordinate: string, length: number) {
    this.#requestSignal = requestSignal;
    this.#coordinate = coordinate;
    this.#length = length;
  }

  get signal(): AbortSignal {
    return this.#requestSignal();
  }

  get results(): readonly ResultControl[] {
    this.#results ??= Array.from({ length: this.#length }, () => new InertControl(this.#coordinate));
    return this.#results;
  }
}

/** One id to be loaded, who waits for it, and the control of its result. */
class IdLoad<Id> {
  readonly id: Id;
  /** Undefined: a load without the cache. */
  readonly cached: { readonly waiters: Waiters; readonly result: ResultControl } | undefined;
  /** The load that it is, or is part of. Undefined: it is part of none. */
  readonly enclosing: EnclosingLoad | undefined;
  /** See `Placement`. */
  mistake: CachedError | undefined = undefined;

  constructor(id: Id, cached: IdLoad<Id>["cached"], enclosing: EnclosingLoad | undefined) {
    this.id = id;
    this.cached = cached;
    this.enclosing = enclosing;
  }

  /** For DataLoader's message about a batch function that returns too few values. */
  toString(): string {
    return String(this.id);
  }
}

/** A call of a batch function for several loads. Those without the cache are waited for by their request alone. */
class SharedCall implements BatchCall {
  readonly #loads: readonly IdLoad<unknown>[];
  readonly #requestSignal: () => AbortSignal;
  readonly #coordinate: string;
  #signal: AbortSignal | undefined;
  #results: readonly ResultControl[] | undefined;

  constructor(loads: readonly IdLoad<unknown>[], requestSignal: () => AbortSignal, coordinate: string) {
    this.#loads = loads;
    this.#requestSignal = requestSignal;
    this.#coordinate = coordinate;
  }

  get results(): readonly ResultControl[] {
    this.#results ??= this.#loads.map(({ cached }) => cached?.result ?? new InertControl(this.#coordinate));
    return this.#results;
  }

  get signal(): AbortSignal {
    this.#signal ??= this.#createSignal();
    return this.#signal;
  }

  /** Called by the batch function, so none of the loads has ended yet. */
  #createSignal(): AbortSignal {
    const cached = this.#loads.flatMap(({ cached }) => (cached === undefined ? [] : [cached]));
    if (cached.length === 0) return this.#requestSignal();
    const joined = new Waiters();
    for (const { waiters } of cached) joined.addAll(waiters);
    if (cached.length === this.#loads.length) return joined.signal;
    const controller = new AbortController();
    // No listener before then: it would remain at the signal until the request has ended.
    joined.onGone(() => onAbort(this.#requestSignal(), () => controller.abort(joined.signal.reason)));
    return controller.signal;
  }
}

function onAbort(signal: AbortSignal, callback: () => void): void {
  if (signal.aborted) callback();
  else signal.addEventListener("abort", callback, { once: true });
}

/** A second loader of the name would get the values of the first one. */
function hasOtherBatch(
  { name, batch }: { readonly name: unknown; readonly batch: unknown },
  loaders: ReadonlyMap<unknown, LoaderRule>,
): boolean {
  const other = loaders.get(name);
  return other !== undefined && other.batch !== batch;
}

const NAME_TAKEN =
  "`name`: expected a name that no other loader of the cache has, since loaders of one name share entries, got one with another `batch`; create each loader once, outside of requests, or rename it";

/** The key of a loader is its id and its tags are a function, so those of a profile would have no effect. */
function profileMistakes(name: unknown, profiles: Readonly<Record<string, PolicySettings>>): string[] {
  const profile = typeof name === "string" && Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  return (["key", "tags"] as const)
    .filter((setting) => profile?.[setting] !== undefined && profile[setting] !== null)
    .map(
      (setting) =>
        `\`profile\`: expected a profile without \`${setting}\`, which loaders do not use, got ${JSON.stringify(name)}; use ${setting === "tags" ? "the loader's `tags` function" : "`cacheKeyFn`"} instead`,
    );
}

const placeOf = (name: unknown): string =>
  typeof name === "string" ? `cache.loader(${JSON.stringify(name)})` : "cache.loader";

/** Names the type only: a context can be a token. */
const typeOfContext = (context: unknown): string =>
  context === null || context === undefined ? String(context) : `a ${typeof context}`;

/** Memoizes one loader per context. A context that inherits from another has a loader of its own. */
function perContext<Context, Loader>(
  create: (context: Context) => Loader,
  reportNone: (context: Context) => void,
): (context: Context) => Loader {
  const loaders = new WeakMap<object, Loader>();
  let isReported = false;
  return (context) => {
    if (typeof context !== "object" || context === null) {
      if (!isReported) reportNone(context);
      isReported = true;
      return create(context);
    }
    let loader = loaders.get(context);
    if (loader === undefined) {
      loader = create(context);
      loaders.set(context, loader);
    }
    return loader;
  };
}

/** The request of one id. */
class IdRequest<Id> implements ReadRequest {
  readonly requests: ContextRequests<Id, unknown, unknown>;
  readonly id: Id;
  readonly identity: Identity | undefined;
  readonly key: Key;
  readonly policy: Policy;
  readonly tags: RequestTags;
  readonly isForced: boolean;
  /** That of the caller when it asked. */
  readonly observer: Observer | undefined;
  caller: ReadRequest["caller"] = undefined;
  /** Its load. */
  idLoad: IdLoad<Id> | undefined = undefined;

  constructor(
    requests: ContextRequests<Id, unknown, unknown>,
    id: Id,
    identity: Identity | undefined,
    key: Key,
    tags: RequestTags,
    isForced: boolean,
  ) {
    this.requests = requests;
    this.id = id;
    this.identity = identity;
    this.key = key;
    this.policy = requests.policy;
    this.tags = tags;
    this.isForced = isForced;
    this.observer = requests.observer;
  }

  get input(): (() => Id) | undefined {
    return this.policy.scope === "PRIVATE" ? undefined : inputOf;
  }

  get mayExist(): (() => Promise<boolean>) | undefined {
    return this.requests.mayExist === undefined ? undefined : mayExistOf;
  }

  get onRead(): ((report: ReadReport) => void) | undefined {
    return this.observer === undefined ? undefined : reportRead;
  }

  get wantsYoung(): boolean {
    return this.observer?.collector?.wantsYoung === true;
  }

  get batch(): SourceBatch {
    return this.requests;
  }

  get owner(): object {
    return this.requests;
  }

  get compare(): Compare | undefined {
    return this.requests.compare;
  }

  load(waiters: Waiters, result: ResultControl): Promise<unknown> {
    return this.requests.load(this, waiters, result);
  }

  toSample(): ReadRequest {
    return new IdRequest(this.requests, this.id, this.identity, this.key, this.tags, false);
  }

  changed(): CachedError | undefined {
    return this.requests.changed(this);
  }

  excess(): Excess | undefined {
    const error = this.idLoad?.mistake;
    return error && { kind: "unkeyable", error };
  }

  signals(): CallSignals | undefined {
    return this.requests.signals();
  }

  onMiss(entry: Entry | undefined, now: number): void {
    const { key, policy, tags } = this;
    this.observer?.onMiss?.({ key, policy, tags, entry, now });
  }
}

function inputOf<Id>(this: IdRequest<Id>): Id {
  return this.id;
}

function mayExistOf<Id>(this: IdRequest<Id>): Promise<boolean> {
  return (this.requests.mayExist as (id: Id) => Promise<boolean>)(this.id);
}

function reportRead(this: IdRequest<unknown>, report: ReadReport): void {
  this.observer?.onRead(this.key.coordinate, report, undefined, this.key);
}

/**
 * Returns a function that returns the variant of a loader's entries. If the loader names a type, the
 * variant depends on the schema: the function then throws `CACHED_OPTION_INVALID` before one is
 * applied, and returns another variant after one with another shape is.
 */
function variantSource<Id, Value, Context>(
  { name, type, tags, cacheKeyFn }: LoaderOptions<Id, Value, Context>,
  policy: Policy,
  versions: readonly string[],
  { keys, typeShapes, variants }: LoaderParts,
): () => Variant {
  const make = (shape: string): Variant => {
    const variant = keys.variant({
      kind: "loader",
      shape,
      versions,
      // Only a version can say that a function has changed.
      keyTemplate: [policy.scope, ...(cacheKeyFn === undefined ? [] : ["cacheKeyFn", ...versions])],
      tagTemplates: tags === undefined ? [] : ["tags"],
    });
    variants.declare(name, variant);
    return variant;
  };
  if (type === undefined) {
    const variant = make("");
    return () => variant;
  }
  let known: { readonly shape: string; readonly variant: Variant } | undefined;
  return () => {
    const { shape } = typeShapes.of(name, type);
    if (known?.shape !== shape) known = { shape, variant: make(shape) };
    return known.variant;
  };
}

/** What is remembered of the names of one id. */
class KnownNames implements IdNames {
  readonly key: Key;
  readonly tags: RequestTags;
  readonly identity: Identity | undefined;
  readonly memoKey: string;
  /** What `tags` has returned. */
  readonly tagTexts: readonly string[];
  near: IdNames["near"] = undefined;

  constructor(
    key: Key,
    tags: RequestTags,
    identity: Identity | undefined,
    memoKey: string,
    tagTexts: readonly string[],
  ) {
    this.key = key;
    this.tags = tags;
    this.identity = identity;
    this.memoKey = memoKey;
    this.tagTexts = tagTexts;
  }
}

/**
 * Makes the names of ids, and remembers the keys of short, plain ids of PUBLIC loaders. The function
 * `tags` is called for every read: it can depend on more than the id.
 */
class LoaderNames<Id> {
  /** What the user's functions are called in messages. */
  readonly functions: readonly string[];
  readonly #name: string;
  readonly #cacheKeyFn: ((id: Id) => unknown) | undefined;
  readonly #tags: ((id: Id) => readonly string[]) | undefined;
  readonly #keys: KeySpace;
  readonly #known = new Map<string, KnownNames>();
  /** Learns the tags of values that are loaded: hits do not need them. */
  readonly #learning: Pick<KeySpace, "tags">;
  #variant: Variant | undefined;

  constructor(
    { name, cacheKeyFn, tags }: Pick<LoaderOptions<Id, never, never>, "name" | "cacheKeyFn" | "tags">,
    { keys, knownTags }: Pick<LoaderParts, "keys" | "knownTags">,
  ) {
    if (tags !== undefined) knownTags.addFunction();
    this.#learning = {
      tags: (texts) => {
        for (const text of texts) knownTags.learn(text);
        return keys.tags(texts);
      },
    };
    this.functions = [...(cacheKeyFn === undefined ? [] : ["`cacheKeyFn`"]), ...(tags === undefined ? [] : ["`tags`"])];
    this.#name = name;
    this.#cacheKeyFn = cacheKeyFn;
    this.#tags = tags;
    this.#keys = keys;
  }

  of(id: Id, identity: Identity | undefined, variant: Variant): IdNames {
    if (this.#variant !== variant) {
      this.#known.clear();
      this.#variant = variant;
    }
    const parts = this.#cacheKeyFn === undefined ? id : this.#cacheKeyFn(id);
    const text = identity === undefined ? memoText(parts) : undefined;
    const known = text === undefined ? undefined : this.#known.get(text);
    const tags = this.#tags === undefined ? NO_TAGS.texts : this.#returnedTags(id, this.#tags);
    if (known !== undefined && (tags === known.tagTexts || areSame(known.tagTexts, tags))) return known;
    const hasTags = tags.length > 0;
    if (hasTags) checkReturnedTags(tags);
    const key = known?.key ?? this.#make(parts, identity, variant);
    // A copy of the tags: the loader may change its array.
    const texts = hasTags ? tags.slice() : NO_TAGS.texts;
    // Two ids can have one key.
    const isOwn = this.#cacheKeyFn !== undefined;
    const requestTags = hasTags ? new KnownTags(texts, this.#learning, isOwn) : NO_TAGS;
    const memoKey = text ?? `\0${key.digest}`;
    const names = new KnownNames(key, requestTags, identity, memoKey, texts);
    if (text !== undefined) this.#keys.memos.set(this.#known, text, names);
    return names;
  }

  keyOf(id: Id, identity: Identity | undefined, variant: Variant): Key {
    const parts = this.#cacheKeyFn === undefined ? id : this.#cacheKeyFn(id);
    return this.#make(parts, identity, variant);
  }

  tagsOf(id: Id): RequestTags {
    if (this.#tags === undefined) return NO_TAGS;
    return new KnownTags(this.tagTextsOf(id), this.#keys, this.#cacheKeyFn !== undefined);
  }

  tagTextsOf(id: Id): readonly string[] {
    if (this.#tags === undefined) return NO_TAGS.texts;
    const tags = this.#returnedTags(id, this.#tags);
    checkReturnedTags(tags);
    return tags;
  }

  /** Returns what `tags` returns, an array of whatever. */
  #returnedTags(id: Id, tagsOf: (id: Id) => readonly string[]): readonly string[] {
    const tags: unknown = tagsOf(id);
    if (Array.isArray(tags)) return tags;
    ignoreRejection(tags);
    throw new CachedError(
      "CACHED_KEY_UNUSABLE",
      `\`tags\`: expected a function that returns an array of strings, got ${types.isPromise(tags) ? "a promise" : describeSetting(tags)} for an id; return the array itself`,
    );
  }

  #make(keyParts: unknown, identity: Identity | undefined, variant: Variant): Key {
    // A promise cannot be part of a key, which is reported.
    ignoreRejection(keyParts);
    const parts = canonicalize(keyParts, this.#keys.writers.byText);
    return this.#keys.entry({ kind: "loader", coordinate: this.#name, identity, parts }, variant);
  }
}

const areSame = (some: readonly string[], others: readonly string[]): boolean =>
  some.length === others.length && some.every((text, nth) => text === others[nth]);

/** The message contains no tag: tags can contain user data. Throws `CACHED_KEY_UNUSABLE`. */
function checkReturnedTags(tags: readonly unknown[]): void {
  let invalid = 0;
  while (invalid < tags.length && typeof tags[invalid] === "string" && tags[invalid] !== "") invalid++;
  if (invalid === tags.length) {
    checkTagsOfValue(tags as readonly string[], (mistake) => new CachedError("CACHED_KEY_UNUSABLE", mistake));
    return;
  }
  const tag = tags[invalid];
  const isNamed = typeof tag === "object" || tag === undefined;
  const given = tag === "" ? "an empty string" : isNamed ? describeSetting(tag) : `a ${typeof tag}`;
  throw new CachedError(
    "CACHED_KEY_UNUSABLE",
    `\`tags\`: expected a function that returns an array of non-empty strings, got an array with ${given} for an id; return tags such as \`Movie:\${id}\``,
  );
}

/** What the loaders of one name have in common, whatever their contexts. */
interface LoaderDefinition<Id, Value, Context>
  extends ContextLoaderDefinition,
    Pick<LoaderOptions<Id, Value, Context>, "batch" | "type" | "maxBatchSize"> {
  readonly policy: Policy;
  readonly names: LoaderNames<Id>;
  readonly variantOf: () => Variant;
  readonly mayExist: ((id: Id) => Promise<boolean>) | undefined;
  readonly placement: Placement<Id, Value>;
  readonly compare: Compare | undefined;
  readonly parts: LoaderParts;
}

/** Returns what finds the tags of the entities in a value of a loader with a type. Undefined: there are none. */
function resultTags<Id, Value, Context>(
  { name, type, parts }: LoaderDefinition<Id, Value, Context>,
  context: Context,
): RequestTags["subjectsOf"] {
  const { entityTagsIn } = parts.typeShapes.of(name, type as string);
  return entityTagsIn && ((value) => parts.keys.tags(entityTagsIn(value, context)));
}

/** Makes the requests of one loader and one context, and passes their loads to the source. */
class ContextRequests<Id, Value, Context> implements IdRequests<Id, Value>, SourceBatch {
  readonly coordinate: string;
  readonly policy: Policy;
  readonly #definition: LoaderDefinition<Id, Value, Context>;
  readonly #context: Context;
  /** The loader of the context. */
  readonly loader: CachedLoader<Id, Value>;
  readonly #variant: Variant;
  readonly #resultTags: RequestTags["subjectsOf"];
  /** Loads ids, all of a tick together. Undefined until the first load: most requests load nothing. */
  #source: DataLoader<IdLoad<Id>, Value, unknown> | undefined;
  #keyMistake: unknown;
  /** Which collector has what the context remembers. Undefined until the first. */
  #collectedBy: WeakMap<object, PartCollector> | undefined;

  /** `loader`: that of the context, if it has one. */
  constructor(definition: LoaderDefinition<Id, Value, Context>, context: Context, loader?: CachedLoader<Id, Value>) {
    this.#definition = definition;
    this.#context = context;
    this.#variant = definition.variantOf();
    this.coordinate = definition.name;
    this.policy = definition.policy;
    this.#resultTags = definition.type === undefined ? undefined : resultTags(definition, context);
    this.loader = loader ?? new ContextLoader(definition, this);
  }

  /** See `SourceBatch`: the loads of one request are one call. */
  get maxSize(): number | undefined {
    return this.#definition.maxBatchSize;
  }

  get mayExist(): ((id: Id) => Promise<boolean>) | undefined {
    return this.#definition.mayExist;
  }

  get compare(): Compare | undefined {
    return this.#definition.compare;
  }

  get observer(): Observer | undefined {
    const { scopes } = this.#definition.parts;
    return scopes.hasObservers ? scopes.observerOf(this.#context) : undefined;
  }

  remembered(value: object): void {
    const { observer } = this;
    if (observer?.collector === undefined) return;
    this.#collectedBy ??= new WeakMap();
    this.#collectedBy.set(value, observer.collector);
  }

  recalled(value: object): void {
    const { members = [] } = this.observer?.collector ?? {};
    for (const collector of members)
      if (this.#collectedBy?.get(value)?.members.has(collector) !== true)
        collector.refuse(`\`${this.coordinate}\` had read an id before the operation was executed`);
  }

  mustReadAgain(value: object): boolean {
    const { collector } = this.observer ?? {};
    if (collector?.isBuild !== true) return false;
    for (const member of collector.members)
      if (member.isBuild && this.#collectedBy?.get(value)?.members.has(member) !== true) return true;
    return false;
  }

  primed(names: IdNames | undefined): void {
    this.observer?.collector?.addPrimed(names, this.policy);
  }

  namesOf(id: Id): IdNames | LoaderBypassReason {
    const { name, parts, names } = this.#definition;
    const { scopes } = parts;
    const isPrivate = this.policy.scope === "PRIVATE";
    if (isPrivate) parts.tier.readPrivate(name);
    if (scopes.hasOverrides && scopes.overrideOf(this.#context) === "BYPASS") return "REQUESTED";
    // Read every time: a context shared by two requests can have changed its identity since the last
    // read.
    const identity = this.#identity();
    if (isPrivate && identity === undefined) return "NO_IDENTITY";
    try {
      return names.of(id, identity, this.#variant);
    } catch (error) {
      this.#keyMistake = error;
      return "KEY_UNUSABLE";
    }
  }

  near(names: IdNames): Promise<Value> | undefined {
    const { parts } = this.#definition;
    if (parts.scopes.hasOverrides && parts.scopes.overrideOf(this.#context) !== undefined) return undefined;
    // What is stored as a part of a response must not be outdated for as long as in a near cache.
    if (this.observer?.collector !== undefined) return undefined;
    const near = parts.tier.near(names, this.policy);
    if (near === undefined) return undefined;
    // Read first: a listener that invalidates the entry takes the value from it.
    const shared = near.decode === undefined ? (near.promise ?? parts.tier.nearPromise(near)) : undefined;
    const value = reportNear(near, names.key, this, parts, this.#context);
    return (shared ?? Promise.resolve(value)) as Promise<Value>;
  }

  requestOf(id: Id, { key, tags: known, identity }: IdNames, isForced = false): IdRequest<Id> {
    const tags = this.#resultTags === undefined ? known : new ResultTags(known, this.#resultTags);
    const { scopes } = this.#definition.parts;
    const isRefresh = scopes.hasOverrides && scopes.overrideOf(this.#context) === "REFRESH";
    const requests = this as unknown as ContextRequests<Id, unknown, unknown>;
    return new IdRequest(requests, id, identity, key, tags, isForced || isRefresh);
  }

  /** The identity of the caller. Undefined if the loader is PUBLIC, or if it is not known. */
  #identity(): Identity | undefined {
    return this.policy.scope === "PRIVATE" ? identityOf(this.#definition.parts.identify, this.#context) : undefined;
  }

  load(request: IdRequest<Id>, waiters: Waiters, result: ResultControl): Promise<unknown> {
    request.idLoad = this.#idLoad(request.id, { waiters, result });
    return this.#sourceLoader().load(request.idLoad);
  }

  #idLoad(id: Id, cached: IdLoad<Id>["cached"]): IdLoad<Id> {
    return new IdLoad(id, cached, this.#definition.parts.tier.enclosingLoad());
  }

  changed({ identity }: IdRequest<Id>): CachedError | undefined {
    return this.#identity() === identity ? undefined : contextChanged(this.coordinate, "identity");
  }

  signals(): CallSignals | undefined {
    const { name, parts } = this.#definition;
    return parts.signals.of(name, this.#context);
  }

  reportBypassed(reason: LoaderBypassReason): void {
    this.observer?.onRead(
      this.coordinate,
      { outcome: "bypassed", isPrivate: this.policy.scope === "PRIVATE", reason },
      undefined,
    );
  }

  loadUncached(id: Id): Promise<Value> {
    return this.#sourceLoader().load(this.#idLoad(id, undefined));
  }

  mistakeOf(reason: LoaderBypassReason): CachedError | undefined {
    const { name, names, parts } = this.#definition;
    if (reason === "NO_IDENTITY") return identityMistake(parts.identify, this.#context, name);
    return reason === "KEY_UNUSABLE" ? unusableKey(name, this.#keyMistake, names.functions) : undefined;
  }

  #sourceLoader(): DataLoader<IdLoad<Id>, Value, unknown> {
    if (this.#source !== undefined) return this.#source;
    const { name, batch, placement, maxBatchSize, parts } = this.#definition;
    const requestSignal = signalOf(() => this.signals());
    this.#source = new DataLoader<IdLoad<Id>, Value, unknown>(
      (loads) => {
        const ids = loads.map(({ id }) => id);
        const given = new GivenIds(ids, !parts.isProduction);
        const call = new SharedCall(loads, requestSignal, name);
        const enclosing = loads.flatMap(({ enclosing }) => enclosing ?? []);
        const results = parts.tier.together(enclosing, () =>
          batch.call(this.loader as never, given.list, this.#context, call),
        );
        if (typeof (results as { then?: unknown } | undefined)?.then !== "function") return results;
        return results.then((values) => {
          if (!isArrayLike(values) || values.length !== ids.length) return values;
          for (const [index, mistake] of placement.mistakesIn(ids, given, values).entries())
            (loads[index] as IdLoad<Id>).mistake = mistake;
          return handedOutInTurns(values, parts.longTick);
        });
      },
      {
        cache: false,
        batchScheduleFn: (dispatch) => parts.longTick.afterTick(dispatch),
        ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
      },
    );
    return this.#source;
  }
}

/** Many results are handed out in turns of the event loop, since each of them is encoded, stored and answers callers. */
const handedOutInTurns = <Value>(values: ArrayLike<Value | Error>, { clock }: LongTick): ArrayLike<Value | Error> =>
  values.length <= PER_TURN ? values : (inTurns(clock, Array.from(values)) as (Value | Error)[]);

/** Returns the batch function of a loader as it is called for loads under the watch of context reads. */
function watchedBatch<Id, Value, Context>(
  { name, batch }: Pick<LoaderOptions<Id, Value, Context>, "name" | "batch">,
  { scope }: Policy,
  watch: ContextWatch,
): LoaderOptions<Id, Value, Context>["batch"] {
  if (scope === "PRIVATE") return batch;
  return function (this: unknown, ids, context, call) {
    return watch.run(name, [], context, () => batch.call(this as never, ids, context, call));
  };
}

/** `functions`: those of the user that make keys and tags. */
function unusableKey(name: string, cause: unknown, functions: readonly string[]): CachedError {
  const [code, reason] =
    cause instanceof CachedError
      ? ([
          cause.code,
          cause.code === "CACHED_KEY_UNUSABLE"
            ? cause.message
            : `${cause.message}; return plain data from \`cacheKeyFn\``,
        ] as const)
      : ([
          "CACHED_KEY_UNUSABLE",
          `${functions.join(" or ") || "reading the id"} threw an exception, the cause of this error`,
        ] as const);
  return new CachedError(code, `${placeOf(name)}: a value is not cached: ${reason}`, { coordinate: name, cause });
}

/** Returns the settings of the policy, and whatever else is not an option of a loader. */
function policySettingsOf(options: object): PolicySettings {
  return Object.fromEntries(Object.entries(options).filter(([option]) => !Object.hasOwn(OWN_OPTIONS, option)));
}

function settingMistakes(given: object): string[] {
  const { cacheMap, ...settings } = given as Readonly<Record<string, unknown>>;
  const known = [...GENERAL_SETTINGS, "profile", "version", ...Object.keys(OWN_OPTIONS)];
  const mistakes = settingsMistakes(settings, known, MEANINGS_OF_OPTIONS);
  if (cacheMap !== undefined)
    mistakes.push(
      `\`cacheMap\`: expected no such option, since the shared cache holds the values, got ${describeSetting(cacheMap)}; use \`cache: false\` for requests that remember nothing`,
    );
  return mistakes;
}

function ownMistakes(options: object): string[] {
  return Object.entries(OWN_OPTIONS).flatMap(([option, check]) => {
    const value = (options as Readonly<Record<string, unknown>>)[option];
    if (value === undefined && !REQUIRED_OPTIONS.includes(option)) return [];
    const expected = check(value);
    if (expected === undefined) return [];
    const remedy = option === "batch" && value === false ? "; use `maxBatchSize: 1` for calls with one id each" : "";
    return [`\`${option}\`: expected ${expected}, got ${describeSetting(value)}${remedy}`];
  });
}

const IDENTIFY_MISSING =
  "`scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })";
