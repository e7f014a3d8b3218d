import { messageOf } from "../../core/base/errors.js";
import { failureOf, type Posted, post } from "../inspection/asking.js";
import type { Source } from "./inspection.js";
import { CliError, printable } from "./terminal.js";

/** Returns a source that sends queries to a GraphQL endpoint. Throws `CliError` for an invalid URL or header. */
export function endpointSource(command: string, url: string, headers: readonly string[], timeoutMs: number): Source {
  const target = URL.canParse(url) ? new URL(url) : undefined;
  if (target === undefined || !/^https?:$/.test(target.protocol))
    throw new CliError(
      `${command}: --endpoint: expected a URL such as http://localhost:4000/graphql, got ${printable(url.replace(/\/\/.*@/, "//"))}`,
    );
  const sent = new Headers();
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
    ask: async (...operation) => {
      const posted = await post(target, sent, operation, timeoutMs).catch((error: unknown) => {
        throw new CliError(`${name}: ${connectionMistake(error, timeoutMs)}`);
      });
      return posted.answer ?? refuse(name, posted);
    },
    close: async () => undefined,
  };
}

function connectionMistake(error: unknown, timeoutMs: number): string {
  const { isTimeout, cause, code } = failureOf(error);
  if (isTimeout) return `no answer within ${timeoutMs} ms; is the server overloaded? --timeout waits longer`;
  if (/CERT|SELF_SIGNED|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/.test(code))
    return `its certificate is not trusted (${code}); set NODE_EXTRA_CA_CERTS to the file of its certificate authority`;
  if (code === "ECONNREFUSED") return "nothing listens there (ECONNREFUSED); is the server running?";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return `the host name cannot be resolved (${code})`;
  if (/redirect/.test(messageOf(cause)))
    return "the server redirects to another address, where no headers are sent; pass the final URL";
  const reason = cause instanceof AggregateError ? messageOf(cause.errors[0]) : messageOf(cause);
  return `cannot be reached: ${printable(reason)}${code === "" || reason.includes(code) ? "" : ` (${printable(code)})`}`;
}

function refuse(name: string, { status, type = "no content type", isJson }: Posted): never {
  if (status === 401 || status === 403)
    throw new CliError(
      `${name}: the server denies access; pass the credentials with --header or GRAPHQL_CACHED_HEADERS`,
    );
  const got = !isJson && /\bjson\b/.test(type) ? "invalid JSON" : printable(type.split(";", 1).join());
  throw new CliError(
    `${name}: expected the answer of a GraphQL server, got ${got} (HTTP ${status}); is this the URL of the GraphQL endpoint?`,
  );
}
