import { type GraphQLNamedType, type GraphQLObjectType, type GraphQLSchema, getNamedType, isObjectType } from "graphql";
import type { Policy } from "../../policy/policy.js";
import type { FieldRule } from "../../schema-rules.js";
import type { PrivateValues } from "../../tier/source/private-values.js";
import type { AnyField } from "../compile/field-rule.js";
import type { Resolver } from "../compile/own-resolver.js";
import { nextTypes, objectsOf, reached, reversed } from "../compile/type-graph.js";
import { privateHintIn } from "../hints/response-hint.js";

/** Returns types that lead to parents of cached fields which do not say that they are PUBLIC. */
export function typesWithOrigin(
  schema: GraphQLSchema,
  rules: ReadonlyMap<string, FieldRule>,
): ReadonlySet<GraphQLNamedType> {
  const types = Object.values(schema.getTypeMap());
  const isPublicByDefault = (coordinate: string): boolean => {
    const policy = rules.get(coordinate)?.policy;
    return policy?.scope === "PUBLIC" && policy.isDeclaredPublic !== true;
  };
  const parents = types.filter(
    (type) =>
      isObjectType(type) && Object.keys(type.getFields()).some((name) => isPublicByDefault(`${type.name}.${name}`)),
  );
  return reached(
    parents,
    reversed(types, (type) => nextTypes(schema, type)),
  );
}

/**
 * Returns the types of which a query can have objects only below a PRIVATE field. `scopeOf`: the
 * scope of a field; undefined for one that has none, or that of its parent, so that what it returns
 * is as private as that. (P8)
 */
export function privateTypesOf(
  schema: GraphQLSchema,
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
  const below = reached(ofAll("PRIVATE"), (type) => returnedBy(type, ["PRIVATE", "PUBLIC", undefined]));
  const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].filter(isObjectType);
  // Types that no field of a root leads to count as well, since a schema can be used in parts.
  const others = types.filter((type) => !below.has(type));
  const isPublic = reached([...roots, ...others, ...ofAll("PUBLIC")], (type) =>
    returnedBy(type, ["PUBLIC", undefined]),
  );
  return new Set([...below].filter((type) => !isPublic.has(type)));
}

/** Wraps the resolver of a PRIVATE field: what it returns is PRIVATE, wherever it comes from. */
export const privateResolver =
  (coordinate: string, resolve: Resolver, values: PrivateValues): Resolver =>
  (source, args, context, info) => {
    const value: unknown = resolve(source, args, context, info);
    return values.isAsked ? values.noteSettled(value, coordinate, context) : value;
  };

/**
 * Wraps the resolver of a field that is not cached. What it returns is PRIVATE if its parent is, if
 * it has read a PRIVATE loader (before it awaited anything else, since nothing tells afterwards
 * whose read it is), or if it sets the cache hint PRIVATE.
 */
export const derivingResolver =
  (coordinate: string, resolve: Resolver, values: PrivateValues): Resolver =>
  (source, args, context, info) => {
    const { loaderReads } = values;
    const value: unknown = resolve(source, args, context, info);
    const from = values.coordinateOf(source) ?? (values.loaderReads === loaderReads ? undefined : values.lastLoader);
    if (from !== undefined) return values.noteSettled(value, from, context);
    const isPrivate = privateHintIn(info);
    return isPrivate === undefined ? value : values.noteSettled(value, coordinate, context, isPrivate);
  };
