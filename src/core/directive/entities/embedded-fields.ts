import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isObjectType,
} from "graphql";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";

/**
 * Returns a function that lists the fields for which `isWanted` returns true and that are below the values of a type:
 * in the type itself, or in what those of its fields return whose value is a part of it. The search runs backwards,
 * from the wanted fields to the types that embed them, since such fields are few.
 */
export function createEmbeddedFinder(
  schema: GraphQLSchema,
  isWanted: (type: GraphQLObjectType, field: AnyField) => boolean,
): (returned: GraphQLNamedType) => readonly string[] {
  const objectsOf = (type: GraphQLNamedType): readonly GraphQLObjectType[] =>
    isAbstractType(type) ? schema.getPossibleTypes(type) : isObjectType(type) ? [type] : [];
  const embedders = new Map<GraphQLObjectType, Set<GraphQLObjectType>>();
  const wanted: { readonly coordinate: string; readonly type: GraphQLObjectType }[] = [];
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type) || type.name.startsWith("__")) continue;
    for (const field of Object.values(type.getFields())) {
      if (isWanted(type, field)) wanted.push({ coordinate: `${type.name}.${field.name}`, type });
      if (!isPartOfParent(field)) continue;
      for (const inner of objectsOf(getNamedType(field.type)))
        embedders.set(inner, (embedders.get(inner) ?? new Set()).add(type));
    }
  }
  const embedded = wanted.map(({ coordinate, type }) => ({ coordinate, within: reachable(type, embedders) }));
  return (returned) => {
    if (embedded.length === 0) return [];
    const objects = objectsOf(returned);
    return embedded
      .filter(({ within }) => objects.some((type) => within.has(type)))
      .map(({ coordinate }) => coordinate);
  };
}

/** What code-first libraries say of a field whose resolver they have made. */
interface LibraryExtensions {
  readonly pothosExposedField?: unknown;
  readonly nexus?: { readonly hasDefinedResolver?: unknown };
}

/**
 * Whether the value of a field is a part of its parent. Libraries wrap the reading of a property to check
 * permissions, so that it looks like a resolver of its own.
 */
export function isPartOfParent(field: AnyField): boolean {
  const { pothosExposedField, nexus } = field.extensions as LibraryExtensions;
  return !hasOwnResolver(field) || pothosExposedField !== undefined || nexus?.hasDefinedResolver === false;
}

function reachable<Node>(start: Node, next: ReadonlyMap<Node, ReadonlySet<Node>>): ReadonlySet<Node> {
  const seen = new Set([start]);
  for (const node of seen) for (const neighbor of next.get(node) ?? []) seen.add(neighbor);
  return seen;
}
