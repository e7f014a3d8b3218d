/** What caches in front of the server may keep, decided when all others have set their headers. */
import { TAG_HEADERS } from "./options.js";

/** The headers of a response, by names in any case. */
export interface ResponseHeaders {
  get(name: string): unknown;
  set(name: string, value: string): unknown;
  delete(name: string): unknown;
}

export interface Answered {
  readonly method: string;
  readonly accept: string | null | undefined;
  /** Undefined: 200. */
  readonly status: number | undefined;
  /** Whether the result was changed since it was executed or stored, maybe for one caller. */
  readonly isChanged?: boolean;
  /** May have the response of Node.js (`res`) or Fastify (`reply`), which other layers change. */
  readonly context: { readonly res?: unknown; readonly reply?: unknown } | undefined;
}

export const isForEdge = ({ method }: Pick<Answered, "method">): boolean => ["GET", "HEAD"].includes(method);

/**
 * Leaves to CDNs only what is the same for all who ask for the URL: no error, no cookie, and JSON,
 * since many ignore `Vary`. What says nothing of caches is `no-store`. Can be called again.
 */
export function decideLast(headers: ResponseHeaders, answered: Answered): void {
  const said = String(headers.get("Cache-Control") ?? "");
  if (said === "") headers.set("Cache-Control", "no-store");
  else if (!OF_NO_CDN.test(said)) {
    if (isForAll(headers, answered)) {
      keepVary(headers, answered);
      return;
    }
    replace(headers, "Cache-Control", "private, no-store");
  }
  for (const name of TAG_HEADERS) headers.delete(name);
}

/**
 * Decides again when the headers are written: hooks of Fastify come later than a GraphQL server,
 * and sessions set their cookie last. Does nothing without the response in the context.
 */
export function decideWhenSent(context: Answered["context"], request: Pick<Answered, "method" | "accept">): void {
  const response = responseOf(context);
  const raw = (response?.raw ?? response) as NodeResponse | null | undefined;
  if (typeof raw?.writeHead !== "function" || typeof raw.setHeader !== "function") return;
  const { writeHead, setHeader } = raw;
  const headers: ResponseHeaders = {
    get: (name) => raw.getHeader(name),
    set: (name, value) => setHeader.call(raw, name, value),
    delete: (name) => raw.removeHeader(name),
  };
  const decide = (): void => decideLast(headers, { ...request, status: raw.statusCode, context: { res: raw } });
  raw.writeHead = (status, ...given) => {
    raw.statusCode = status;
    const last = given.at(-1);
    // Otherwise they would replace what is decided.
    if (typeof last === "object" && last !== null && !Array.isArray(last))
      for (const header of Object.entries(given.pop() as object)) setHeader.call(raw, ...header);
    decide();
    return writeHead.call(raw, status, ...given);
  };
  // What wrapped `writeHead` earlier sets its cookie later.
  raw.setHeader = (name, value) => {
    setHeader.call(raw, name, value);
    if (name.toLowerCase() === "set-cookie") decide();
    return raw;
  };
}

interface NodeResponse {
  statusCode: number;
  getHeader(name: string): unknown;
  removeHeader(name: string): unknown;
  setHeader(name: string, value: unknown): unknown;
  writeHead(status: number, ...given: unknown[]): unknown;
}

const OF_NO_CDN = /(?:^|,)\s*(?:private|no-store|no-cache)\s*(?:,|$)/i;

function isForAll(headers: ResponseHeaders, { method, accept, status = 200, isChanged, context }: Answered): boolean {
  const cookie = headers.get("Set-Cookie") ?? headerOf(context, "Set-Cookie");
  if (cookie != null || isChanged === true || !isForEdge({ method })) return false;
  // That what a CDN has is still valid.
  return status === 304 || (status === 200 && isJson(headers, accept));
}

const headerOf = (context: Answered["context"], name: string): unknown => responseOf(context)?.getHeader?.(name);

/** That of Fastify has that of Node.js as `raw`. */
const responseOf = (context: Answered["context"]) =>
  (context?.res ?? context?.reply) as { readonly raw?: unknown; getHeader?(name: string): unknown } | null | undefined;

/** Servers replace what other layers have set, as the middleware for CORS does. */
function keepVary(headers: ResponseHeaders, { context }: Answered): void {
  const [vary, other] = [headers.get("Vary"), headerOf(context, "Vary")].map((value) =>
    String(value ?? "")
      .split(/\s*,\s*/)
      .filter((name) => name !== ""),
  ) as [string[], string[]];
  const known = new Set(vary.map((name) => name.toLowerCase()));
  const missing = other.filter((name) => !known.has(name.toLowerCase()));
  if (vary.length > 0 && missing.length > 0) replace(headers, "Vary", [...vary, ...missing].join(", "));
}

/** Whether it is JSON. By another name, it is renamed if the client accepts that. */
function isJson(headers: ResponseHeaders, accept: string | null | undefined): boolean {
  const type = String(headers.get("Content-Type") ?? RESPONSE_JSON).toLowerCase();
  if (!acceptsJson(accept)) return false;
  if (type.startsWith(RESPONSE_JSON)) replace(headers, "Content-Type", "application/json; charset=utf-8");
  else if (!type.startsWith("application/json")) return false;
  return true;
}

/** The headers of Yoga keep one of another case beside the one that is set. */
function replace(headers: ResponseHeaders, name: string, value: string): void {
  headers.delete(name);
  headers.set(name, value);
}

const RESPONSE_JSON = "application/graphql-response+json";
const JSON_RANGES = ["application/json", "application/*", "*/*"];

/** Of the ranges that include JSON, the most specific one decides. */
function acceptsJson(accept: string | null | undefined): boolean {
  const ranges = (accept ?? "").toLowerCase().replace(/\s/g, "").split(",");
  if (ranges.every((range) => range === "")) return true;
  const [range] = JSON_RANGES.flatMap((name) => ranges.filter((one) => one.split(";")[0] === name));
  return range !== undefined && !/;q=0(?:\.0*)?(?:;|$)/.test(range);
}
