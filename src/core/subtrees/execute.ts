import { type DocumentNode, GraphQLError, type GraphQLSchema } from "graphql";
import type { OperationRewriter } from "../parts.js";
import { ERRORS_FIELD } from "./twins.js";

/** Executes an operation with its subtrees. Returns what `execute` does, without what the client has not asked for. */
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

interface Executed {
  readonly schema?: GraphQLSchema | undefined;
  readonly document?: DocumentNode | undefined;
  readonly operationName?: string | null | undefined;
  readonly contextValue?: unknown;
}

interface WithErrors {
  errors?: readonly { readonly path?: readonly unknown[] | undefined; readonly originalError?: unknown }[] | undefined;
}

/**
 * Restores the errors of subtrees in a result. Unlike graphql-js, executors that compile documents give errors that have a path
 * another one: that of the field which they have come from.
 */
export function restoreErrors(result: unknown): void {
  const given = (result as WithErrors | null | undefined)?.errors;
  if (given === undefined) return;
  (result as WithErrors).errors = given.map((error) => {
    const { path, originalError } = error;
    if (!(originalError instanceof GraphQLError) || originalError.path === undefined) return error;
    return path?.[0] === ERRORS_FIELD || path?.[0] === originalError.path[0] ? originalError : error;
  });
}
