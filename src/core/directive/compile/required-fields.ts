import {
  type GraphQLNamedType,
  type GraphQLSchema,
  getNullableType,
  isListType,
  isObjectType,
  Kind,
  parse,
  type SelectionSetNode,
} from "graphql";
import { directivesAt, federationNames } from "./directive-names.js";
import type { AnyField } from "./field-rule.js";
import type { KeyedType } from "./reference.js";

/**
 * Returns the paths to the values that a field of a federation entity is computed from by its `@requires`, such as
 * `price` and `size.height`. They come from other subgraphs, with the representation of the entity. A path ends at a list,
 * and where the selection depends on a type.
 */
export function requiredPathsOf(schema: GraphQLSchema, parent: KeyedType, field: AnyField): string[] {
  const directives = federationNames(schema, "requires").flatMap((name) => directivesAt(schema, field, name));
  return directives.flatMap(({ fields }) => {
    const selectionSet = typeof fields === "string" ? parseSelection(fields) : undefined;
    return selectionSet === undefined ? [] : pathsIn(selectionSet, parent);
  });
}

function pathsIn({ selections }: SelectionSetNode, type: GraphQLNamedType): string[] {
  return selections.flatMap((selection) => {
    if (selection.kind === Kind.FRAGMENT_SPREAD) return [];
    if (selection.kind === Kind.INLINE_FRAGMENT) return pathsIn(selection.selectionSet, type);
    const name = selection.name.value;
    if (name === "__typename") return [];
    const field = "getFields" in type ? (type.getFields() as Record<string, AnyField>)[name] : undefined;
    const inner =
      field === undefined || isListType(getNullableType(field.type)) ? undefined : getNullableType(field.type);
    const { selectionSet } = selection;
    if (selectionSet === undefined || !isObjectType(inner)) return [name];
    return pathsIn(selectionSet, inner).map((path) => `${name}.${path}`);
  });
}

function parseSelection(text: string): SelectionSetNode | undefined {
  try {
    const [definition] = parse(`{${text}}`, { noLocation: true }).definitions;
    return definition?.kind === Kind.OPERATION_DEFINITION ? definition.selectionSet : undefined;
  } catch {
    return undefined;
  }
}
