/** How the types of a schema lead to each other. */
import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isInterfaceType,
  isObjectType,
} from "graphql";

/** Returns what can be reached from `start`, that included. */
export function reached<Node>(start: Iterable<Node>, next: (node: Node) => Iterable<Node>): ReadonlySet<Node> {
  const found = new Set(start);
  // A set is also iterated over what is added meanwhile.
  for (const node of found) for (const neighbor of next(node)) found.add(neighbor);
  return found;
}

/** Returns the object types that a value of a type can have. */
export const objectsOf = (schema: GraphQLSchema, type: GraphQLNamedType): readonly GraphQLObjectType[] =>
  isAbstractType(type) ? schema.getPossibleTypes(type) : isObjectType(type) ? [type] : [];

/** The types that operations of each kind can reach, by name. */
export interface ReachableTypes {
  readonly mutations: ReadonlySet<string>;
  /** Queries and subscriptions. */
  readonly others: ReadonlySet<string>;
}

export function reachableTypesOf(schema: GraphQLSchema): ReachableTypes {
  const nextOf = (type: GraphQLNamedType): readonly GraphQLNamedType[] => [
    ...(isAbstractType(type) ? schema.getPossibleTypes(type) : []),
    ...(isObjectType(type) || isInterfaceType(type)
      ? Object.values(type.getFields()).map((field) => getNamedType(field.type))
      : []),
  ];
  const namesFrom = (...roots: readonly (GraphQLNamedType | undefined | null)[]): ReadonlySet<string> =>
    new Set(
      [
        ...reached(
          roots.filter((root) => root != null),
          nextOf,
        ),
      ].map(({ name }) => name),
    );
  return {
    mutations: namesFrom(schema.getMutationType()),
    others: namesFrom(schema.getQueryType(), schema.getSubscriptionType()),
  };
}
