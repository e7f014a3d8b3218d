import {
  type GraphQLNamedType,
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

export function reachableTypesOf(schema: GraphQLSchema): ReachableTypes {
  const reachedFrom = (...roots: readonly (GraphQLNamedType | undefined | null)[]): ReadonlySet<string> => {
    const reached = new Set(roots.filter((root) => root !== undefined && root !== null));
    // Types that are added during the iteration are visited as well.
    for (const type of reached) {
      if (isAbstractType(type)) for (const possible of schema.getPossibleTypes(type)) reached.add(possible);
      if (isObjectType(type) || isInterfaceType(type))
        for (const field of Object.values(type.getFields())) reached.add(getNamedType(field.type));
    }
    return new Set([...reached].map(({ name }) => name));
  };
  return {
    mutations: reachedFrom(schema.getMutationType()),
    others: reachedFrom(schema.getQueryType(), schema.getSubscriptionType()),
  };
}
