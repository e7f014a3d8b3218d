import type { DocumentNode, GraphQLSchema } from "graphql";
import type { ServedReport } from "../tier/request/request.js";
import type { CollectedParts } from "./collected-parts.js";
import type { OperationPlan } from "./operation-plan.js";
import type { ResponsesOptions } from "./options.js";
import { resultOf, type StoredResponse, type StoredResult } from "./stored-response.js";

/** An operation that a server is about to execute. Its document is valid. */
export interface Operation {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operationName: string | null | undefined;
  /** As the client has sent them. */
  readonly variables: Readonly<Record<string, unknown>> | null | undefined;
  readonly context: object;
  /** Executes it again, once its caller has an answer. Undefined: the server cannot do that. */
  readonly execute?: () => unknown;
  /** In the place of the option. */
  readonly tags?: ResponsesOptions["tags"];
}

export interface ExecutedResponse {
  readonly data?: unknown;
  readonly errors?: readonly unknown[] | undefined;
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/** How long and for whom the server lets a response be kept. Undefined: not at all. */
export interface ResponseAge {
  /** Seconds. */
  readonly maxAge: number;
  readonly isPrivate: boolean;
}

/** An execution by the server, of whose response the cache learns. */
export interface ResponseExecution {
  readonly isPrivate: boolean;
  /** Collects what the response is made of. Undefined: nothing does. */
  readonly parts?: CollectedParts | undefined;
  /** The paths into the context in its key. */
  readonly contextPaths?: readonly string[];
  run<T>(execute: () => T): T;
  /** All resolvers have returned: what is read of the context later is no part of the response. */
  executed?(): void;
  /**
   * Ends the execution. `age`: what the rules of the server say. `isRefused`: whether the response
   * must not be stored whatever they say. Resolves to the response to send in its place, if it has
   * errors and an older one may be served.
   */
  end(sent: ExecutedResponse, age: ResponseAge | undefined, isRefused?: boolean): Promise<StoredResponse | undefined>;
  abandon(): void;
}

export type Begun =
  | {
      readonly kind: "served";
      readonly response: StoredResponse;
      readonly report: Pick<ServedReport, "subjects" | "freshForMs" | "staleForMs" | "ageMs">;
      readonly isPrivate: boolean;
      readonly plan: OperationPlan;
      readonly contextPaths: readonly string[];
    }
  | { readonly kind: "execute"; readonly execution: ResponseExecution };

/** Has an operation executed whose response is not stored. `learn`: is told whether it could be. */
export function executeUnstored(isPrivate: boolean, learn?: (isCacheable: boolean) => void): Begun {
  const execution: ResponseExecution = {
    isPrivate,
    run: (execute) => execute(),
    async end({ errors, data }, age, isRefused) {
      if (errors === undefined && data != null) learn?.(age !== undefined && isRefused !== true);
      return undefined;
    },
    abandon: () => undefined,
  };
  return { kind: "execute", execution };
}

export async function endWith<Result extends object>(
  execution: ResponseExecution,
  run: () => Result | PromiseLike<Result>,
  ageOf: () => ResponseAge | undefined,
): Promise<Result | StoredResult> {
  let result: Result | undefined;
  try {
    result = await execution.run(run);
  } finally {
    if (!isSingle(result)) execution.abandon();
  }
  if (!isSingle(result)) return result;
  const older = await execution.end(result, ageOf());
  return older === undefined ? result : resultOf(older, older.data);
}

/** Parts (@defer, @stream) come as an async iterator, in graphql 17 in an object with the first. */
export const isSingle = (result: unknown): result is ExecutedResponse =>
  typeof result === "object" && result !== null && !(Symbol.asyncIterator in result) && !("initialResult" in result);
