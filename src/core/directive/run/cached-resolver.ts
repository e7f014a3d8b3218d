import type { GraphQLResolveInfo } from "graphql";
import { isError } from "../../base/built-in.js";
import { asPromise } from "../../base/deferred.js";
import { CachedError, inOneLine, messageOf } from "../../base/errors.js";
import { executionOf } from "../../base/graphql-version.js";
import { ignoreRejectionsIn } from "../../codec/settled.js";
import { type KeySpace, listsByType, type Subject } from "../../keys/key.js";
import { type BoundTemplate, combinationsIn } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { EmptyTagReporter, EntityFinder, FieldRule, InvalidationRule, Obstacle } from "../../schema-rules.js";
import type { InvalidationVia } from "../../telemetry/events.js";
import { MAX_OF_CLIENTS, MAX_OF_EXECUTION } from "../../tier/invalidation/listed-tags.js";
import { boundTemplates, type FieldRoots, tagTexts } from "../compile/field-rule.js";
import { type ReferenceResolver, toExtensible } from "../compile/reference.js";
import type { ExistenceCheck } from "../existence/field-existence.js";
import { type Args, cachedResolver, type Resolver } from "./cached-field.js";

/** Wraps the `__resolveReference` of an entity type, a field whose parent is the representation. */
export function cachedReference(
  rule: FieldRule,
  resolve: ReferenceResolver,
  parts: CacheParts,
  existence?: ExistenceCheck,
  uncached?: Resolver,
): ReferenceResolver {
  const read = cachedResolver(rule, asField(resolve), parts, existence, uncached);
  const mayBeFrozen = rule.policy.readOnly === true;
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

/** Wraps an uncached root field: an execution begins before anything is read for it. */
export const beginningResolver =
  (resolve: Resolver, { requestStates }: CacheParts): Resolver =>
  (source, args, context, info) => {
    requestStates.execution(info, requestStates.observerOf(context));
    return resolve(source, args, context, info);
  };

/** Wraps an uncached resolver: its entities are parts of a response that is to be stored. */
export function collectingResolver(
  coordinate: string,
  finder: EntityFinder,
  resolve: Resolver,
  { requestStates, keys }: CacheParts,
): Resolver {
  const collect = (value: unknown, context: unknown, info: GraphQLResolveInfo): unknown => {
    const collector = requestStates.observerOf(context)?.collector;
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
    if (!requestStates.isCollecting || requestStates.observerOf(context)?.collector === undefined) return value;
    const promised = asPromise(value);
    return promised instanceof Promise
      ? promised.then((settled) => collect(settled, context, info))
      : collect(promised, context, info);
  };
}

/** Wraps a mutation field: after success, invalidates tags and entities, and then returns. */
export function invalidatingResolver(rule: InvalidationRule, resolve: Resolver, parts: CacheParts): Resolver {
  const reported = new Set<string>();
  const warnOnce: WarnOnce = (what, text) => {
    if (reported.has(what)) return;
    reported.add(what);
    parts.logger.warn(`graphql-cached: ${text}`);
  };
  const mutate = async (source: unknown, args: Args, context: unknown, info: GraphQLResolveInfo): Promise<unknown> => {
    const roots = { args, source, context, info };
    const templates = boundTemplates(rule.tags, roots, parts.keys);
    const result: unknown = await resolve(source, args, context, info);
    // GraphQL gets it only after the invalidation.
    ignoreRejectionsIn(result, MAX_AWAITED);
    // GraphQL reports it as if it had been thrown.
    if (isError(result)) return result;
    const entities = await changedEntities(rule, { context, info }, result, warnOnce);
    if (rule.tags.length === 0 && entities.length === 0) return result;
    const mutation = `${info.parentType.name}.${info.fieldName}`;
    const invalidate = async (via: InvalidationVia, subjects: readonly Subject[] | undefined): Promise<void> => {
      const cause = { via, mutation };
      if (subjects === undefined) await parts.invalidation.clear("hard", cause);
      else if (subjects.length > 0) await parts.invalidation.run({ keys: [], tags: subjects }, "hard", cause);
    };
    const reporters = { reportEmptyTag: rule.reportEmptyTag, warnOnce };
    const lists = templates.map((template) => declaredTags(template, reporters, roots, result, parts));
    const declared = changedSubjects(lists, info, parts, warnOnce);
    const known = new Set(declared);
    const others = changedSubjects(entities, info, parts, warnOnce)?.filter((subject) => !known.has(subject));
    // A store that is away must not fail the mutation. The invalidation is retried.
    await Promise.allSettled([invalidate("@invalidates", declared), invalidate("entityTags", others)]);
    parts.requestStates.loader(executionOf(info)).clear();
    return result;
  };
  // A server that stops waits for its clients only, and that of the mutation may have hung up.
  return (source, args, context, info) => parts.underWay.add(mutate(source, args, context, info));
}

/** The maximum number of arrays and objects of a result that are looked at for promises. */
const MAX_AWAITED = 10_000;

type WarnOnce = (what: string, text: string) => void;

/** The tags of one template, or of the entities of one type; the beginning of those too many. */
type TagList = readonly string[] | { readonly beginning: string };

/** What the normalizer makes of each of its tags is not known. */
const beginningIn = (
  { pieces: [first] }: BoundTemplate,
  { normalizesTags }: Pick<KeySpace, "normalizesTags">,
): string => (typeof first === "string" && !normalizesTags ? first : "");

/**
 * Returns what an invalidation of tags changes: each of them, or all that begins like those of a
 * list that is too long. Undefined: everything.
 */
function changedSubjects(
  lists: readonly TagList[],
  info: GraphQLResolveInfo,
  { keys, listedTags }: CacheParts,
  warnOnce: WarnOnce,
): readonly Subject[] | undefined {
  const { owner } = executionOf(info);
  const report = (what: string): void =>
    warnOnce(
      what,
      `\`${info.parentType.name}.${info.fieldName}\`: expected a mutation that invalidates at most ${MAX_OF_EXECUTION} tags from lists in a request and ${MAX_OF_CLIENTS} in a minute, got more; ${what}; limit the lists`,
    );
  const changed = new Set<Subject>();
  for (const list of lists) {
    const isReported = "beginning" in list;
    if (!isReported && listedTags.allowMutation(list.length, owner)) {
      for (const subject of keys.invalidatedTags(list)) changed.add(subject);
      continue;
    }
    const beginnings = keys.beginningsOf(isReported ? [list.beginning] : list);
    if (beginnings === undefined) {
      report("everything is invalidated, since the tags do not begin with a name and a colon");
      return undefined;
    }
    if (!isReported) report("all values are invalidated that have a tag which begins like these");
    for (const subject of beginnings) changed.add(subject);
  }
  return [...changed];
}

/** The entities that a mutation has returned. Never rejects: the mutation has succeeded. */
async function changedEntities(
  { entities }: InvalidationRule,
  call: { readonly context: unknown; readonly info: GraphQLResolveInfo },
  result: unknown,
  warnOnce: WarnOnce,
): Promise<readonly TagList[]> {
  if (entities === undefined) return [];
  const { parentType, fieldName } = call.info;
  const mutation = `${parentType.name}.${fieldName}`;
  const report = (coordinate: string, { kind, error }: Obstacle): void => {
    const obstacle = error === undefined ? kind : `${kind} (${inOneLine(messageOf(error))})`;
    // Without the message of an error, which can be another one for each row.
    warnOnce(
      `${coordinate}: ${kind}`,
      `\`${mutation}\`: entityTags: expected the entities at \`${coordinate}\`, got ${obstacle}; they are not invalidated; return them as objects, or name their tags in @invalidates`,
    );
  };
  try {
    return listsByType(await entities.changedIn(result, call, report));
  } catch (error) {
    report(mutation, { kind: "an error", error });
    return [];
  }
}

/**
 * Returns the tags of a template that a mutation invalidates. It has succeeded, so an error of a
 * getter or a key form is reported and does not fail it. Lists that multiply beyond the limit of an
 * execution are not written.
 */
function declaredTags(
  template: BoundTemplate,
  { reportEmptyTag, warnOnce }: { readonly reportEmptyTag: EmptyTagReporter; readonly warnOnce: WarnOnce },
  roots: FieldRoots & { readonly info: GraphQLResolveInfo },
  result: unknown,
  { keys, requestStates }: CacheParts,
): TagList {
  const { args, source, context, info } = roots;
  const coordinate = `${info.parentType.name}.${info.fieldName}`;
  try {
    const combinations = combinationsIn(template, { args, source, context, result });
    const { budget } = requestStates.loader(executionOf(info), requestStates.observerOf(context));
    budget.addCombinations(combinations);
    return tagTexts({ templates: [template], reportEmptyTag }, roots, result, keys);
  } catch (error) {
    // Too many, or one of a number that may be rounded.
    const isUnusable = error instanceof CachedError && error.code === "CACHED_KEY_UNUSABLE";
    const instead = isUnusable ? "all that begins like them is invalidated" : "these are not invalidated";
    // Without the message of an error, which can be another one for each call.
    warnOnce(
      `${template.text}: ${instead}`,
      `\`${coordinate}\`: @invalidates: expected tags of \`${template.text}\`, got an error, so ${instead}: ${inOneLine(messageOf(error))}`,
    );
    return isUnusable ? { beginning: beginningIn(template, keys) } : [];
  }
}
