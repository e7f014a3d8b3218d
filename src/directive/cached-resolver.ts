import type { GraphQLFieldResolver, GraphQLResolveInfo } from "graphql";
import { CachedError, messageOf } from "../errors.js";
import { executionOf, noVariables, withLoadSignal } from "../graphql-version.js";
import type { KeySpace } from "../keys/key.js";
import type { FieldRequest } from "../loader/field-loader.js";
import { identityMistake, identityOf, loadPrivate } from "../loader/identity.js";
import type { CacheParts, RequestFactory } from "../parts.js";
import type { FieldRule, InvalidationRule, ObservedLoad } from "../schema-rules.js";
import type { ResponseHint } from "../store/body.js";
import type { BypassReason } from "../telemetry/events.js";
import type { CallSignals } from "../tier/caller.js";
import type { Excess } from "../tier/loaded.js";
import type { ReadReport } from "../tier/request.js";
import type { ResultControl } from "../tier/result-control.js";
import type { Waiters } from "../tier/waiters.js";
import type { ExistenceCheck } from "./field-existence.js";
import { type FieldRoots, keyOf, tagsOf, tagTexts } from "./field-rule.js";
import { type ReferenceResolver, toExtensible } from "./reference.js";
import { detachedCacheControl, recordHints } from "./response-hint.js";
import { withResultControl } from "./result-control.js";
import { ResultValidator } from "./result-validator.js";

type Resolver = GraphQLFieldResolver<unknown, unknown, Record<string, unknown>>;

/**
 * Wraps the resolver of a cached field: identity, then key, then the request's loader. A call
 * without a usable key resolves as if the field were not cached. `existence` checks on a miss whether there
 * is anything to load.
 */
export function cachedResolver(
  rule: FieldRule,
  resolve: Resolver,
  parts: CacheParts,
  existence?: ExistenceCheck,
): Resolver {
  const { coordinate, policy } = rule;
  const isPrivate = policy.scope === "PRIVATE";
  const isPortable = canRunElsewhere(rule);
  const validator = new ResultValidator();
  const keyProperties = rule.keyPaths.flatMap(({ root, steps }) => (root === "context" ? steps.slice(0, 1) : []));

  return (source, args, context, info) => {
    let recorded: ReturnType<typeof recordHints<GraphQLResolveInfo>> | undefined;
    const resolveUncached = (): unknown => {
      recorded = recordHints(info);
      return resolve(source, args, context, recorded.info);
    };
    const signals = (): CallSignals | undefined => parts.signals.of(coordinate, context, info);
    const onRead = (served: ReadReport): void => parts.scopes.observer(context)?.onRead(coordinate, served, info);
    const onHint = (hint: ResponseHint): void => parts.scopes.observer(context)?.onHint?.(hint, info);
    const bypass = (reason: BypassReason, error?: CachedError): unknown => {
      parts.channel.publish({
        name: "resolver.bypassed",
        coordinate,
        digest: "",
        reason,
        ...(error === undefined ? {} : { error }),
      });
      onRead({ outcome: "bypassed", isPrivate, reason });
      return resolveUncached();
    };
    const override = parts.scopes.overrideOf(context);
    if (override === "BYPASS") return bypass("REQUESTED");
    const { identify, contextWatch } = parts;
    const identity = isPrivate ? identityOf(identify, context) : undefined;
    if (isPrivate && identity === undefined)
      return bypass("NO_IDENTITY", identityMistake(identify, context, coordinate));
    const loadWith = (observed: GraphQLResolveInfo): unknown => {
      const begin = (): unknown => resolve(source, args, context, observed);
      if (isPrivate) return loadPrivate({ coordinate, identity, identify, context }, begin);
      return contextWatch === undefined ? begin() : contextWatch.run(coordinate, keyProperties, context, begin);
    };
    const read = (): unknown => {
      // Loads can widen it: a request whose key has been outgrown is read again.
      const { extent } = rule.queryUse;
      const roots: FieldRoots = { args, source, context, info, extent };
      const key = keyOf(rule, roots, identity, parts.keys);
      const tags = tagsOf(rule, roots, identity, parts.keys);
      const input = isPortable && extent === "none" ? { input: () => ({ args, source }) } : {};
      let observed: ObservedLoad | undefined;
      const load = (waiters: Waiters, result: ResultControl): unknown => {
        recorded = recordHints(info);
        // Observed last: a copy of an observed `info` would read from it.
        const own = withResultControl(withLoadSignal(recorded.info, waiters), result);
        observed = rule.queryUse.observe(own, extent);
        return loadWith(observed.info);
      };
      const hintOf = (): ResponseHint | undefined => recorded?.hint();
      const isForced = override === "REFRESH";
      const request: FieldRequest = {
        key,
        policy,
        tags,
        load,
        signals,
        hintOf,
        excess: () => observed?.excess() ?? hintExcess(rule, recorded?.hint()),
        reread: read,
        isForced,
        onRead,
        onHint,
        validator,
        call: rule.reference === undefined ? info : { ...info, returnType: rule.reference.type },
        context,
        origin: undefined,
        hint: undefined,
        caller: undefined,
        result: undefined,
        mayExist: existence?.(roots),
        ...input,
      };
      const near = parts.tier.near(request);
      return near === undefined ? parts.scopes.loader(executionOf(info)).read(request) : near.value;
    };
    try {
      return read();
    } catch (error) {
      return bypass("KEY_UNUSABLE", error instanceof CachedError ? error : undefined);
    }
  };
}

/**
 * A load of a field that is cached by the hints of the schema has set the scope to PRIVATE: its value
 * belongs to one caller, and nothing says which.
 */
function hintExcess({ coordinate, policy }: FieldRule, hint: ResponseHint | undefined): Excess | undefined {
  if (policy.followsHints !== true || policy.scope === "PRIVATE" || hint?.scope !== "PRIVATE") return undefined;
  const error = new CachedError(
    "CACHED_VALUE_INVALID",
    `\`${coordinate}\`: the value is not cached: expected a PUBLIC value, got one for which its resolver set the cache hint PRIVATE; write scope: PRIVATE in @cacheControl or @cached`,
    { coordinate },
  );
  return { kind: "unkeyable", error };
}

/**
 * Wraps the `__resolveReference` of an entity type, as if it was a field of which the representation is
 * the parent.
 */
export function cachedReference(
  rule: FieldRule,
  resolve: ReferenceResolver,
  parts: CacheParts,
  existence?: ExistenceCheck,
): ReferenceResolver {
  const read = cachedResolver(rule, asField(resolve), parts, existence);
  return (representation, context, info) => {
    const entity = read(representation, {}, context, info);
    if (!parts.tier.hasNear) return entity;
    return entity instanceof Promise ? entity.then(toExtensible) : toExtensible(entity);
  };
}

/** Returns the resolver of the field that stands for references in a rule. */
export const asField =
  (resolve: ReferenceResolver): Resolver =>
  (representation, _args, context, info) =>
    resolve(representation, context, info);

/**
 * Whether another process can run the load: according to its key and tags, it depends only on
 * arguments and parent.
 */
const canRunElsewhere = ({ policy, keyPaths, tags }: FieldRule): boolean =>
  policy.scope === "PUBLIC" &&
  keyPaths.every(({ root }) => root === "args" || root === "source") &&
  tags.every(({ pieces }) => pieces.every((piece) => typeof piece === "string" || piece.root !== "context"));

/**
 * Returns a function that rebuilds the requests of a field in a worker, or undefined if the field's
 * loads depend on more than arguments and parent. The resolver receives an `info` with names and
 * types only, since there is no query.
 */
export function requestFactoryOf(
  rule: FieldRule,
  resolve: Resolver,
  info: unknown,
  keys: KeySpace,
): RequestFactory | undefined {
  if (!canRunElsewhere(rule)) return undefined;
  return (input, context) => {
    const { args, source } = input as { args: Record<string, unknown>; source: unknown };
    const workerInfo = info as GraphQLResolveInfo;
    const roots: FieldRoots = { args, source, context, info: workerInfo };
    const key = keyOf(rule, roots, undefined, keys);
    const recorded = recordHints({
      ...workerInfo,
      variableValues: noVariables(),
      cacheControl: detachedCacheControl(),
    });
    let observed: ObservedLoad | undefined;
    const load = (waiters: Waiters, result: ResultControl): unknown => {
      observed = rule.queryUse.observe(withResultControl(withLoadSignal(recorded.info, waiters), result), "none");
      return resolve(source, args, context, observed.info);
    };
    return {
      key,
      policy: rule.policy,
      tags: tagsOf(rule, roots, undefined, keys),
      load,
      hintOf: () => recorded.hint(),
      excess: () => observed?.excess() ?? hintExcess(rule, recorded.hint()),
    };
  };
}

/**
 * Wraps the resolver of a mutation field: invalidates tags, and the entities that it has returned, after
 * it has succeeded, before the result is returned.
 */
export function invalidatingResolver(rule: InvalidationRule, resolve: Resolver, parts: CacheParts): Resolver {
  /** What was reported of values that a walk could not look into. */
  const reported = new Set<string>();
  return async (source, args, context, info: GraphQLResolveInfo) => {
    const result: unknown = await resolve(source, args, context, info);
    const tags = declaredTags(rule.tags, { args, source, context, info }, result, parts);
    const entities = await changedEntities(rule, { context, info }, result, parts, reported);
    if (rule.tags.length === 0 && entities.length === 0) return result;
    // An unavailable store must not fail the mutation. The invalidation is retried until the store
    // confirms it.
    const names = parts.keys.invalidatedTags([...tags, ...entities]);
    await parts.invalidation.run({ keys: [], tags: names }).catch(() => undefined);
    parts.scopes.loader(executionOf(info)).clear();
    return result;
  };
}

/** Returns the tags of the entities that a mutation has returned. Never rejects: the mutation has succeeded. */
async function changedEntities(
  { entities }: InvalidationRule,
  call: { readonly context: unknown; readonly info: GraphQLResolveInfo },
  result: unknown,
  { logger }: CacheParts,
  reported: Set<string>,
): Promise<readonly string[]> {
  if (entities === undefined) return [];
  const { parentType, fieldName } = call.info;
  const mutation = `${parentType.name}.${fieldName}`;
  const report = (coordinate: string, obstacle: string): void => {
    const what = `\`${mutation}\`: entityTags: expected the entities at \`${coordinate}\`, got ${obstacle}`;
    if (reported.has(what)) return;
    reported.add(what);
    logger.warn(
      `graphql-cached: ${what}; they are not invalidated; return them as objects, or name their tags in @invalidates`,
    );
  };
  try {
    return await entities.changedIn(result, call, report);
  } catch (error) {
    report(mutation, `an error (${messageOf(error)})`);
    return [];
  }
}

/**
 * Returns the tags that a mutation invalidates. The mutation has succeeded, so an error of a getter or
 * of a key form in `types` is reported and does not fail it.
 */
function declaredTags(
  templates: FieldRule["tags"],
  roots: FieldRoots & { readonly info: GraphQLResolveInfo },
  result: unknown,
  { keys, logger }: CacheParts,
): readonly string[] {
  return templates.flatMap((template) => {
    try {
      return tagTexts([template], roots, result, keys);
    } catch (error) {
      const { parentType, fieldName } = roots.info;
      logger.warn(
        `graphql-cached: \`${parentType.name}.${fieldName}\`: @invalidates: expected tags of \`${template.text}\`, got an error, so these are not invalidated: ${messageOf(error)}`,
      );
      return [];
    }
  });
}
