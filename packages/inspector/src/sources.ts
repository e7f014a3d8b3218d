/** What answers the queries of the page: the cache of this process, or a GraphQL endpoint. */
import { buildSchema, type GraphQLObjectType, graphql } from "graphql";
import { type Cache, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { describeSetting, inOneLine, messageOf } from "graphql-cached/store";
import { Refusal } from "./http.js";

/**
 * Answers a query for a request. It rejects with a `Refusal` if there is no answer of a GraphQL
 * server.
 */
export type Source = (request: unknown, query: string, variables: Variables) => Promise<Answer>;

export type Variables = Readonly<Record<string, unknown>>;

interface Answer {
  readonly data?: Readonly<Record<string, unknown>> | null | undefined;
  readonly errors?: readonly (AnswerError | null)[] | undefined;
}

interface AnswerError {
  readonly message?: unknown;
  readonly path?: unknown;
  readonly extensions?: Readonly<Record<string, unknown>> | null | undefined;
}

/** Returns a source that runs the resolvers of the inspection on a cache of this process. */
export function cacheSource(cache: Cache<never>): Source {
  // The enum is one of `@cached`.
  const schema = buildSchema(["type Query", inspectionTypeDefs, "enum CachedScope { PUBLIC PRIVATE }"].join("\n"));
  // The handler has asked `allow` before.
  const resolvers = inspectionResolvers(cache, { allow: () => true });
  for (const typeName of ["Query", "CacheInspection"] as const) {
    const fields = (schema.getType(typeName) as GraphQLObjectType).getFields();
    for (const [name, resolve] of Object.entries(resolvers[typeName])) Object.assign(fields[name] ?? {}, { resolve });
  }
  for (const name of ["CacheArguments", "CacheId"] as const) Object.assign(schema.getType(name) ?? {}, resolvers[name]);
  return (_request, source, variableValues) => graphql({ schema, source, variableValues, contextValue: {} });
}

/** Returns the headers to send to the endpoint for a request. */
export type HeadersOf = (request: never) => unknown;

/** How long the endpoint may take, in milliseconds. */
const TIMEOUT_MS = 15_000;

/**
 * Returns a source that sends queries to a GraphQL endpoint. Throws for anything but an absolute
 * http or https URL.
 */
export function endpointSource(endpoint: unknown, headersOf: HeadersOf, invalid: (mistake: string) => Error): Source {
  const given = endpoint instanceof URL ? endpoint.href : endpoint;
  const target = typeof given === "string" && URL.canParse(given) ? new URL(given) : undefined;
  if (target === undefined || !/^https?:$/.test(target.protocol) || target.username + target.password !== "")
    throw invalid(
      `\`endpoint\`: expected the http or https URL of a GraphQL endpoint, without a user name or password, got ${target === undefined ? describeSetting(endpoint) : "another URL"}; credentials belong in \`headers\``,
    );
  // The page shows it, so without credentials and query.
  const name = `${target.origin}${target.pathname}`;
  return async (request, query, variables) => {
    const headers = await requestHeaders(headersOf, request);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    let response: Response;
    let text: string;
    try {
      // Another server must not get the headers.
      const body = JSON.stringify({ query, variables });
      response = await fetch(target, { method: "POST", headers, body, signal, redirect: "error" });
      text = await response.text();
    } catch (error) {
      const { name: kind, cause = error } = error as Error;
      const reason =
        kind === "TimeoutError"
          ? `no answer within ${TIMEOUT_MS / 1_000} s`
          : ((cause as { code?: string }).code ?? messageOf(cause));
      throw new Refusal("ENDPOINT_UNREACHABLE", `${name} cannot be reached: ${inOneLine(reason, 200)}.`);
    }
    try {
      const answer = JSON.parse(text) as Answer | null;
      if (typeof answer?.data === "object" || Array.isArray(answer?.errors)) return answer as Answer;
    } catch {
      // Said below.
    }
    if (response.status === 401 || response.status === 403)
      throw new Refusal(
        "ENDPOINT_DENIED",
        `${name} denies access (HTTP ${response.status}); pass its credentials with the option \`headers\`.`,
      );
    throw new Refusal(
      "ENDPOINT_INVALID",
      `${name} sent no answer of a GraphQL server, but ${inOneLine(response.headers.get("content-type") ?? "no content type", 60)} (HTTP ${response.status}); is it the URL of the GraphQL endpoint?`,
    );
  };
}

async function requestHeaders(headersOf: HeadersOf, request: unknown): Promise<Headers> {
  try {
    const accept = "application/graphql-response+json, application/json";
    const headers = new Headers({ accept, "content-type": "application/json" });
    for (const [name, value] of Object.entries(((await headersOf(request as never)) ?? {}) as Variables))
      if (value !== undefined && value !== null) headers.set(name, String(value));
    return headers;
  } catch {
    // The message can contain a value, which can be a secret.
    throw new Refusal(
      "HEADERS_INVALID",
      "The option `headers` of inspectorHandler has failed, or returns no valid headers.",
    );
  }
}

/** The codes with which servers deny access. */
const ACCESS_CODES: readonly unknown[] = ["CACHED_INSPECTION_DENIED", "UNAUTHENTICATED", "FORBIDDEN"];

/**
 * Returns what an answer says of the cache. Throws a `Refusal` if that is not all that was asked
 * for.
 */
export function inspectionIn({ data, errors = [] }: Answer): object {
  const codeOf = (error: AnswerError | null | undefined): unknown => error?.extensions?.code;
  const denied = errors.map(codeOf).find((code) => ACCESS_CODES.includes(code));
  if (denied !== undefined)
    throw new Refusal(
      String(denied),
      `The GraphQL endpoint denies access (${denied}): its own \`allow\` has to admit the headers that the option \`headers\` of inspectorHandler returns.`,
    );
  const inspection = data?.cacheInspection;
  const [error] = errors;
  if (typeof inspection === "object" && inspection !== null && error === undefined) return inspection;
  const message =
    typeof error?.message === "string" ? error.message : "The server has sent neither an answer nor an error.";
  // Errors of the execution have a path.
  if (error?.path !== undefined) throw new Refusal(String(codeOf(error) ?? "FAILED"), message);
  throw new Refusal(
    "INSPECTION_MISSING",
    `The GraphQL endpoint has no inspection of this release: add inspectionTypeDefs and inspectionResolvers to its schema, or update graphql-cached there. It says: ${message}`,
  );
}
