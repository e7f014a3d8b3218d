import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isObjectType,
} from "graphql";
import type { Policy } from "../../policy/policy.js";
import type { AnyField } from "../compile/field-rule.js";

/**
 * Returns the types of which a query can have objects only below a PRIVATE field. `scopeOf`: the scope of a field; undefined for one that
 * has none, or that of its parent, so that what it returns is as private as that. (P8)
 */
export function privateTypesOf(
  schema: GraphQLSchema,
  scopeOf: (type: GraphQLObjectType, field: AnyField) => Policy["scope"] | undefined,
): ReadonlySet<GraphQLObjectType> {
  const objectsOf = (type: GraphQLNamedType): readonly GraphQLObjectType[] =>
    isAbstractType(type) ? schema.getPossibleTypes(type) : isObjectType(type) ? [type] : [];
  const types = Object.values(schema.getTypeMap()).filter(isObjectType);
  const fields = types.flatMap((type) =>
    Object.values(type.getFields()).map((field) => ({ type, scope: scopeOf(type, field), field })),
  );
  /** Returns `types` and the types of what the fields of those return, except for fields of the scope `except`. */
  const reached = (types: Iterable<GraphQLObjectType>, except?: Policy["scope"]): Set<GraphQLObjectType> => {
    const all = new Set(types);
    // A set that grows while it is iterated: each type is looked at once.
    for (const type of all)
      for (const field of Object.values(type.getFields()))
        if (except === undefined || scopes.get(field) !== except)
          for (const object of objectsOf(getNamedType(field.type))) all.add(object);
    return all;
  };
  const returnedBy = (scope: Policy["scope"]): GraphQLObjectType[] =>
    fields.filter((one) => one.scope === scope).flatMap(({ field }) => objectsOf(getNamedType(field.type)));
  const scopes = new Map(fields.map(({ field, scope }) => [field, scope]));
  const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].filter(isObjectType);
  const below = reached(returnedBy("PRIVATE"));
  // Types that no field of a root leads to count as well, since a schema can be used in parts.
  const others = types.filter((type) => !below.has(type));
  const isPublic = reached([...roots, ...others, ...returnedBy("PUBLIC")], "PRIVATE");
  return new Set([...below].filter((type) => !isPublic.has(type)));
}
