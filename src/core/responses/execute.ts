import { type ExecutionArgs, type ExecutionResult, execute } from "graphql";
import { describeSetting, optionInvalid } from "../base/errors.js";
import { getOrMake } from "../base/multimap.js";
import { isEmptyRoot } from "../directive/look-ahead/look-ahead.js";
import type { CacheParts } from "../parts.js";
import { OperationPlanner } from "./operation-plan.js";
import { type ResponsesOptions, resolveResponses } from "./options.js";
import { ResponseCache } from "./response-cache.js";
import { endWith } from "./response-execution.js";
import { resultOf } from "./stored-response.js";

/**
 * `cache.execute`: executions with stored responses in front of them, for servers without a plugin.
 * There is one response cache for each content of options: calls often write the object anew.
 */
export class ResponseCaches {
  readonly #planner: OperationPlanner;
  readonly #known = new WeakMap<object, ResponseCache>();
  readonly #byContent = new Map<string, ResponseCache>();

  constructor(private readonly parts: CacheParts) {
    this.#planner = new OperationPlanner(parts);
  }

  /** Rejects with `CACHED_OPTION_INVALID`, and as `execute` of graphql does. */
  async execute(args: ExecutionArgs, options: ResponsesOptions): Promise<ExecutionResult> {
    checkExecutionArgs(args);
    const responses = this.#cacheOf(options);
    const { schema, document, operationName, variableValues: variables, contextValue: context } = args;
    if (responses === undefined || !isOrdinary(args) || typeof context !== "object" || context === null)
      return execute(args);
    const run = async (): Promise<ExecutionResult> => responses.inProcess(args, await execute(args));
    const { tags } = options;
    const operation = { schema, document, operationName, variables, context, execute: run, ...(tags && { tags }) };
    const { requestStates } = this.parts;
    // That of the server, if it is called in a resolver.
    const observer = requestStates.observer(context);
    const begun = await responses.begin(operation, observer);
    try {
      if (begun === undefined) return await run();
      if (begun.kind === "served") return resultOf(begun.response, begun.response.data);
      return await endWith(begun.execution, run, () => responses.ageOf(operation));
    } finally {
      if (observer === undefined) responses.ended(context);
    }
  }

  /** Undefined: there are too many already, which is logged once. */
  #cacheOf(options: ResponsesOptions): ResponseCache | undefined {
    const isObject = typeof options === "object" && options !== null && !Array.isArray(options);
    const known = isObject ? this.#known.get(options) : undefined;
    if (known !== undefined) return known;
    const resolved = isObject ? resolveResponses(options, "cache.execute: `options`", this.parts) : undefined;
    if (resolved === undefined)
      throw optionInvalid(
        `cache.execute: expected an object of options, got ${describeSetting(options)}; call execute of graphql to cache no responses`,
      );
    // Each call passes its own function of tags.
    const content = JSON.stringify({ ...resolved, tags: resolved.tags !== undefined });
    if (this.#byContent.size >= MAX_CACHES && !this.#byContent.has(content)) {
      this.parts.onceLog.warn(
        `graphql-cached: cache.execute: \`options\`: expected at most ${MAX_CACHES} kinds of options in a process, got another, with which no responses are kept; pass the same options in each call, and let hints in the schema say what changes, such as a maxAge`,
      );
      return undefined;
    }
    const make = (): ResponseCache => new ResponseCache(this.parts, this.#planner, resolved, true);
    const responses = getOrMake(this.#byContent, content, make);
    this.#known.set(options, responses);
    return responses;
  }
}

/** Each has memory of its own. */
const MAX_CACHES = 20;

/** Whether all fields are resolved by the schema alone. */
export const isOrdinary = (args: {
  readonly rootValue?: unknown;
  readonly fieldResolver?: unknown;
  readonly typeResolver?: unknown;
}): boolean => isEmptyRoot(args.rootValue) && args.fieldResolver == null && args.typeResolver == null;

function checkExecutionArgs(args: unknown): asserts args is ExecutionArgs {
  const reject = (expected: string, given: unknown): never => {
    throw optionInvalid(`cache.execute: ${expected}, got ${describeSetting(given)}`);
  };
  if (typeof args !== "object" || args === null)
    reject("expected the arguments of graphql's execute, such as { schema, document, contextValue }", args);
  const { schema, document } = args as Partial<ExecutionArgs>;
  for (const [name, value] of Object.entries({ schema, document }))
    if (typeof value !== "object" || value === null) reject(`\`${name}\`: expected the \`${name}\` to execute`, value);
}
