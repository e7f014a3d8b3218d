import type { GraphQLResolveInfo } from "graphql";
import { CachedError, inOneLine, messageOf } from "../../base/errors.js";
import { executionOf, noVariables, withLoadSignal } from "../../base/graphql-version.js";
import type { KeySpace, Subject } from "../../keys/key.js";
import { type BoundTemplate, combinationsIn } from "../../keys/tag-template.js";
import type { CacheParts, RequestFactory } from "../../parts.js";
import type { EmptyTagReporter, FieldRule, InvalidationRule, ObservedLoad, Obstacle } from "../../schema-rules.js";
import type { InvalidationVia } from "../../telemetry/events.js";
import type { ResultControl } from "../../tier/request/result-control.js";
import type { Waiters } from "../../tier/request/waiters.js";
import { boundTemplates, type FieldRoots, keyOf, tagsBeforeLoad, tagsOf, tagTexts } from "../compile/field-rule.js";
import { type ReferenceResolver, toExtensible } from "../compile/reference.js";
import { detachedCacheControl, recordHints } from "../hints/response-hint.js";
import { InnerShield } from "../permissions/inner-shield.js";
import {
  type Args,
  cachedResolver,
  canRunElsewhere,
  type FieldFunctions,
  hintExcess,
  type Resolver,
} from "./cached-field.js";
import { withResultControl } from "./result-control.js";

/**
 * Wraps the `__resolveReference` of an entity type, as if it was a field of which the representation is
 * the parent.
 */
export function cachedReference(
  rule: FieldRule,
  resolve: ReferenceResolver,
  parts: CacheParts,
  functions?: FieldFunctions,
): ReferenceResolver {
  const read = cachedResolver(rule, asField(resolve), parts, functions);
  const mayBeFrozen = parts.tier.hasNear || rule.policy.readOnly === true;
  return (representation, context, info) => {
    const entity = read(representation, {}, context, info);
    if (!mayBeFrozen) return entity;
    return entity instanceof Promise ? entity.then(toExtensible) : toExtensible(entity);
  };
}

/** Returns the resolver of the field that stands for references in a rule. */
export const asField =
  (resolve: ReferenceResolver): Resolver =>
  (representation, _args, context, info) =>
    resolve(representation, context, info);

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
    let tags = tagsOf(rule, roots, undefined, keys);
    let observed: ObservedLoad | undefined;
    const shield = new InnerShield();
    const load = (waiters: Waiters, result: ResultControl): unknown => {
      observed = rule.queryUse.observe(withResultControl(withLoadSignal(recorded.info, waiters), result), "none");
      tags = tagsBeforeLoad(rule, tags, roots, keys);
      const { info } = observed;
      return shield.run(context, () => resolve(source, args, context, info));
    };
    return {
      key,
      policy: rule.policy,
      get tags() {
        return tags;
      },
      load,
      hintOf: () => recorded.hint(),
      excess: () => shield.excess(rule.coordinate) ?? observed?.excess() ?? hintExcess(rule, recorded.hint()),
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
  const mutate = async (source: unknown, args: Args, context: unknown, info: GraphQLResolveInfo): Promise<unknown> => {
    const roots = { args, source, context, info };
    const templates = boundTemplates(rule.tags, roots, parts.keys);
    const result: unknown = await resolve(source, args, context, info);
    if (exceedsLimits(templates, roots, result, parts)) {
      const cause = { via: "@invalidates", mutation: `${info.parentType.name}.${info.fieldName}` } as const;
      await parts.invalidation.clear("hard", cause).catch(() => undefined);
      parts.scopes.loader(executionOf(info)).clear();
      return result;
    }
    const tags = declaredTags({ templates, reportEmptyTag: rule.reportEmptyTag }, roots, result, parts);
    const entities = await changedEntities(rule, { context, info }, result, parts, reported);
    if (rule.tags.length === 0 && entities.length === 0) return result;
    const mutation = `${info.parentType.name}.${info.fieldName}`;
    const invalidate = (subjects: readonly Subject[], via: InvalidationVia): Promise<void> =>
      parts.invalidation.run({ keys: [], tags: subjects }, "hard", { via, mutation });
    const declared = parts.keys.invalidatedTags(tags);
    const others = parts.keys.invalidatedTags(entities).filter((tag) => !declared.includes(tag));
    // An unavailable store must not fail the mutation. The invalidation is retried until the store
    // confirms it.
    await Promise.allSettled([
      declared.length === 0 ? undefined : invalidate(declared, "@invalidates"),
      others.length === 0 ? undefined : invalidate(others, "entityTags"),
    ]);
    parts.scopes.loader(executionOf(info)).clear();
    return result;
  };
  // A server that stops waits for its clients only, and that of the mutation may have hung up.
  return (source, args, context, info) => parts.underWay.add(mutate(source, args, context, info));
}

/** Returns whether templates with several lists make more tags than an execution may. Then everything is invalidated instead. */
function exceedsLimits(
  templates: readonly BoundTemplate[],
  { args, source, context, info }: FieldRoots & { readonly info: GraphQLResolveInfo },
  result: unknown,
  { scopes, logger }: CacheParts,
): boolean {
  const { budget } = scopes.loader(executionOf(info), scopes.observer(context));
  const coordinate = `${info.parentType.name}.${info.fieldName}`;
  try {
    for (const template of templates)
      budget.addCombinations(combinationsIn(template, { args, source, context, result }), coordinate);
    return false;
  } catch (error) {
    if (!(error instanceof CachedError)) return false;
    logger.warn(`graphql-cached: \`${coordinate}\`: @invalidates invalidates everything: ${error.message}`);
    return true;
  }
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
  const report = (coordinate: string, { kind, error }: Obstacle): void => {
    // Without the message of an error, which can be another one for each row.
    const what = `${coordinate}: ${kind}`;
    if (reported.has(what)) return;
    reported.add(what);
    const obstacle = error === undefined ? kind : `${kind} (${inOneLine(messageOf(error))})`;
    logger.warn(
      `graphql-cached: \`${mutation}\`: entityTags: expected the entities at \`${coordinate}\`, got ${obstacle}; they are not invalidated; return them as objects, or name their tags in @invalidates`,
    );
  };
  try {
    return await entities.changedIn(result, call, report);
  } catch (error) {
    report(mutation, { kind: "an error", error });
    return [];
  }
}

/**
 * Returns the tags that a mutation invalidates. The mutation has succeeded, so an error of a getter or
 * of a key form in `types` is reported and does not fail it.
 */
function declaredTags(
  {
    templates,
    reportEmptyTag,
  }: { readonly templates: readonly BoundTemplate[]; readonly reportEmptyTag: EmptyTagReporter },
  roots: FieldRoots & { readonly info: GraphQLResolveInfo },
  result: unknown,
  { keys, logger }: CacheParts,
): readonly string[] {
  return templates.flatMap((template) => {
    try {
      return tagTexts({ templates: [template], reportEmptyTag }, roots, result, keys);
    } catch (error) {
      const { parentType, fieldName } = roots.info;
      logger.warn(
        `graphql-cached: \`${parentType.name}.${fieldName}\`: @invalidates: expected tags of \`${template.text}\`, got an error, so these are not invalidated: ${inOneLine(messageOf(error))}`,
      );
      return [];
    }
  });
}
