import type { DocumentNode, GraphQLSchema } from "graphql";
import type { OperationRewriter } from "../parts.js";

/** The arguments of an execution that a subtree depends on. */
interface Executed {
  readonly schema?: GraphQLSchema | undefined;
  readonly document?: DocumentNode | undefined;
  readonly operationName?: string | null | undefined;
  readonly contextValue?: unknown;
}

/**
 * Executes an operation with its subtrees: returns what `execute` returns for the rewritten document, without what the client
 * has not asked for.
 */
export function executeWithSubtrees<Args extends Executed, Result>(
  args: Args,
  subtrees: OperationRewriter,
  execute: (args: Args) => Result,
): Result {
  const { schema, document, operationName, contextValue: context } = args;
  const rewritten =
    schema === undefined || document === undefined
      ? undefined
      : subtrees.rewrite({ schema, document, operationName, context });
  if (rewritten === undefined) return execute(args);
  const finish = <One>(result: One): One => {
    subtrees.finish((result as { readonly data?: unknown } | null | undefined)?.data);
    return result;
  };
  const result = execute({ ...args, document: rewritten });
  return result instanceof Promise ? (result.then(finish) as Result) : finish(result);
}
