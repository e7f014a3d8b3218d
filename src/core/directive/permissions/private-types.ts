import { type GraphQLObjectType, type GraphQLSchema, getNamedType, isObjectType } from "graphql";
import type { Policy } from "../../policy/policy.js";
import type { AnyField } from "../compile/field-rule.js";
import { objectsOf, reached } from "../compile/type-graph.js";

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
