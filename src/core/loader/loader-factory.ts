import DataLoader from "dataloader";
import { CachedError, checkOptionsObject } from "../base/errors.js";
import { getOrMake } from "../base/multimap.js";
import type { Variant } from "../keys/key.js";
import { compilePolicy, type Policy, secondsDoubts } from "../policy/policy.js";
import { batchCall } from "./batch-call.js";
import { ContextLoader } from "./context-loader.js";
import { ContextRequests, type LoaderDefinition, type LoaderParts } from "./context-requests.js";
import { batchExistence, givenIds } from "./existence.js";
import { type Identity, identityOf } from "./identity.js";
import { LoaderKeys } from "./loader-keys.js";
import {
  type CachedLoader,
  type LoaderOptions,
  ownMistakes,
  placeOf,
  policySettingsOf,
  settingMistakes,
} from "./loader-options.js";

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
  const { defaults, identify, logger, loaders } = parts;
  const { name, type, exists } = options;
  const settings = policySettingsOf(options);
  const mistakes = settingMistakes(settings);
  // Only valid settings can be merged.
  const compiled = mistakes.length > 0 ? undefined : compilePolicy({ declared: [settings], defaults });
  const other = loaders.get(name);
  // A second loader of the name would get the values of the first one.
  const isReplacement = other !== undefined && other.batch !== options.batch;
  mistakes.push(
    ...ownMistakes(options),
    ...(compiled?.policy.scope === "PRIVATE" && identify === undefined ? [IDENTIFY_MISSING] : []),
    ...(parts.isProduction && isReplacement ? [NAME_TAKEN] : []),
    ...(compiled?.mistakes ?? []),
    ...(typeof type === "string" && type !== "" ? [parts.typeShapes.want(name, type) ?? []].flat() : []),
  );
  if (compiled === undefined || mistakes.length > 0)
    throw new CachedError("CACHED_OPTION_INVALID", `${placeOf(name)}: ${mistakes.join("; ")}`, {
      coordinate: typeof name === "string" ? name : undefined,
    });

  for (const doubt of secondsDoubts(settings)) logger.warn(`graphql-cached: ${placeOf(name)}: ${doubt}`);
  // A development server evaluates a changed module again, with the cache on `globalThis`.
  if (isReplacement && !other.isReplacement)
    logger.info(
      `graphql-cached: ${placeOf(name)} was called again with another \`batch\`; the later loader replaces the earlier one. In production it throws: if these are two loaders, rename one of them`,
    );
  const { settings: merged, policy, versions } = compiled;
  const names = new LoaderKeys(options, parts);
  const definition: LoaderDefinition<Id, Value, Context> = {
    options: { ...options, batch: watchedBatch(options, policy, parts) },
    policy,
    names,
    variantOf: variantSource(options, policy, versions, parts),
    mayExist: exists && batchExistence(exists, parts),
    parts,
  };
  loaders.set(name, {
    name,
    isReplacement,
    batch: options.batch,
    policy,
    settings: merged,
    variantOf: definition.variantOf,
    tagTextsOf: (id) => names.tagTextsOf(id as Id),
    keyOf: (id, identity) => names.keyOf(id as Id, identity, definition.variantOf()),
  });
  if (options.cacheKeyFn !== undefined && policy.scope === "PUBLIC" && policy.isDeclaredPublic !== true)
    parts.tier.loads.privateValues.isAsked = true;
  const loaderOf = loaderPerContext(definition);
  parts.requestFactories.set(name, (id, context) => {
    const requests = requestsOf(definition, context, loaderOf(context), identityOf(parts.identify, context));
    const own = requests.namesOf(id as Id);
    if (typeof own !== "string") return requests.requestOf(id as Id, own);
    throw new CachedError("CACHED_KEY_UNUSABLE", `cache.refresh: \`${name}\`: cannot build a key for the job's id`, {
      coordinate: name,
    });
  });
  return loaderOf;
}

const NAME_TAKEN =
  "`name`: expected a name that no other loader of the cache has, since loaders of one name share entries, got one with another `batch`; create each loader once, outside of requests, or rename it";
const IDENTIFY_MISSING =
  "`scope`: PRIVATE requires the `identify` option; pass createCache({ identify: (context) => context.userId })";

/** Memoizes one loader per context. A context that inherits from another has a loader of its own. */
function loaderPerContext<Id, Value, Context>(
  definition: LoaderDefinition<Id, Value, Context>,
): (context: Context) => CachedLoader<Id, Value> {
  const loaders = new WeakMap<object, CachedLoader<Id, Value>>();
  let isWarned = false;
  return (context) => {
    if (typeof context !== "object" || context === null) {
      // The type only: a context can be a token.
      const got = context === null || context === undefined ? String(context) : `a ${typeof context}`;
      if (!isWarned)
        definition.parts.logger.warn(
          `graphql-cached: ${placeOf(definition.options.name)}: expected the context of a request, an object, got ${got}; without it, each call has a loader of its own, which neither batches nor remembers`,
        );
      isWarned = true;
      return callerLoader(definition, context);
    }
    return getOrMake(loaders, context, () => callerLoader(definition, context));
  };
}

/** The identities that have a loader of their own in one context. The oldest is forgotten first. */
const MAX_IDENTITIES = 1_000;

/**
 * Returns the loader of one context for whoever asks: each identity has one of its own. Requests of several callers can
 * have one context object, and what one caller has read, or the batch that its source is asked for, must not become that
 * of another.
 */
function callerLoader<Id, Value, Context>(
  definition: LoaderDefinition<Id, Value, Context>,
  context: Context,
): CachedLoader<Id, Value> {
  const { options, policy, parts } = definition;
  const { identify, contextWatch } = parts;
  // Throws now, and not with the first read, if the schema is not known.
  if (policy.maxAgeMs > 0) definition.variantOf();
  const loaders = new Map<Identity | undefined, CachedLoader<Id, Value>>();
  const identity = (): Identity | undefined => {
    if (identify === undefined) return undefined;
    if (policy.scope === "PRIVATE") parts.tier.loads.readPrivate(options.name);
    // A load that uses a PUBLIC loader does not depend on who asks.
    return contextWatch.pause(() => identityOf(identify, context));
  };
  const own = (): CachedLoader<Id, Value> => {
    const caller = identity();
    const known = loaders.get(caller);
    if (known !== undefined) return known;
    const made =
      policy.maxAgeMs > 0
        ? new ContextLoader(requestsOf(definition, context, loader, caller))
        : uncachedLoader(definition, context, loader, caller);
    loaders.set(caller, made);
    if (loaders.size > MAX_IDENTITIES) loaders.delete(loaders.keys().next().value);
    return made;
  };
  const { privateValues } = parts.tier.loads;
  const noted = <Read>(read: Promise<Read>): Promise<Read> => {
    if (policy.scope !== "PRIVATE") return read;
    privateValues.loaderReads++;
    privateValues.lastLoader = options.name;
    return privateValues.noteSettled(read, options.name, context);
  };
  const loader: CachedLoader<Id, Value> = {
    name: options.name,
    load: (id) => noted(own().load(id)),
    loadMany: (ids) => noted(own().loadMany(ids)),
    clear(id) {
      own().clear(id);
      return loader;
    },
    clearAll() {
      own().clearAll();
      return loader;
    },
    prime(id, value) {
      own().prime(id, value);
      return loader;
    },
  };
  return loader;
}

/** `identity`: that of the caller. The keys of PUBLIC loaders do not contain it. */
const requestsOf = <Id, Value, Context>(
  definition: LoaderDefinition<Id, Value, Context>,
  context: Context,
  loader: CachedLoader<Id, Value>,
  identity: Identity | undefined,
): ContextRequests<Id, Value, Context> =>
  new ContextRequests(definition, context, loader, definition.policy.scope === "PRIVATE" ? identity : undefined);

/** The loader of a policy with `maxAge: 0`: a plain DataLoader. */
function uncachedLoader<Id, Value, Context>(
  { options, policy, parts }: LoaderDefinition<Id, Value, Context>,
  context: Context,
  loader: CachedLoader<Id, Value>,
  caller: Identity | undefined,
): CachedLoader<Id, Value> {
  const { requestStates, longTick } = parts;
  const { name, batch, cacheKeyFn, maxBatchSize } = options;
  const isPrivate = policy.scope === "PRIVATE";
  // Nothing tells a PRIVATE value of an unknown caller from that of the next one.
  const cache = isPrivate && caller === undefined ? false : (options.cache ?? true);
  const signals = () => parts.signals.of(name, context);
  const plain = new DataLoader<Id, Value, unknown>(
    (ids) => {
      const call = batchCall(name, new Array<undefined>(ids.length).fill(undefined), signals);
      return batch.call(loader as never, givenIds(ids, !parts.isProduction), context, call);
    },
    {
      name,
      cache,
      // DataLoader's own schedule would stop with fake timers.
      batchScheduleFn: (dispatch) => longTick.afterTick(dispatch),
      ...(cacheKeyFn === undefined ? {} : { cacheKeyFn }),
      ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    },
  );
  const read = plain.load.bind(plain);
  plain.load = (id) => {
    requestStates.observerOf(context)?.collector?.addUncached(name, isPrivate);
    return read(id);
  };
  // DataLoader declares that its name can be null. This one has a name.
  return plain as CachedLoader<Id, Value>;
}

function watchedBatch<Id, Value, Context>(
  { name, batch }: Pick<LoaderOptions<Id, Value, Context>, "name" | "batch">,
  { scope, maxAgeMs }: Policy,
  { contextWatch }: Pick<LoaderParts, "contextWatch">,
): LoaderOptions<Id, Value, Context>["batch"] {
  if (maxAgeMs === 0) return batch;
  const load = { coordinate: name, isPrivate: scope === "PRIVATE" };
  return function (this: unknown, ids, context, call) {
    return contextWatch.run(load, context, () => batch.call(this as never, ids, context, call));
  };
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
  const make = (shape: string): { shape: string; variant: Variant } => {
    const variant = keys.variant({
      kind: "loader",
      shape,
      versions,
      // Only a version can say that a function has changed.
      keyTemplate: [policy.scope, ...(cacheKeyFn === undefined ? [] : ["cacheKeyFn", ...versions])],
      tagTemplates: tags === undefined ? [] : ["tags"],
    });
    variants.declare(name, variant);
    return { shape, variant };
  };
  let known = type === undefined ? make("") : undefined;
  return () => {
    const shape = type === undefined ? "" : typeShapes.of(name, type).shape;
    if (known?.shape !== shape) known = make(shape);
    return known.variant;
  };
}
