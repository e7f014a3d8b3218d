import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isInterfaceType,
  isObjectType,
} from "graphql";

/** The object types that operations of each kind can reach, by name. */
export interface ReachableTypes {
  readonly mutations: ReadonlySet<string>;
  /** Queries and subscriptions. */
  readonly others: ReadonlySet<string>;
}

/** Returns which object types mutations reach, and which other operations reach. */
export function reachableTypesOf(schema: GraphQLSchema): ReachableTypes {
  return {
    mutations: reachableFrom(schema, [schema.getMutationType()]),
    others: reachableFrom(schema, [schema.getQueryType(), schema.getSubscriptionType()]),
  };
}

function reachableFrom(
  schema: GraphQLSchema,
  roots: readonly (GraphQLObjectType | undefined | null)[],
): ReadonlySet<string> {
  const reached = new Set<GraphQLNamedType>(roots.filter((root) => root !== undefined && root !== null));
  // Types that are added during the iteration are visited as well.
  for (const type of reached) {
    if (isAbstractType(type)) for (const possible of schema.getPossibleTypes(type)) reached.add(possible);
    if (isObjectType(type) || isInterfaceType(type))
      for (const field of Object.values(type.getFields())) reached.add(getNamedType(field.type));
  }
  return new Set([...reached].map(({ name }) => name));
}
