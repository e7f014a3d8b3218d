import { printable } from "./terminal.js";

/** Answers the queries of a command: a GraphQL endpoint, or a cache of this process on the store of others. */
export interface Source {
  /** What messages call it. */
  readonly name: string;
  /** Whether it knows the schema, so that the key of one entry can be made. */
  readonly hasSchema: boolean;
  ask(query: string, variables: Readonly<Record<string, unknown>>): Promise<Answer>;
  /** Invalidates all entries of a field or loader, if that needs another way than a mutation. */
  readonly invalidateCoordinate?: (coordinate: string, isSoft: boolean) => Promise<void>;
  close(): Promise<void>;
}

/** A mistake in the answer to a query. */
export interface AnswerError {
  readonly message: string;
  readonly code: string | undefined;
  /** Where in the answer the value is missing; empty if the query was refused. */
  readonly path: readonly unknown[];
}

/** The answer to a query. */
export interface Answer {
  readonly data: Readonly<Record<string, unknown>> | undefined;
  readonly errors: readonly AnswerError[];
}

/** Returns the errors of an answer in the form of a source. */
export const readErrors = (errors: unknown): readonly AnswerError[] =>
  (Array.isArray(errors) ? errors : []).map((error: unknown) => {
    const { message, path, extensions } = (error ?? {}) as Readonly<Record<"message" | "path", unknown>> & {
      readonly extensions?: { readonly code?: unknown } | null;
    };
    const code = extensions?.code;
    return {
      message: typeof message === "string" ? printable(message) : "an error without a message",
      code: typeof code === "string" ? code : undefined,
      path: Array.isArray(path) ? path : [],
    };
  });
