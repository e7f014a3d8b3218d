import { type ExecutionArgs, type ExecutionResult, execute } from "graphql";
import { CachedError, describeSetting } from "../errors.js";
import { type ExecutedResponse, type ResponseCache, type ResponseExecution, resultOf } from "./response-cache.js";

/** Does what `execute` of graphql does, with `responses` in front of it. */
export async function executeStored(args: ExecutionArgs, responses: ResponseCache): Promise<ExecutionResult> {
  const { schema, document, operationName, variableValues, contextValue } = args;
  const isObject = typeof contextValue === "object" && contextValue !== null;
  const isUsual = args.rootValue == null && args.fieldResolver == null;
  const begun =
    isObject && isUsual
      ? await responses.begin({ schema, document, operationName, variables: variableValues, context: contextValue })
      : undefined;
  if (begun?.kind === "served") return resultOf(begun.response);
  if (begun === undefined) return execute(args);
  return endWith(begun.execution, args, responses, () => execute(args));
}

/** Runs the execution of a response, and ends it. */
async function endWith(
  execution: ResponseExecution,
  { schema, document, operationName, variableValues, contextValue }: ExecutionArgs,
  responses: ResponseCache,
  run: () => ExecutionResult | Promise<ExecutionResult>,
): Promise<ExecutionResult> {
  let result: ExecutionResult;
  try {
    result = await run();
  } catch (error) {
    execution.abandon();
    throw error;
  }
  const context = contextValue as object;
  const age = responses.ageOf({ schema, document, operationName, variables: variableValues, context });
  const older = await execution.end(result as ExecutedResponse, age);
  return older === undefined ? result : resultOf(older);
}

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
