import type { FieldNode, GraphQLResolveInfo, OperationDefinitionNode, SelectionSetNode } from "graphql";
import { infoWith } from "../../base/graphql-version.js";

export const rewrittenNode = <Node extends FieldNode | OperationDefinitionNode>(
  original: Node,
  selectionSet: SelectionSetNode,
): Node => ({ ...original, selectionSet, [ORIGINAL]: original });

/** Leads from a node of a rewritten document to the one that the client has written. */
export const ORIGINAL: unique symbol = Symbol("graphql-cached.original");

type Written<Node> = Node & { readonly [ORIGINAL]?: Node };

/** Returns `info` with the nodes that the client has written: resolvers that look ahead must not see others. */
export function writtenInfo(info: GraphQLResolveInfo): GraphQLResolveInfo {
  const operation = info.operation as Written<OperationDefinitionNode> | undefined;
  const written = operation?.[ORIGINAL];
  if (written === undefined) return info;
  return infoWith(info, {
    fieldNodes: info.fieldNodes.map((node: Written<FieldNode>) => node[ORIGINAL] ?? node),
    operation: written,
  });
}
