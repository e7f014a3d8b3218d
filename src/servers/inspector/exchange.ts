import { inOneLine, messageOf } from "../../core/base/errors.js";
import type { Logger } from "../../core/telemetry/log-listener.js";
import { INSPECTOR_CSP, INSPECTOR_PAGE } from "../../generated/inspector-page.js";
import { type Allow, isAllowed } from "../../tools/inspection/access.js";
import { askFor, Refusal, type Source } from "./ask.js";
import {
  BadRequest,
  COMMON_HEADERS,
  checkJsonType,
  type Incoming,
  JSON_HEADERS,
  type Outgoing,
  readObject,
} from "./http.js";
import { OPERATIONS, type Operation } from "./operations.js";

/** Answers the requests of the page. */
export class Inspector {
  readonly #source: Source;
  readonly #allow: Allow;
  readonly #logger: Logger;

  constructor(parts: { readonly source: Source; readonly allow: Allow; readonly logger: Logger }) {
    this.#source = parts.source;
    this.#allow = parts.allow;
    this.#logger = parts.logger;
  }

  /** Never rejects. The page itself holds no data, so everyone gets it; every other answer needs `allow`. */
  async answer(incoming: Incoming): Promise<Outgoing> {
    const { method } = incoming;
    if (method === "GET") return { status: 200, headers: PAGE_HEADERS, body: INSPECTOR_PAGE };
    if (method === "HEAD") return { status: 200, headers: PAGE_HEADERS, body: "" };
    if (method !== "POST") {
      const { body } = failure("METHOD_NOT_ALLOWED", `expected GET, HEAD or POST, got ${inOneLine(method, 20)}`);
      return { status: 405, headers: { ...JSON_HEADERS, allow: "GET, HEAD, POST" }, body };
    }
    try {
      checkOrigin(incoming);
      const { operation, variables } = readCall(await readObject(incoming, MAX_BODY_BYTES));
      return json(await this.#run(operation, variables, incoming.request));
    } catch (error) {
      if (error instanceof BadRequest) return { ...failure("BAD_REQUEST", error.message), status: error.status };
      // Status 200: a browser reports any other one as an error, and the page says in words what is wrong.
      if (error instanceof Refusal) return failure(error.code, error.message);
      this.#logger.warn(`graphql-cached: inspectorHandler: a request failed: ${inOneLine(messageOf(error))}`);
      return failure("FAILED", "The request failed; the log of the server says why.");
    }
  }

  async #run(operation: Operation, variables: Readonly<Record<string, unknown>>, request: unknown): Promise<object> {
    if (!(await isAllowed(this.#allow, request)))
      throw new Refusal(
        "CACHED_INSPECTION_DENIED",
        "You may not look at this cache: the option `allow` of inspectorHandler does not admit this request.",
      );
    const { sections, missing } = await askFor(this.#source(request), operation, variables);
    return { data: sections, missing };
  }
}

/** The header that the page sends. A page of another origin cannot, without a permission that this server never gives. */
export const PAGE_HEADER = "x-graphql-cached-inspector";
/** Far more than the page sends. */
const MAX_BODY_BYTES = 64 * 1_024;

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
 * Throws a `BadRequest` for what a page of another origin can make a browser send. Such a page can neither set the header
 * nor this content type without asking first, and is never given permission; and browsers say where a request comes from.
 */
function checkOrigin(incoming: Incoming): void {
  checkJsonType(incoming);
  if (incoming.header(PAGE_HEADER) === undefined)
    throw new BadRequest(403, `expected the header ${PAGE_HEADER}, got none`);
  const site = incoming.header("sec-fetch-site");
  const isSameOrigin = site === undefined ? isOwnOrigin(incoming) : site === "same-origin";
  if (!isSameOrigin)
    throw new BadRequest(403, "expected a request of the inspector page itself, got one of another site");
}

/** Browsers send `Sec-Fetch-Site` over HTTPS and to localhost only. Programs send neither header. */
function isOwnOrigin({ header, hosts }: Incoming): boolean {
  const origin = header("origin");
  if (origin === undefined) return true;
  return URL.canParse(origin) && hosts.includes(new URL(origin).host);
}

interface Call {
  readonly operation: Operation;
  readonly variables: Readonly<Record<string, unknown>>;
}

function readCall({ operation: name, variables: values = {} }: Readonly<Record<string, unknown>>): Call {
  const operation = typeof name === "string" && Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name] : undefined;
  if (operation === undefined)
    throw new BadRequest(400, `expected an operation of ${Object.keys(OPERATIONS).join(", ")}, got another one`);
  if (typeof values !== "object" || values === null || Array.isArray(values))
    throw new BadRequest(400, "expected an object of variables, got something else");
  const unknown = Object.keys(values).find((one) => !Object.hasOwn(operation.variables, one));
  if (unknown !== undefined)
    throw new BadRequest(400, `expected variables of ${Object.keys(operation.variables).join(", ")}, got another one`);
  return { operation, variables: values as Call["variables"] };
}
