import type { CacheExtension } from "graphql-cached";
import { inOneLine, messageOf } from "graphql-cached/store";
import { INSPECTOR_CSP, INSPECTOR_PAGE } from "./generated/inspector-page.js";
import { badRequest, type Incoming, type Outgoing, Refusal, readObject } from "./http.js";
import { OPERATIONS, type Operation } from "./operations.js";
import { inspectionIn, type Source, type Variables } from "./sources.js";

export interface InspectorParts {
  readonly source: Source;
  /** Whether a request may look. Never rejects. */
  readonly isAllowed: (request: unknown) => Promise<boolean>;
  readonly logger: CacheExtension["logger"];
}

/**
 * Answers a request of the page. Never rejects. The page itself holds no data, so everyone gets it;
 * every other answer needs `allow`.
 */
export async function answer({ source, isAllowed, logger }: InspectorParts, incoming: Incoming): Promise<Outgoing> {
  const { method, request } = incoming;
  if (["GET", "HEAD"].includes(method))
    return { status: 200, headers: PAGE_HEADERS, body: method === "GET" ? INSPECTOR_PAGE : "" };
  if (method !== "POST") {
    const { body } = failure("METHOD_NOT_ALLOWED", `expected GET, HEAD or POST, got ${inOneLine(method, 20)}`);
    return { status: 405, headers: { ...JSON_HEADERS, allow: "GET, HEAD, POST" }, body };
  }
  try {
    checkOrigin(incoming);
    // Before the body is read: others cannot make this process keep one.
    if (!(await isAllowed(request)))
      throw new Refusal(
        "CACHED_INSPECTION_DENIED",
        "You may not look at this cache: the option `allow` of inspectorHandler does not admit this request.",
      );
    const { operation, variables } = readCall(await readObject(incoming, MAX_BODY_BYTES));
    return json({ data: inspectionIn(await source(request, operation.query, variables)) });
  } catch (error) {
    if (error instanceof Refusal) return { ...failure(error.code, error.message), status: error.status };
    logger.warn(`graphql-cached: inspectorHandler: a request failed: ${inOneLine(messageOf(error))}`);
    return failure("FAILED", "The request failed; the log of the server says why.");
  }
}

/**
 * The header that the page sends. A page of another origin cannot, without a permission that this
 * server never gives.
 */
const PAGE_HEADER = "x-graphql-cached-inspector";
/** Far more than the page sends. */
const MAX_BODY_BYTES = 64 * 1_024;

const COMMON_HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};
const JSON_HEADERS = { ...COMMON_HEADERS, "content-type": "application/json; charset=utf-8" };
const PAGE_HEADERS = {
  ...COMMON_HEADERS,
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": INSPECTOR_CSP,
  "cross-origin-opener-policy": "same-origin",
  "x-frame-options": "DENY",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
};

const json = (value: unknown): Outgoing => ({ status: 200, headers: JSON_HEADERS, body: JSON.stringify(value) });

const failure = (code: string, message: string): Outgoing => json({ error: { code, message } });

/**
 * Throws a `Refusal` for what a page of another origin can make a browser send. Such a page can
 * neither set the header nor this content type without asking first, and is never given permission;
 * and browsers say where a request comes from.
 */
function checkOrigin(incoming: Incoming): void {
  // A form of another site cannot say that it is JSON.
  if (incoming.header("content-type")?.split(";")[0]?.trim().toLowerCase() !== "application/json")
    throw badRequest(415, "expected a body of the type application/json, got another one");
  if (incoming.header(PAGE_HEADER) === undefined) throw badRequest(403, `expected the header ${PAGE_HEADER}, got none`);
  const site = incoming.header("sec-fetch-site");
  const isSameOrigin = site === undefined ? isOwnOrigin(incoming) : site === "same-origin";
  if (!isSameOrigin) throw badRequest(403, "expected a request of the inspector page itself, got one of another site");
}

/**
 * Browsers send `Sec-Fetch-Site` over HTTPS and to localhost only. Programs send neither header.
 */
function isOwnOrigin({ header, host }: Incoming): boolean {
  const origin = header("origin");
  if (origin === undefined || !URL.canParse(origin)) return origin === undefined;
  const hosts = [host, header("host"), header("x-forwarded-host")].join().split(",");
  return hosts.some((one) => one.trim().toLowerCase() === new URL(origin).host);
}

function readCall({ operation: name, variables = {} }: Variables): { operation: Operation; variables: Variables } {
  const operation = typeof name === "string" && Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name] : undefined;
  if (operation === undefined)
    throw badRequest(400, `expected an operation of ${Object.keys(OPERATIONS).join(", ")}, got another one`);
  if (typeof variables !== "object" || variables === null || Array.isArray(variables))
    throw badRequest(400, "expected an object of variables, got something else");
  if (Object.keys(variables).some((one) => !operation.variables.includes(one)))
    throw badRequest(400, `expected variables of ${operation.variables.join(", ") || "none"}, got another one`);
  return { operation, variables: variables as Variables };
}
