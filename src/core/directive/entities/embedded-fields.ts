import { type GraphQLNamedType, type GraphQLObjectType, type GraphQLSchema, getNamedType, isObjectType } from "graphql";
import type { AnyField } from "../compile/field-rule.js";
import { hasOwnResolver } from "../compile/own-resolver.js";
import { objectsOf, reached, reversed } from "../compile/type-graph.js";

/**
 * Returns a function that lists the fields for which `isWanted` returns true and that are below the
 * values of a type: in the type itself, or in what those of its fields return whose value is a part
 * of it. The search runs backwards, from the wanted fields to the types that embed them, since such
 * fields are few.
 */
export function createEmbeddedFinder(
  schema: GraphQLSchema,
  isWanted: (type: GraphQLObjectType, field: AnyField) => boolean,
): (returned: GraphQLNamedType) => readonly string[] {
  const types = Object.values(schema.getTypeMap())
    .filter(isObjectType)
    .filter(({ name }) => !name.startsWith("__"));
  const fieldsOf = (type: GraphQLObjectType): AnyField[] => Object.values(type.getFields());
  const embedders = reversed(types, (type) =>
    fieldsOf(type).flatMap((field) => (isPartOfParent(field) ? objectsOf(schema, getNamedType(field.type)) : [])),
  );
  const embedded = types.flatMap((type) => {
    const wanted = fieldsOf(type).filter((field) => isWanted(type, field));
    return wanted.map(({ name }) => ({ coordinate: `${type.name}.${name}`, within: reached([type], embedders) }));
  });
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

/** Whether the value is a part of its parent: permission libraries wrap property reads, too. */
export function isPartOfParent(field: AnyField): boolean {
  const { pothosExposedField, nexus } = field.extensions as LibraryExtensions;
  return !hasOwnResolver(field) || pothosExposedField !== undefined || nexus?.hasDefinedResolver === false;
}
