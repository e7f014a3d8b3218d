import { describeSetting, inOneLine, messageOf, optionInvalid } from "../../core/base/errors.js";
import { failureOf, type Posted, post } from "../../tools/inspection/asking.js";
import { Refusal, type Source } from "./ask.js";

/**
 * Returns a source that sends queries to a GraphQL endpoint with the inspection in its schema. Throws
 * `CACHED_OPTION_INVALID` for anything but an absolute http or https URL.
 */
export function endpointSource(endpoint: unknown, headersOf: HeadersOf): Source {
  const target = targetOf(endpoint);
  // The page shows it, so without credentials and query.
  const name = `${target.origin}${target.pathname}`;
  return (request) =>
    async (...operation) => {
      const headers = await requestHeaders(headersOf, request);
      const posted = await post(target, headers, operation, TIMEOUT_MS).catch((error: unknown) => {
        throw new Refusal("ENDPOINT_UNREACHABLE", `${name} cannot be reached: ${reasonOf(error)}.`);
      });
      return posted.answer ?? refuse(name, posted);
    };
}

/** Returns the headers to send to the endpoint for a request. */
export type HeadersOf = (request: never) => unknown;

/** How long the endpoint may take, in milliseconds. */
const TIMEOUT_MS = 15_000;

function targetOf(endpoint: unknown): URL {
  const given = endpoint instanceof URL ? endpoint.href : endpoint;
  const target = typeof given === "string" && URL.canParse(given) ? new URL(given) : undefined;
  const isUsable =
    target !== undefined && /^https?:$/.test(target.protocol) && target.username + target.password === "";
  if (isUsable) return target;
  throw optionInvalid(
    `inspectorHandler: \`endpoint\`: expected the http or https URL of a GraphQL endpoint, without a user name or password, got ${target === undefined ? describeSetting(endpoint) : "another URL"}; credentials belong in \`headers\``,
  );
}

async function requestHeaders(headersOf: HeadersOf, request: unknown): Promise<Headers> {
  try {
    const headers = new Headers();
    const given = ((await headersOf(request as never)) ?? {}) as Readonly<Record<string, unknown>>;
    for (const [name, value] of Object.entries(given))
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

function reasonOf(error: unknown): string {
  const { isTimeout, cause, code } = failureOf(error);
  return isTimeout ? `no answer within ${TIMEOUT_MS / 1_000} s` : inOneLine(code || messageOf(cause), 200);
}

function refuse(name: string, { status, type = "no content type" }: Posted): never {
  if (status === 401 || status === 403)
    throw new Refusal(
      "ENDPOINT_DENIED",
      `${name} denies access (HTTP ${status}); pass its credentials with the option \`headers\`.`,
    );
  throw new Refusal(
    "ENDPOINT_INVALID",
    `${name} sent no answer of a GraphQL server, but ${inOneLine(type, 60)} (HTTP ${status}); is it the URL of the GraphQL endpoint?`,
  );
}
