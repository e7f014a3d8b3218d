import { type ExecutionArgs, type ExecutionResult, execute } from "graphql";
import { CachedError, describeSetting } from "../base/errors.js";
import { isEmptyRoot } from "../directive/look-ahead/query-reads.js";
import type { ExecutedResponse, Operation, ResponseCache, ResponseExecution } from "./response-cache.js";
import { resultOf } from "./stored-response.js";

/** Does what `execute` of graphql does, with `responses` in front of it. */
export async function executeStored(
  args: ExecutionArgs,
  responses: ResponseCache,
  executeSubtrees: (args: ExecutionArgs) => ExecutionResult | PromiseLike<ExecutionResult>,
): Promise<ExecutionResult> {
  const { schema, document, operationName, variableValues, contextValue } = args;
  const isObject = typeof contextValue === "object" && contextValue !== null;
  if (!isOrdinary(args)) return execute(args);
  if (!isObject) return executeSubtrees(args);
  const operation = { schema, document, operationName, variables: variableValues, context: contextValue };
  const begun = await responses.begin(operation);
  if (begun?.kind === "served") {
    responses.ended(contextValue);
    return resultOf(begun.response);
  }
  try {
    if (begun === undefined) return await executeSubtrees(args);
    return await endWith(begun.execution, responses, operation, () => executeSubtrees(args));
  } finally {
    responses.ended(contextValue);
  }
}

/** Whether all fields are resolved by the schema alone. */
export const isOrdinary = ({
  rootValue,
  fieldResolver,
  typeResolver,
}: {
  readonly rootValue?: unknown;
  readonly fieldResolver?: unknown;
  readonly typeResolver?: unknown;
}): boolean => isEmptyRoot(rootValue) && fieldResolver == null && typeResolver == null;

/** Runs the execution of a response, and ends it, however that ends. */
export async function endWith<Result extends object>(
  execution: ResponseExecution,
  responses: ResponseCache,
  operation: Operation,
  run: () => Result | PromiseLike<Result>,
): Promise<Result | ExecutionResult> {
  let result: Result;
  try {
    result = await run();
  } catch (error) {
    execution.abandon();
    throw error;
  }
  if (!isSingle(result)) {
    execution.abandon();
    return result;
  }
  const older = await execution.end(result, responses.ageOf(operation));
  return older === undefined ? result : resultOf(older);
}

/**
 * A response in several parts (@defer, @stream) is an async iterator, or an object with its first part in
 * the form of graphql 17.
 */
export const isSingle = (result: unknown): result is ExecutedResponse =>
  typeof result === "object" && result !== null && !(Symbol.asyncIterator in result) && !("initialResult" in result);

/** Throws `CACHED_OPTION_INVALID` for arguments without a schema or a document. */
export function checkExecutionArgs(args: unknown, caller: string): asserts args is ExecutionArgs {
  if (typeof args !== "object" || args === null)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `${caller}: expected the arguments of graphql's execute, such as { schema, document, contextValue }, got ${describeSetting(args)}`,
    );
  const { schema, document } = args as Partial<ExecutionArgs>;
  for (const [name, value] of Object.entries({ schema, document }))
    if (typeof value !== "object" || value === null)
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        `${caller}: \`${name}\`: expected the \`${name}\` to execute, got ${describeSetting(value)}`,
      );
}
