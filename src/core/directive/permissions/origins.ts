import {
  type GraphQLObjectType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  isObjectType,
} from "graphql";
import { identityOf } from "../../loader/identity.js";
import type { CacheParts } from "../../parts.js";
import type { Policy } from "../../policy/policy.js";
import { type PrivateValues, whenSettled } from "../../tier/source/private-values.js";
import type { AnyField } from "../compile/field-rule.js";
import type { Resolver } from "../compile/own-resolver.js";
import { REFERENCE } from "../compile/reference.js";
import { objectsOf, reached } from "../compile/type-graph.js";
import { privateHintIn } from "../hints/response-hint.js";

/**
 * Returns the types of which a query can have objects only below a PRIVATE field. `scopeOf`: the
 * scope of a field; undefined for one that has none, or that of its parent, so that what it returns
 * is as private as that. (P8)
 */
export function privateTypesOf(
  schema: GraphQLSchema,
  isPrivate: (type: GraphQLObjectType) => boolean,
  scopeOf: (type: GraphQLObjectType, field: AnyField) => Policy["scope"] | undefined,
): ReadonlySet<GraphQLObjectType> {
  type Scope = Policy["scope"] | undefined;
  const types = Object.values(schema.getTypeMap()).filter(isObjectType);
  /** Returns the types of what those fields of `type` return that have one of the scopes. */
  const returnedBy = (type: GraphQLObjectType, scopes: readonly Scope[]): GraphQLObjectType[] =>
    Object.values(type.getFields()).flatMap((field) =>
      scopes.includes(scopeOf(type, field)) ? objectsOf(schema, getNamedType(field.type)) : [],
    );
  const ofAll = (scope: Scope): GraphQLObjectType[] => types.flatMap((type) => returnedBy(type, [scope]));
  const below = reached([...ofAll("PRIVATE"), ...types.filter(isPrivate)], (type) =>
    returnedBy(type, ["PRIVATE", "PUBLIC", undefined]),
  );
  const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].filter(isObjectType);
  // Types that no field of a root leads to count as well, since a schema can be used in parts.
  const others = types.filter((type) => !below.has(type));
  const isPublic = reached([...roots, ...others, ...ofAll("PUBLIC")], (type) => [
    ...returnedBy(type, ["PUBLIC"]),
    ...returnedBy(type, [undefined]).filter((returned) => !isPrivate(returned)),
  ]);
  return new Set([...below].filter((type) => !isPublic.has(type)));
}

/** All references of an `_entities` field have its path, so that it says nothing of one of them. */
const pathIn = (coordinate: string) => {
  const isReference = coordinate.endsWith(`.${REFERENCE}`);
  return ({ path }: GraphQLResolveInfo) => (isReference ? undefined : path);
};

/** Wraps the resolver of a PRIVATE field: what is below it is PRIVATE, wherever it comes from. */
export function privateResolver(coordinate: string, resolve: Resolver, values: PrivateValues): Resolver {
  const pathOf = pathIn(coordinate);
  return (source, args, context, info) =>
    values.noteField(resolve(source, args, context, info), coordinate, context, pathOf(info));
}

/** The same of one that is not cached. Tells the load and the request that it is a part of. */
export function uncachedPrivateResolver(coordinate: string, resolve: Resolver, parts: CacheParts): Resolver {
  const { loads } = parts.tier;
  const inner = privateResolver(coordinate, resolve, loads.privateValues);
  return (source, args, context, info) => {
    if (loads.running > 0) loads.readPrivate(coordinate, identityOf(parts.identify, context) ?? "");
    parts.requestStates.observerOf(context)?.onKnown?.(true);
    return inner(source, args, context, info);
  };
}

/** Wraps the resolver of a field that says PUBLIC itself: so is what is below it. */
export const publicResolver =
  (resolve: Resolver, values: PrivateValues): Resolver =>
  (source, args, context, info) => {
    values.notePublic(info.path);
    return resolve(source, args, context, info);
  };

/**
 * Wraps the resolver of a field that is not cached. What it returns is PRIVATE if its parent is, if
 * it has read a PRIVATE loader (before it awaited anything else, since nothing tells afterwards
 * whose read it is), or if it sets the cache hint PRIVATE.
 */
export function derivingResolver(coordinate: string, resolve: Resolver, values: PrivateValues): Resolver {
  const pathOf = pathIn(coordinate);
  return (source, args, context, info) => {
    const { loaderReads } = values;
    const value: unknown = resolve(source, args, context, info);
    if (!values.isAsked) return value;
    const path = pathOf(info);
    const from =
      values.coordinateOf(source) ??
      (values.loaderReads === loaderReads ? undefined : values.lastLoader) ??
      (values.isAskedOfIds ? values.coordinateAbove(path) : undefined);
    if (from !== undefined) return values.noteField(value, from, context, path);
    const isPrivate = privateHintIn(info);
    const note = (settled: unknown) => isPrivate?.() && values.noteField(settled, coordinate, context, path);
    return isPrivate === undefined ? value : whenSettled(value, note);
  };
}
