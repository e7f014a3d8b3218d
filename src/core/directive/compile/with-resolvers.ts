import {
  GraphQLInterfaceType,
  GraphQLList,
  type GraphQLNamedType,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLSchema,
  type GraphQLType,
  GraphQLUnionType,
  isIntrospectionType,
  isListType,
  isNonNullType,
} from "graphql";
import type { AnyField } from "./field-rule.js";
import type { Resolver } from "./own-resolver.js";
import { copyReferenceResolver, type KeyedType, type ReferenceResolver } from "./reference.js";

/**
 * Returns a copy of `schema` in which the fields of object types have the resolver that
 * `resolverOf` returns, or their own if it returns undefined, and types with a `__resolveReference`
 * the one that `wrapReference` returns. Object types, interfaces and unions are rebuilt, since they
 * refer to one another. Scalars, enums, input objects and directives are shared.
 */
export function withResolvers(
  schema: GraphQLSchema,
  resolverOf: (field: AnyField, type: GraphQLObjectType) => Resolver | undefined,
  wrapReference: (resolve: ReferenceResolver, type: KeyedType) => ReferenceResolver = (resolve) => resolve,
): GraphQLSchema {
  const rebuilt = new Map<GraphQLNamedType, GraphQLNamedType>();
  const rebuiltType = <Type extends GraphQLNamedType | null | undefined>(type: Type): Type =>
    type === null || type === undefined ? type : ((rebuilt.get(type) ?? type) as Type);
  const rebuiltReference = (type: GraphQLType): GraphQLType => {
    if (isNonNullType(type)) return new GraphQLNonNull(rebuiltReference(type.ofType) as typeof type.ofType);
    return isListType(type) ? new GraphQLList(rebuiltReference(type.ofType)) : rebuiltType(type);
  };
  /** A configuration is a copy that is used once, so its fields are changed in place. */
  const configOf = (type: GraphQLObjectType | GraphQLInterfaceType) => {
    const config = type.toConfig() as EitherConfig;
    const fields = (): typeof config.fields => {
      const originals = type.getFields();
      for (const [name, field] of Object.entries(config.fields)) {
        const original = originals[name] as AnyField;
        const resolve = type instanceof GraphQLObjectType ? resolverOf(original, type) : undefined;
        field.type = rebuiltReference(field.type) as typeof field.type;
        if (resolve !== undefined) field.resolve = resolve;
      }
      return config.fields;
    };
    return { ...config, fields, interfaces: () => config.interfaces.map(rebuiltType) };
  };
  const config = schema.toConfig();
  for (const type of config.types) {
    if (isIntrospectionType(type)) continue;
    if (type instanceof GraphQLObjectType || type instanceof GraphQLInterfaceType) {
      const copy =
        type instanceof GraphQLObjectType
          ? new GraphQLObjectType(configOf(type))
          : new GraphQLInterfaceType(configOf(type));
      copyReferenceResolver(copy, type, (resolve) => wrapReference(resolve, type));
      rebuilt.set(type, copy);
    } else if (type instanceof GraphQLUnionType) {
      const own = type.toConfig();
      rebuilt.set(type, new GraphQLUnionType({ ...own, types: () => own.types.map(rebuiltType) }));
    }
  }
  return new GraphQLSchema({
    ...config,
    query: rebuiltType(config.query),
    mutation: rebuiltType(config.mutation),
    subscription: rebuiltType(config.subscription),
    types: config.types.map(rebuiltType),
  });
}

type EitherConfig = ReturnType<GraphQLObjectType["toConfig"]> & ReturnType<GraphQLInterfaceType["toConfig"]>;
