import {
  type ArgumentNode,
  type DirectiveNode,
  type GraphQLResolveInfo,
  type SelectionSetNode,
  valueFromASTUntyped,
} from "graphql";

/**
 * Returns what is selected below a field, for resolvers that look ahead through `info`: names,
 * arguments with variables applied, directives and type conditions, in the order of the query.
 * Named fragments are inlined, so their names do not matter.
 */
export function selectionOf(info: GraphQLResolveInfo): unknown {
  return info.fieldNodes.map((node) =>
    node.selectionSet === undefined ? null : selectionParts(node.selectionSet, info),
  );
}

function selectionParts(set: SelectionSetNode, info: GraphQLResolveInfo): unknown[] {
  return set.selections.flatMap((selection): unknown[] => {
    const directives = directiveParts(selection.directives, info);
    if (selection.kind === "Field") {
      const inner = selection.selectionSet === undefined ? null : selectionParts(selection.selectionSet, info);
      return [
        [
          selection.name.value,
          selection.alias?.value ?? null,
          argumentParts(selection.arguments, info),
          directives,
          inner,
        ],
      ];
    }
    const fragment = selection.kind === "FragmentSpread" ? info.fragments[selection.name.value] : selection;
    if (fragment === undefined) return [];
    return [
      ["...", fragment.typeCondition?.name.value ?? null, directives, selectionParts(fragment.selectionSet, info)],
    ];
  });
}

const directiveParts = (directives: readonly DirectiveNode[] | undefined, info: GraphQLResolveInfo): unknown[] =>
  (directives ?? []).map((directive) => [directive.name.value, argumentParts(directive.arguments, info)]);

/** The order of arguments does not matter, since the schema fixes them. */
const argumentParts = (args: readonly ArgumentNode[] | undefined, info: GraphQLResolveInfo): unknown =>
  (args ?? [])
    .toSorted((a, b) => (a.name.value < b.name.value ? -1 : 1))
    .map((arg) => [arg.name.value, valueFromASTUntyped(arg.value, info.variableValues)]);
