import type { GraphQLResolveInfo } from "graphql";
import { CachedError, inOneLine, messageOf } from "../../base/errors.js";
import { executionOf } from "../../base/graphql-version.js";
import type { Subject } from "../../keys/key.js";
import { type BoundTemplate, combinationsIn } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { EmptyTagReporter, EntityFinder, FieldRule, InvalidationRule, Obstacle } from "../../schema-rules.js";
import type { InvalidationVia } from "../../telemetry/events.js";
import { boundTemplates, type FieldRoots, tagTexts } from "../compile/field-rule.js";
import { type ReferenceResolver, toExtensible } from "../compile/reference.js";
import type { ExistenceCheck } from "../existence/field-existence.js";
import { type Args, cachedResolver, type Resolver } from "./cached-field.js";

/** Wraps the `__resolveReference` of an entity type, as a field of which the representation is the parent. */
export function cachedReference(
  rule: FieldRule,
  resolve: ReferenceResolver,
  parts: CacheParts,
  existence?: ExistenceCheck,
): ReferenceResolver {
  const read = cachedResolver(rule, asField(resolve), parts, existence);
  const mayBeFrozen = parts.tier.hasNear || rule.policy.readOnly === true;
  return (representation, context, info) => {
    const entity = read(representation, {}, context, info);
    if (!mayBeFrozen) return entity;
    return entity instanceof Promise ? entity.then(toExtensible) : toExtensible(entity);
  };
}

export const asField =
  (resolve: ReferenceResolver): Resolver =>
  (representation, _args, context, info) =>
    resolve(representation, context, info);

/** Wraps a resolver that is not cached: the entities that it returns are parts of the response. Only while a response is executed that is to be stored. */
export function collectingResolver(
  coordinate: string,
  finder: EntityFinder,
  resolve: Resolver,
  { requestStates, keys }: CacheParts,
): Resolver {
  const collect = (value: unknown, context: unknown, info: GraphQLResolveInfo): unknown => {
    const collector = requestStates.observer(context)?.collector;
    if (collector === undefined) return value;
    const tags = finder.partsIn(value, { context, info });
    if (tags === undefined)
      collector.refuse(
        `the entities in what \`${coordinate}\` returned cannot be found: it has methods, promises, a list that can be read once, or objects without a \`__typename\``,
      );
    else collector.addTags(keys.tags(tags));
    return value;
  };
  return (source, args, context, info) => {
    const value = resolve(source, args, context, info);
    if (!requestStates.isCollecting || requestStates.observer(context)?.collector === undefined) return value;
    return value instanceof Promise
      ? value.then((settled) => collect(settled, context, info))
      : collect(value, context, info);
  };
}

/** Wraps the resolver of a mutation field: after it has succeeded, invalidates tags and the entities that it has returned, then returns. */
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
      parts.requestStates.loader(executionOf(info)).clear();
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
    parts.requestStates.loader(executionOf(info)).clear();
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
  { requestStates, logger }: CacheParts,
): boolean {
  const { budget } = requestStates.loader(executionOf(info), requestStates.observer(context));
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

/** Returns the tags that a mutation invalidates. It has succeeded, so an error of a getter or a key form is reported and does not fail it. */
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
