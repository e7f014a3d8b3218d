/** A client of the inspection, for servers of this release and of older ones. */
import { type GraphQLSchema, graphql } from "graphql";

/** A mistake in the answer to a query. */
export interface AnswerError {
  readonly message: string;
  readonly code: string | undefined;
  /** Where in the answer the value is missing. Undefined if the query was refused before it was executed. */
  readonly path: readonly unknown[] | undefined;
}

export interface Answer {
  readonly data: Readonly<Record<string, unknown>> | undefined;
  readonly errors: readonly AnswerError[];
}

/** Sends an operation to a GraphQL server, or executes it. */
export type Ask = (query: string, variables: Readonly<Record<string, unknown>>) => Promise<Answer>;

/** A part of the inspection query that a server can lack. */
export interface Section {
  /** The field of `CacheInspection`, or its alias. */
  readonly name: string;
  /** What is asked, with its selection. */
  readonly text: string;
  /** What is asked of servers of an older release, which do not know all of it. */
  readonly older?: string;
}

/** What became of a section. Without a value and an error, the server has left it out. */
export interface Part<Asked extends Section> {
  readonly section: Asked;
  readonly value: unknown;
  readonly error: AnswerError | undefined;
  /** Whether the server knows the section, an older form of it only, or nothing of it. */
  readonly known: "all" | "older" | "none";
}

/** The type and the value of each variable. Undefined: it is not set. */
export type Variables = Readonly<Record<string, readonly [type: string, value: unknown]>>;

/**
 * Asks for all sections at once, and if the server refuses that, for each on its own. `refused` may throw for the errors of a
 * server that has not answered all at once. Returns the parts, and the errors that concern none of them.
 */
export async function askSections<Asked extends Section>(
  ask: Ask,
  sections: readonly Asked[],
  variables: Variables,
  refused: (errors: readonly AnswerError[]) => void,
): Promise<{ readonly parts: readonly Part<Asked>[]; readonly others: readonly AnswerError[] }> {
  const query = (texts: readonly string[]): Promise<Answer> => {
    const text = texts.join("\n");
    // Servers refuse variables that no part uses.
    const used = Object.entries(variables).filter(([name]) => new RegExp(`\\$${name}\\b`).test(text));
    const { header, values } = operationParts("query", Object.fromEntries(used));
    return ask(`${header} { cacheInspection { ${text} } }`, values);
  };
  const together = await query(sections.map(({ text }) => text));
  const found = inspectionIn(together);
  if (found !== undefined) {
    const errorOf = (name: string): AnswerError | undefined => together.errors.find(({ path }) => path?.[1] === name);
    const names: unknown[] = sections.map(({ name }) => name);
    return {
      parts: sections.map((section) => {
        const { [section.name]: value } = found;
        return { section, value, error: errorOf(section.name), known: "all" };
      }),
      others: together.errors.filter(({ path }) => !names.includes(path?.[1])),
    };
  }
  refused(together.errors);
  const askAlone = async (section: Asked): Promise<Part<Asked>> => {
    const full = await query([section.text]);
    const isUnknown = full.data === undefined && full.errors.some(({ path }) => path === undefined);
    const answer = isUnknown && section.older !== undefined ? await query([section.older]) : full;
    const value = inspectionIn(answer)?.[section.name];
    const known = !isUnknown ? "all" : inspectionIn(answer) === undefined ? "none" : "older";
    return { section, value, error: answer.errors[0], known };
  };
  return { parts: await Promise.all(sections.map(askAlone)), others: [] };
}

/** Returns the header of an operation with variables, the arguments that pass them to a field, and their values. */
export function operationParts(kind: "query" | "mutation", variables: Variables) {
  const entries = Object.entries(variables);
  const types = entries.map(([name, [type]]) => `$${name}: ${type}`).join(", ");
  return {
    header: `${kind} GraphqlCached${types === "" ? "" : `(${types})`}`,
    passed: entries.map(([name]) => `${name}: $${name}`).join(", "),
    values: Object.fromEntries(entries.flatMap(([name, [, value]]) => (value === undefined ? [] : [[name, value]]))),
  };
}

/** The resolvers whose `allow` refuses a caller, by the code of the error. */
export const DENIED_BY: Readonly<Record<string, string>> = {
  CACHED_INSPECTION_DENIED: "inspectionResolvers",
};

/** The codes with which other software denies access. */
export const ACCESS_CODES = ["UNAUTHENTICATED", "FORBIDDEN"];

/** What an HTTP server has sent. */
export interface Posted {
  readonly status: number;
  readonly type: string | undefined;
  readonly isJson: boolean;
  /** Undefined if it is no answer of a GraphQL server. */
  readonly answer: Answer | undefined;
}

/** Sends an operation to an endpoint, and follows no redirect: another server must not get the headers. Rejects as `fetch` does. */
export async function post(
  target: URL,
  headers: Headers,
  [query, variables]: Parameters<Ask>,
  timeoutMs: number,
): Promise<Posted> {
  headers.set("content-type", "application/json");
  if (!headers.has("accept")) headers.set("accept", "application/graphql-response+json, application/json");
  const body = JSON.stringify({ query, variables });
  const signal = AbortSignal.timeout(timeoutMs);
  const response = await fetch(target, { method: "POST", headers, body, redirect: "error", signal });
  const text = await response.text();
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {}
  const type = response.headers.get("content-type") ?? undefined;
  return { status: response.status, type, isJson: content !== undefined, answer: readAnswer(content) };
}

/** Returns why `fetch` has rejected. */
export function failureOf(error: unknown): {
  readonly isTimeout: boolean;
  readonly cause: unknown;
  readonly code: string;
} {
  const cause = (error as { readonly cause?: unknown }).cause ?? error;
  const { code } = cause as { readonly code?: unknown };
  return { isTimeout: (error as Error).name === "TimeoutError", cause, code: typeof code === "string" ? code : "" };
}

export async function askSchema(
  schema: GraphQLSchema,
  [source, variableValues]: Parameters<Ask>,
  contextValue: object,
): Promise<Answer> {
  return readAnswer(await graphql({ schema, source, variableValues, contextValue })) as Answer;
}

/** Returns an answer, which can be anything if it comes from another server. Undefined if it is none. */
function readAnswer(content: unknown): Answer | undefined {
  const { data, errors } = (content ?? {}) as { readonly data?: unknown; readonly errors?: unknown };
  const found = typeof data === "object" && data !== null ? (data as Answer["data"]) : undefined;
  if (!Array.isArray(errors)) return found && { data: found, errors: [] };
  return { data: found, errors: errors.map(readError) };
}

function readError(error: unknown): AnswerError {
  const { message, path, extensions } = (error ?? {}) as Readonly<Record<"message" | "path", unknown>> & {
    readonly extensions?: { readonly code?: unknown } | null;
  };
  const code = extensions?.code;
  return {
    message: typeof message === "string" ? message : "an error without a message",
    code: typeof code === "string" ? code : undefined,
    path: Array.isArray(path) ? path : undefined,
  };
}

function inspectionIn({ data }: Answer): Readonly<Record<string, unknown>> | undefined {
  const inspection = data?.cacheInspection;
  return typeof inspection === "object" && inspection !== null ? (inspection as Record<string, unknown>) : undefined;
}
