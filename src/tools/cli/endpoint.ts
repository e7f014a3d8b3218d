import { messageOf } from "../../core/base/errors.js";
import { type Answer, readErrors, type Source } from "./source.js";
import { CliError, printable } from "./terminal.js";

/** Returns a source that sends queries to a GraphQL endpoint. Throws `CliError` for an invalid URL or header. */
export function endpointSource(command: string, url: string, headers: readonly string[], timeoutMs: number): Source {
  const target = URL.canParse(url) ? new URL(url) : undefined;
  if (target === undefined || !/^https?:$/.test(target.protocol))
    throw new CliError(
      `${command}: --endpoint: expected a URL such as http://localhost:4000/graphql, got ${printable(url.replace(/\/\/.*@/, "//"))}`,
    );
  const sent = new Headers({
    "content-type": "application/json",
    accept: "application/graphql-response+json, application/json",
  });
  // fetch refuses a URL that contains them, and repeats it.
  const { username, password } = target;
  if (username !== "" || password !== "") {
    const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    sent.set("authorization", `Basic ${Buffer.from(credentials).toString("base64")}`);
    target.username = "";
    target.password = "";
  }
  for (const [nth, header] of headers.entries()) {
    const [, name = "", value = ""] = /^([^:]+):(.*)$/s.exec(header) ?? [];
    try {
      sent.append(name.trim(), value.trim());
    } catch {
      // The value can be a secret, so it is not repeated.
      throw new CliError(`${command}: header ${nth + 1}: expected the form 'name: value', got something else`);
    }
  }
  const name = printable(`${target.origin}${target.pathname}`);
  return {
    name,
    hasSchema: true,
    ask: async (query, variables) => {
      let response: Response;
      let text: string;
      try {
        response = await fetch(target, {
          method: "POST",
          headers: sent,
          body: JSON.stringify({ query, variables }),
          // Another server must not get the headers, which can contain secrets.
          redirect: "error",
          signal: AbortSignal.timeout(timeoutMs),
        });
        text = await response.text();
      } catch (error) {
        throw new CliError(`${name}: ${connectionMistake(error, timeoutMs)}`);
      }
      return answerIn(name, response, text);
    },
    close: async () => undefined,
  };
}

function connectionMistake(error: unknown, timeoutMs: number): string {
  if ((error as Error).name === "TimeoutError")
    return `no answer within ${timeoutMs} ms; is the server overloaded? --timeout waits longer`;
  const cause = (error as { readonly cause?: unknown }).cause ?? error;
  const { code = "" } = cause as { readonly code?: string };
  if (/CERT|SELF_SIGNED|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/.test(code))
    return `its certificate is not trusted (${code}); set NODE_EXTRA_CA_CERTS to the file of its certificate authority`;
  if (code === "ECONNREFUSED") return "nothing listens there (ECONNREFUSED); is the server running?";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return `the host name cannot be resolved (${code})`;
  if (/redirect/.test(messageOf(cause)))
    return "the server redirects to another address, where no headers are sent; pass the final URL";
  const reason = cause instanceof AggregateError ? messageOf(cause.errors[0]) : messageOf(cause);
  return `cannot be reached: ${printable(reason)}${code === "" || reason.includes(code) ? "" : ` (${printable(code)})`}`;
}

function answerIn(name: string, { status, headers }: Response, text: string): Answer {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {}
  const { data, errors } = (body ?? {}) as { readonly data?: unknown; readonly errors?: unknown };
  if (Array.isArray(errors) || (typeof data === "object" && data !== null))
    return { data: (data ?? undefined) as Answer["data"], errors: readErrors(errors) };
  if (status === 401 || status === 403)
    throw new CliError(
      `${name}: the server denies access; pass the credentials with --header or GRAPHQL_CACHED_HEADERS`,
    );
  const [type = ""] = (headers.get("content-type") ?? "no content type").split(";");
  const isBroken = body === undefined && /\bjson\b/.test(headers.get("content-type") ?? "");
  throw new CliError(
    `${name}: expected the answer of a GraphQL server, got ${isBroken ? "invalid JSON" : printable(type)} (HTTP ${status}); is this the URL of the GraphQL endpoint?`,
  );
}
