import { type GraphQLNamedType, type GraphQLObjectType, type GraphQLSchema, getNamedType, isObjectType } from "graphql";
import { getOrMake } from "../../base/multimap.js";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { objectsOf, reached } from "../compile/type-graph.js";

/**
 * Returns a function that lists the fields for which `isWanted` returns true and that are below the values of a type:
 * in the type itself, or in what those of its fields return whose value is a part of it. The search runs backwards,
 * from the wanted fields to the types that embed them, since such fields are few.
 */
export function createEmbeddedFinder(
  schema: GraphQLSchema,
  isWanted: (type: GraphQLObjectType, field: AnyField) => boolean,
): (returned: GraphQLNamedType) => readonly string[] {
  const embedders = new Map<GraphQLObjectType, Set<GraphQLObjectType>>();
  const wanted: { readonly coordinate: string; readonly type: GraphQLObjectType }[] = [];
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type) || type.name.startsWith("__")) continue;
    for (const field of Object.values(type.getFields())) {
      if (isWanted(type, field)) wanted.push({ coordinate: `${type.name}.${field.name}`, type });
      if (!isPartOfParent(field)) continue;
      for (const inner of objectsOf(schema, getNamedType(field.type)))
        getOrMake(embedders, inner, () => new Set()).add(type);
    }
  }
  const embedded = wanted.map(({ coordinate, type }) => ({
    coordinate,
    within: reached([type], (one) => embedders.get(one) ?? []),
  }));
  return (returned) => {
    if (embedded.length === 0) return [];
    const objects = objectsOf(schema, returned);
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

/** Whether the value of a field is a part of its parent. Libraries that check permissions make reading a property look like a resolver. */
export function isPartOfParent(field: AnyField): boolean {
  const { pothosExposedField, nexus } = field.extensions as LibraryExtensions;
  return !hasOwnResolver(field) || pothosExposedField !== undefined || nexus?.hasDefinedResolver === false;
}
