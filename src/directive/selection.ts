import {
  type ArgumentNode,
  type DirectiveNode,
  type GraphQLResolveInfo,
  type SelectionSetNode,
  valueFromASTUntyped,
} from "graphql";

/**
 * What is selected below a field, for resolvers that look ahead through `info`: names, arguments with variables filled in, directives and type
 * conditions; fragments are written out, so that two ways of writing one selection are one.
 */
export function selectionOf(info: GraphQLResolveInfo): unknown {
  return info.fieldNodes.map((node) => (node.selectionSet === undefined ? null : written(node.selectionSet, info)));
}

function written(set: SelectionSetNode, info: GraphQLResolveInfo): unknown[] {
  return set.selections.flatMap((selection): unknown[] => {
    const directives = writtenDirectives(selection.directives, info);
    if (selection.kind === "Field") {
      const inner = selection.selectionSet === undefined ? null : written(selection.selectionSet, info);
      return [
        [
          selection.name.value,
          selection.alias?.value ?? null,
          writtenArguments(selection.arguments, info),
          directives,
          inner,
        ],
      ];
    }
    const fragment = selection.kind === "FragmentSpread" ? info.fragments[selection.name.value] : selection;
    if (fragment === undefined) return [];
    return [["...", fragment.typeCondition?.name.value ?? null, directives, written(fragment.selectionSet, info)]];
  });
}

const writtenDirectives = (directives: readonly DirectiveNode[] | undefined, info: GraphQLResolveInfo): unknown[] =>
  (directives ?? []).map((directive) => [directive.name.value, writtenArguments(directive.arguments, info)]);

const writtenArguments = (args: readonly ArgumentNode[] | undefined, info: GraphQLResolveInfo): unknown =>
  Object.fromEntries((args ?? []).map((arg) => [arg.name.value, valueFromASTUntyped(arg.value, info.variableValues)]));
