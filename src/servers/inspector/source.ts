import type { Permissions } from "./permissions.js";

/** Why a request gets no data: a code for programs and a sentence for the page. */
export class Refusal extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "Refusal";
    this.code = code;
  }
}

/** A mistake in the answer to a query. */
export interface AnswerError {
  readonly message: string;
  readonly code: string | undefined;
  /** Where in the answer the value is missing. Undefined if the query was refused before it was executed. */
  readonly path: readonly unknown[] | undefined;
}

/** The answer to a query. */
export interface Answer {
  readonly data: Readonly<Record<string, unknown>> | undefined;
  readonly errors: readonly AnswerError[];
}

/** Answers queries of the inspection: the cache of this process, or a GraphQL endpoint. */
export interface Source {
  /** Rejects with a `Refusal` if there is no answer. `request`: what the caller has sent. */
  ask(
    query: string,
    variables: Readonly<Record<string, unknown>>,
    caller: { readonly permissions: Permissions; readonly request: unknown },
  ): Promise<Answer>;
}

/** Returns an error of a GraphQL answer, which can be anything if it comes from another server. */
export function readError(error: unknown): AnswerError {
  const { message, path, extensions } = (error ?? {}) as {
    readonly message?: unknown;
    readonly path?: unknown;
    readonly extensions?: { readonly code?: unknown } | null;
  };
  const code = extensions?.code;
  return {
    message: typeof message === "string" ? message : "an error without a message",
    code: typeof code === "string" ? code : undefined,
    path: Array.isArray(path) ? path : undefined,
  };
}
