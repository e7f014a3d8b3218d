import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isInterfaceType,
  isObjectType,
} from "graphql";
import { getOrMake } from "../../base/multimap.js";
import type { AnyField } from "./field-rule.js";

export function reached<Node>(start: Iterable<Node>, next: (node: Node) => Iterable<Node>): ReadonlySet<Node> {
  const found = new Set(start);
  // A set is also iterated over what is added meanwhile.
  for (const node of found) for (const neighbor of next(node)) found.add(neighbor);
  return found;
}

/** Returns the reverse of `next`: which of `nodes` lead to a node. */
export function reversed<Node>(
  nodes: Iterable<Node>,
  next: (node: Node) => Iterable<Node>,
): (node: Node) => readonly Node[] {
  const leading = new Map<Node, Node[]>();
  for (const node of nodes) for (const neighbor of next(node)) getOrMake(leading, neighbor, () => []).push(node);
  return (node) => leading.get(node) ?? [];
}

export const objectsOf = (schema: GraphQLSchema, type: GraphQLNamedType): readonly GraphQLObjectType[] =>
  isAbstractType(type) ? schema.getPossibleTypes(type) : isObjectType(type) ? [type] : [];

/** The types of the fields that are meant, or the members of an interface or union. */
export const nextTypes = (
  schema: GraphQLSchema,
  type: GraphQLNamedType,
  isMeant: (field: AnyField) => boolean = () => true,
): readonly GraphQLNamedType[] =>
  isObjectType(type)
    ? Object.values(type.getFields())
        .filter(isMeant)
        .map((field) => getNamedType(field.type))
    : isAbstractType(type)
      ? schema.getPossibleTypes(type)
      : [];

/** The names of the types that mutations can reach, and of those that other operations can. */
export function reachableTypesOf(schema: GraphQLSchema) {
  const nextOf = (type: GraphQLNamedType): readonly GraphQLNamedType[] => [
    ...nextTypes(schema, type),
    ...(isInterfaceType(type) ? Object.values(type.getFields()).map((field) => getNamedType(field.type)) : []),
  ];
  const namesFrom = (...roots: readonly (GraphQLNamedType | undefined | null)[]): ReadonlySet<string> => {
    const start = roots.filter((root) => root !== undefined && root !== null);
    return new Set([...reached(start, nextOf)].map(({ name }) => name));
  };
  return {
    mutations: namesFrom(schema.getMutationType()),
    others: namesFrom(schema.getQueryType(), schema.getSubscriptionType()),
  };
}
