import { type DocumentNode, type FragmentDefinitionNode, Kind, type OperationDefinitionNode } from "graphql";

/** Returns the operation of a name; an empty name stands for the only one. Undefined if the document has no such operation. */
export function operationIn(document: DocumentNode, name: string): DocumentOperation | undefined {
  const fragments = new Map<string, FragmentDefinitionNode>();
  const operations: OperationDefinitionNode[] = [];
  for (const definition of document.definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition);
    if (definition.kind === Kind.OPERATION_DEFINITION) operations.push(definition);
  }
  const operation = name === "" ? operations[0] : operations.find((one) => one.name?.value === name);
  return operation === undefined || (name === "" && operations.length > 1) ? undefined : { operation, fragments };
}

/** Directives with which a response has more than one part. */
export const INCREMENTAL: ReadonlySet<string> = new Set(["defer", "stream", "live"]);

export interface DocumentOperation {
  readonly operation: OperationDefinitionNode;
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>;
}
