import { keyUnusable, optionInvalid } from "../base/errors.js";
import { getOrMake } from "../base/multimap.js";
import { StateOf } from "../base/state-of.js";
import type { Variant } from "../keys/key.js";
import { compilePolicy, contradictions, type Policy, secondsDoubts } from "../policy/policy.js";
import type { ReadReport } from "../tier/request/request.js";
import {
  ContextLoader,
  type LoaderDefinition,
  type LoaderMaking,
  type LoaderParts,
  type OwnLoader,
} from "./context-loader.js";
import { type Identity, identityOf } from "./identity.js";
import { LoaderKeys } from "./loader-keys.js";
import {
  type CachedLoader,
  type CachedRead,
  LOADER,
  type LoaderRule,
  ownMistakes,
  placeOf,
  policySettingsOf,
  settingMistakes,
} from "./loader-options.js";
import type { TypeFacts } from "./type-shapes.js";

/** Registers a loader or function. Throws `CACHED_OPTION_INVALID` with all mistakes at once. */
export function defineLoader<Id, Value, Context>(
  options: { readonly name: string; readonly type?: string },
  parts: LoaderParts,
  making: LoaderMaking<Id, Value, Context>,
) {
  const { defaults, logger, loaders, requestStates, keys, knownTags, memos } = parts;
  const { name, type } = options;
  const { idOf, identify } = making;
  const { kind } = making.options;
  const ofUser = options as Readonly<Record<string, unknown>>;
  const given = ofUser[kind.load];
  const place = placeOf(name, kind);
  const settings = policySettingsOf(options, kind);
  const mistakes = settingMistakes(settings, kind);
  // Only valid settings can be merged.
  const compiled = mistakes.length > 0 ? undefined : compilePolicy({ declared: [settings], defaults });
  const other = loaders.get(name);
  // A second loader of the name would get the values of the first one.
  const isReplacement = other !== undefined && other.given !== given;
  const isUnidentified = compiled?.policy.scope === "PRIVATE" && identify === undefined;
  mistakes.push(
    ...ownMistakes(options, kind),
    ...(isUnidentified ? [`\`scope\`: PRIVATE requires ${kind.identifyMissing}`] : []),
    ...(parts.isProduction && isReplacement ? [nameTaken(kind.load)] : []),
    ...(compiled === undefined ? [] : [...compiled.mistakes, ...contradictions(settings)]),
    ...(typeof type === "string" && type !== "" ? [parts.typeShapes.mistakeOf(type) ?? []].flat() : []),
  );
  if (compiled === undefined || mistakes.length > 0)
    throw optionInvalid(`${place}: ${mistakes.join("; ")}`, {
      coordinate: typeof name === "string" ? name : undefined,
    });

  for (const doubt of secondsDoubts(settings)) logger.warn(`graphql-cached: ${place}: ${doubt}`);
  // A development server evaluates a changed module again, with the cache on `globalThis`.
  if (isReplacement && !other.isReplacement)
    logger.info(
      `graphql-cached: ${place} was called again with another \`${kind.load}\`; the later ${kind.noun} replaces the earlier one. In production it throws: if these are two ${kind.noun}s, rename one of them`,
    );
  const { settings: merged, policy, versions } = compiled;
  const names = new LoaderKeys(making.options, ofUser, { keys, knownTags, memos, policy });
  const variantOf = variantSource(making.options, names.hasOwnKey, policy, versions, parts);
  const identifyOf = (id: Id) => identify && ((object: Context) => identify(requestStates.contextOf(object), id));
  const definition = { ...making, identifyOf, policy, names, variantOf, parts };
  parts.typeShapes.want(making.options, type);
  const rule: LoaderRule = {
    name,
    isReplacement,
    given,
    kind,
    policy,
    settings: merged,
    variantOf,
    tagTextsOf: (named) => names.tagTextsOf(idOf(named)),
    doubtOf: (named) => names.doubtOf(idOf(named)),
    keyOf: (named, identity) => names.keyOf(idOf(named), identity, variantOf()),
  };
  loaders.set(name, rule);
  if (names.hasOwnKey && policy.scope === "PUBLIC" && policy.isDeclaredPublic !== true)
    Object.assign(parts.tier.loads.privateValues, { isAsked: true, isAskedOfIds: true });
  const loaderOf = loaderPerContext(definition);
  const callerOf = (id: Id, context: Context): Identity | undefined => identityOf(identifyOf(id), context);
  parts.requestFactories.set(name, (input, context: Context) => {
    const id = idOf(input, { context });
    const request = new ContextLoader(definition, context, loaderOf(context), callerOf(id, context)).requestFor(id);
    if (request !== undefined) return request;
    const mistake = `cache.refresh: \`${name}\`: cannot build a key for the job's id`;
    throw keyUnusable(mistake, { coordinate: name });
  });
  return { loaderOf, rule, callerOf };
}

const nameTaken = (load: string): string =>
  `\`name\`: expected a name that no other loader of the cache has, since loaders of one name share entries, got one with another \`${load}\`; create each loader once, outside of requests, or rename it`;

/** Memoizes one loader per context, inherited ones apart. Calls of a function need no context. */
function loaderPerContext<Id, Value, Context>(
  definition: LoaderDefinition<Id, Value, Context>,
): (context: Context) => CachedLoader<Id, Value> {
  const loaders = new StateOf<CachedLoader<Id, Value>>();
  let isWarned = false;
  return (context) => {
    const owner: unknown = context ?? (definition.options.kind === LOADER ? undefined : definition);
    if (typeof owner !== "object" || owner === null) {
      // The type only: a context can be a token.
      const got = context === null || context === undefined ? String(context) : `a ${typeof context}`;
      if (!isWarned)
        definition.parts.logger.warn(
          `graphql-cached: ${placeOf(definition.options.name, LOADER)}: expected the context of a request, an object, got ${got}; without it, each call has a loader of its own, which neither batches nor remembers`,
        );
      isWarned = true;
      return callerLoader(definition, context);
    }
    return getOrMake(loaders, owner, () => callerLoader(definition, context));
  };
}

/** The identities with a loader in one context. The oldest is forgotten first. */
const MAX_IDENTITIES = 1_000;

/** Several callers can share a context: each has a loader, with reads and batches of its own. */
function callerLoader<Id, Value, Context>(
  definition: LoaderDefinition<Id, Value, Context>,
  context: Context,
): CachedLoader<Id, Value> {
  const { options, policy, parts, identifyOf, identifyPlace } = definition;
  const { contextWatch, requestStates, tier, typeShapes } = parts;
  const { privateValues } = tier.loads;
  const isPrivate = policy.scope === "PRIVATE";
  // Throws now, and not with the first read, if the schema is not known.
  if (policy.maxAgeMs > 0) definition.variantOf();
  const typeFacts = (): TypeFacts | undefined =>
    policy.maxAgeMs === 0 || options.type === undefined ? undefined : typeShapes.of(options, options.type);
  let knownFacts = typeFacts();
  const loaders = new Map<Identity | undefined, OwnLoader<Id, Value>>();
  const uncached = (caller: Identity | undefined): OwnLoader<Id, Value> => {
    // Nothing tells a PRIVATE value of an unknown caller from that of the next one.
    const remembers = options.cache !== false && !(isPrivate && caller === undefined);
    if (definition.uncached !== undefined) return definition.uncached(context, loader, remembers);
    const source = definition.sourceOf(context, loader, policy);
    return { ...loader, load: (id) => source({ id, cached: undefined, enclosing: undefined }) };
  };
  /** `id`: undefined for several of a loader, whose caller does not depend on it. */
  const own = (id?: Id): OwnLoader<Id, Value> => {
    // A load that uses a PUBLIC loader does not depend on who asks.
    const caller = contextWatch.pause(() => identityOf(identifyOf(id as Id), context));
    if (isPrivate) {
      tier.loads.readPrivate(options.name, caller ?? "");
      const collector = identifyPlace === undefined ? undefined : requestStates.observerOf(context)?.collector;
      if (collector !== undefined && caller !== identityOf(parts.identify, context))
        collector.refuse(`\`${options.name}\`, which is PRIVATE, was read for another identity than its own`);
    }
    const facts = typeFacts();
    // A schema was applied since: a context can outlive that, and a function needs none.
    if (facts !== knownFacts) loaders.clear();
    knownFacts = facts;
    const known = loaders.get(caller);
    if (known !== undefined) return known;
    const made = policy.maxAgeMs > 0 ? new ContextLoader(definition, context, loader, caller) : uncached(caller);
    loaders.set(caller, made);
    if (loaders.size > MAX_IDENTITIES) loaders.delete(loaders.keys().next().value);
    return made;
  };
  const noted = <Read>(read: Promise<Read>): Promise<Read> => {
    if (policy.maxAgeMs === 0) {
      const observer = requestStates.observerOf(context);
      observer?.onKnown?.(isPrivate);
      observer?.collector?.addUncached(options.name, isPrivate);
    }
    if (!isPrivate) return read;
    privateValues.loaderReads++;
    privateValues.lastLoader = options.name;
    return privateValues.noteSettled(read, options.name, context);
  };
  const changed = (change: (made: OwnLoader<Id, Value>) => unknown): CachedLoader<Id, Value> => {
    change(own());
    return loader;
  };
  const loader: CachedLoader<Id, Value> = {
    name: options.name,
    load: (id) => noted(own(id).load(id)),
    loadMany: (ids) => noted(own().loadMany(ids)),
    async read(id) {
      let report: Partial<Omit<CachedRead<Value>, "value">> = {};
      const told = (given: ReadReport): void => {
        report = given;
      };
      const value = await noted(own(id).load(id, told));
      const { outcome = policy.maxAgeMs > 0 ? "remembered" : "bypassed", ageMs, reason } = report;
      return { value, outcome, ageMs, reason };
    },
    clear: (id) => changed((made) => made.clear(id)),
    clearAll: () => changed((made) => made.clearAll()),
    prime: (id, value) => changed((made) => made.prime(id, value)),
  };
  return loader;
}

/** With a type, it follows the schema, and throws `CACHED_OPTION_INVALID` before one is applied. */
function variantSource<Id, Value, Context>(
  options: LoaderMaking<Id, Value, Context>["options"],
  hasOwnKey: boolean,
  policy: Policy,
  versions: readonly string[],
  { keys, typeShapes, variants }: LoaderParts,
): () => Variant {
  const { name, type, tags, kind } = options;
  const make = (shape: string): { shape: string; variant: Variant } => {
    const variant = keys.variant({
      kind: "loader",
      shape,
      versions,
      // Only a version can say that a function has changed.
      keyTemplate: [policy.scope, ...(hasOwnKey ? [kind.key, ...versions] : [])],
      tagTemplates: tags === undefined ? [] : ["tags"],
    });
    variants.declare(name, variant);
    return { shape, variant };
  };
  let known = type === undefined ? make("") : undefined;
  return () => {
    const shape = type === undefined ? "" : typeShapes.of(options, type).shape;
    if (known?.shape !== shape) known = make(shape);
    return known.variant;
  };
}
