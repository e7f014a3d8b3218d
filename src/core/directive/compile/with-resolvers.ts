import {
  type GraphQLFieldConfig,
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
import { copyReferenceResolver, type KeyedType, type ReferenceResolver } from "./reference.js";

/**
 * Returns a copy of `schema` in which the fields of object types have the resolver that
 * `resolverOf` returns, or their own if it returns undefined, and types with a `__resolveReference`
 * the one that `wrapReference` returns. Object types, interfaces and unions are rebuilt, since they
 * refer to one another. Scalars, enums, input objects and directives are shared with the original
 * schema.
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
  const fieldsOf = (type: GraphQLObjectType | GraphQLInterfaceType, config: FieldConfigs): FieldConfigs => {
    const fields = type.getFields();
    // The configuration is a copy that is used once, so its fields are changed in place.
    for (const [name, field] of Object.entries(config)) {
      const original = fields[name];
      const resolve =
        original !== undefined && type instanceof GraphQLObjectType ? resolverOf(original, type) : undefined;
      field.type = rebuiltReference(field.type) as typeof field.type;
      if (resolve !== undefined) field.resolve = resolve;
    }
    return config;
  };

  const config = schema.toConfig();
  for (const type of config.types) {
    if (isIntrospectionType(type)) continue;
    if (type instanceof GraphQLObjectType || type instanceof GraphQLInterfaceType) {
      const own = type.toConfig();
      const fields = fieldsOf.bind(undefined, type, own.fields);
      const interfaces = (): GraphQLInterfaceType[] => own.interfaces.map(rebuiltType);
      const copy =
        type instanceof GraphQLObjectType
          ? new GraphQLObjectType({ ...(own as ReturnType<GraphQLObjectType["toConfig"]>), fields, interfaces })
          : new GraphQLInterfaceType({ ...(own as ReturnType<GraphQLInterfaceType["toConfig"]>), fields, interfaces });
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

type Resolver = NonNullable<AnyField["resolve"]>;

type FieldConfigs = Record<string, GraphQLFieldConfig<unknown, unknown>>;
