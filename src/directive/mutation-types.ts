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
  const reached = new Set<string>();
  const next: GraphQLNamedType[] = roots.filter((root) => root !== undefined && root !== null);
  for (let type = next.pop(); type !== undefined; type = next.pop()) {
    if (reached.has(type.name)) continue;
    reached.add(type.name);
    if (isAbstractType(type)) next.push(...schema.getPossibleTypes(type));
    if (isObjectType(type) || isInterfaceType(type))
      for (const field of Object.values(type.getFields())) next.push(getNamedType(field.type));
  }
  return reached;
}
