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

type Resolver = NonNullable<AnyField["resolve"]>;

/**
 * A schema like `schema`, where the fields of object types have the resolvers that `resolverOf` answers, or their own where it answers none.
 * Types that lead to objects are made anew, since they hold one another; scalars, enums, input objects and directives stay the same objects.
 */
export function withResolvers(
  schema: GraphQLSchema,
  resolverOf: (field: AnyField, type: GraphQLObjectType) => Resolver | undefined,
): GraphQLSchema {
  const made = new Map<GraphQLNamedType, GraphQLNamedType>();
  const named = <Type extends GraphQLNamedType | null | undefined>(type: Type): Type =>
    type === null || type === undefined ? type : ((made.get(type) ?? type) as Type);
  const typed = (type: GraphQLType): GraphQLType => {
    if (isNonNullType(type)) return new GraphQLNonNull(typed(type.ofType) as typeof type.ofType);
    return isListType(type) ? new GraphQLList(typed(type.ofType)) : named(type);
  };
  const fieldsOf = (type: GraphQLObjectType | GraphQLInterfaceType, config: FieldConfigs): FieldConfigs => {
    const fields = type.getFields();
    const remade: FieldConfigs = {};
    for (const [name, field] of Object.entries(config)) {
      const known = fields[name];
      const resolve = known !== undefined && type instanceof GraphQLObjectType ? resolverOf(known, type) : undefined;
      remade[name] = {
        ...field,
        type: typed(field.type) as typeof field.type,
        ...(resolve === undefined ? {} : { resolve }),
      };
    }
    return remade;
  };

  const config = schema.toConfig();
  for (const type of config.types) {
    if (isIntrospectionType(type)) continue;
    if (type instanceof GraphQLObjectType || type instanceof GraphQLInterfaceType) {
      const own = type.toConfig();
      const fields = fieldsOf.bind(undefined, type, own.fields);
      const interfaces = (): GraphQLInterfaceType[] => own.interfaces.map(named);
      made.set(
        type,
        type instanceof GraphQLObjectType
          ? new GraphQLObjectType({ ...(own as ReturnType<GraphQLObjectType["toConfig"]>), fields, interfaces })
          : new GraphQLInterfaceType({ ...(own as ReturnType<GraphQLInterfaceType["toConfig"]>), fields, interfaces }),
      );
    } else if (type instanceof GraphQLUnionType) {
      const own = type.toConfig();
      made.set(type, new GraphQLUnionType({ ...own, types: () => own.types.map(named) }));
    }
  }
  return new GraphQLSchema({
    ...config,
    query: named(config.query),
    mutation: named(config.mutation),
    subscription: named(config.subscription),
    types: config.types.map(named),
  });
}

type FieldConfigs = Record<string, GraphQLFieldConfig<unknown, unknown>>;
