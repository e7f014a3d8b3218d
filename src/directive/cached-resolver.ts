import type { GraphQLFieldResolver, GraphQLResolveInfo } from "graphql";
import { CachedError } from "../errors.js";
import type { KeySpace } from "../keys/key.js";
import { identityOf, loadPrivate } from "../loader/identity.js";
import type { CacheParts, RequestFactory } from "../parts.js";
import type { ResponseHint } from "../store/body.js";
import type { BypassReason } from "../telemetry/events.js";
import type { ReadReport, ReadRequest } from "../tier/request.js";
import { type FieldRoots, type FieldRule, keyOf, tagsOf } from "./field-rule.js";
import { noteHints } from "./response-hint.js";

type Resolver = GraphQLFieldResolver<unknown, unknown, Record<string, unknown>>;

/** One field's way into the cache: who is asking? → key → the request's loader. What has no key is resolved as if it were not cached. */
export function cachedResolver(rule: FieldRule, resolve: Resolver, parts: CacheParts): Resolver {
  const { coordinate, policy } = rule;
  const isPrivate = policy.scope === "PRIVATE";
  const mayMove = canMove(rule);
  const known = (rule.keyPaths ?? []).flatMap(({ root, steps }) => (root === "context" ? steps.slice(0, 1) : []));

  return (source, args, context, info) => {
    let noted: ReturnType<typeof noteHints<GraphQLResolveInfo>> | undefined;
    const resolved = (): unknown => {
      noted = noteHints(info);
      return resolve(source, args, context, noted.info);
    };
    const onRead = (served: ReadReport): void => parts.scopes.observer(context)?.(coordinate, served, info);
    const bypass = (reason: BypassReason, error?: CachedError): unknown => {
      parts.channel.publish({
        name: "resolver.bypassed",
        coordinate,
        digest: "",
        reason,
        ...(error === undefined ? {} : { error }),
      });
      onRead({ outcome: "bypassed", isPrivate, reason });
      return resolved();
    };
    const override = parts.scopes.overrideOf(context);
    if (override === "BYPASS") return bypass("REQUESTED");
    const { identify, contextWatch } = parts;
    const identity = isPrivate ? identityOf(identify, context) : undefined;
    if (isPrivate && identity === undefined) return bypass("NO_IDENTITY");
    const load = (): unknown => {
      if (isPrivate) return loadPrivate({ coordinate, identity, identify, context }, resolved);
      return contextWatch === undefined ? resolved() : contextWatch.run(coordinate, known, context, resolved);
    };
    const roots: FieldRoots = { args, source, context, info };
    try {
      const key = keyOf(rule, roots, identity, parts.keys);
      const tags = tagsOf(rule, roots, parts.keys);
      const input = mayMove ? { input: () => ({ args, source }) } : {};
      const hintOf = (): ResponseHint | undefined => noted?.hint();
      const isForced = override === "REFRESH";
      const request: ReadRequest = { key, policy, tags, load, hintOf, isForced, onRead, ...input };
      const near = parts.tier.near(request);
      return near === undefined ? parts.scopes.loader(info.variableValues).read(request) : near.value;
    } catch (error) {
      return bypass("KEY_UNUSABLE", error instanceof CachedError ? error : undefined);
    }
  };
}

/** Whether a field's load depends on nothing but arguments and parent, as far as its key and tags say: then another process can run it. */
const canMove = ({ policy, keyPaths = [], tags }: FieldRule): boolean =>
  policy.scope === "PUBLIC" &&
  keyPaths.every(({ root }) => root === "args" || root === "source") &&
  tags.every(({ pieces }) => pieces.every((piece) => typeof piece === "string" || piece.root !== "context"));

/** Where a resolver says how long its response may be kept while there is no response; it is noted all the same. */
const NOBODY = { cacheHint: { restrict: () => undefined }, setCacheHint: () => undefined };

/**
 * How a worker makes a field's request again; undefined where it cannot. The resolver gets an `info` that knows names and types only: there is no
 * query.
 */
export function requestFactoryOf(
  rule: FieldRule,
  resolve: Resolver,
  info: unknown,
  keys: KeySpace,
): RequestFactory | undefined {
  if (!canMove(rule)) return undefined;
  return (input, context) => {
    const { args, source } = input as { args: Record<string, unknown>; source: unknown };
    const known = info as GraphQLResolveInfo;
    const roots: FieldRoots = { args, source, context, info: known };
    const key = keyOf(rule, roots, undefined, keys);
    const noted = noteHints({ ...known, cacheControl: NOBODY });
    const load = (): unknown => resolve(source, args, context, noted.info);
    return { key, policy: rule.policy, tags: tagsOf(rule, roots, keys), load, hintOf: () => noted.hint() };
  };
}

/** A mutation field that invalidates tags once it has succeeded, before its answer is given. */
export function invalidatingResolver(tags: FieldRule["tags"], resolve: Resolver, parts: CacheParts): Resolver {
  return async (source, args, context, info: GraphQLResolveInfo) => {
    const result: unknown = await resolve(source, args, context, info);
    const names = tagsOf({ tags } as FieldRule, { args, source, context, info }, parts.keys);
    // A store that is away keeps no write from succeeding: the invalidation is kept, and repeated until it is done.
    await parts.invalidation
      .run({ keys: [], tags: [...names.names, ...(names.namesOf?.(result) ?? [])] })
      .catch(() => undefined);
    parts.scopes.loader(info.variableValues).clear();
    return result;
  };
}
