import { type CachedError, optionInvalid } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { type CacheHandle, partsOf } from "../../core/parts.js";
import type { Logger } from "../../core/telemetry/log-listener.js";
import { checkedPermission } from "../../tools/inspection/access.js";
import { askSchema } from "../../tools/inspection/asking.js";
import { inspectionSchema } from "../../tools/inspection/schema.js";
import type { Source } from "./ask.js";
import { endpointSource, type HeadersOf } from "./endpoint-source.js";
import { Inspector } from "./exchange.js";
import { type HttpHandler, type HttpRequest, handlerOf } from "./http.js";

/**
 * Returns a handler that serves the inspector page, and answers its questions, at the URL where it is mounted. It never
 * rejects. The page itself is sent to everyone and holds no data; every question needs `allow`.
 *
 * Throws `CACHED_OPTION_INVALID` if the options name neither a cache nor an endpoint, or `allow` is missing.
 */
export function inspectorHandler<Caller = InspectorRequest>(options: InspectorOptions<Caller>): InspectorHandler {
  checkOptionNames(options, "inspectorHandler", OPTIONS);
  const { cache, endpoint, headers } = options;
  if ((cache === undefined) === (endpoint === undefined))
    throw invalid(
      `\`cache\`, \`endpoint\`: expected exactly one of them, got ${cache === undefined ? "none" : "both"}`,
    );
  if (cache !== undefined && headers !== undefined)
    throw invalid("`headers`: expected none with `cache`, since they are sent to an endpoint; remove it");
  const logger: Logger = cache === undefined ? console : partsOf(cache, "inspectorHandler").logger;
  const allow = checkedPermission(options.allow, {
    caller: "inspectorHandler",
    option: "allow",
    subject: "request",
    logger,
  });
  const source = cache === undefined ? endpointSource(endpoint, headersOf(headers)) : cacheSource(cache);
  const inspector = new Inspector({ source, allow, logger });
  return handlerOf((incoming) => inspector.answer(incoming));
}

/**
 * Who may do what. The functions get the request as the server passes it: a `Request` of the Fetch API, the
 * `IncomingMessage` of node:http (in Express with what other middleware has added), or the request of Fastify.
 */
export interface InspectorAccess<Caller> {
  /** Decides which callers may look. Required: there is no default. */
  readonly allow: (request: Caller) => boolean | PromiseLike<boolean>;
}

/** A request as a server passes it: of the Fetch API, of node:http and Express, or of Fastify. */
export type InspectorRequest = HttpRequest;

/** The headers for an endpoint, by name. Those without a value are not sent. */
export type EndpointHeaders = Readonly<Record<string, string | undefined>>;

/** Options of `inspectorHandler`: what to show, and to whom. */
export type InspectorOptions<Caller = InspectorRequest> = InspectorAccess<Caller> &
  (
    | {
        /** The cache of this process. It shows all processes that share its store. */
        readonly cache: CacheHandle<never>;
        readonly endpoint?: never;
        readonly headers?: never;
      }
    | {
        /** The URL of a GraphQL endpoint that has the inspection in its schema. */
        readonly endpoint: string | URL;
        /** What to send to it, such as `authorization`; or a function that returns that for a request. Default: nothing. */
        readonly headers?:
          | EndpointHeaders
          | ((request: Caller) => EndpointHeaders | PromiseLike<EndpointHeaders>)
          | undefined;
        readonly cache?: never;
      }
  );

/** Serves the inspector page at one URL, under servers of the Fetch API, of node:http and Express, and of Fastify. */
export type InspectorHandler = HttpHandler;

const OPTIONS = ["cache", "endpoint", "headers", "allow"];

/** Returns a source that runs the resolvers of the inspection on a cache of this process. */
function cacheSource(cache: CacheHandle<never>): Source {
  const schema = inspectionSchema(cache);
  return () =>
    (...operation) =>
      askSchema(schema, operation, {});
}

function headersOf(headers: unknown): HeadersOf {
  if (typeof headers === "function") return headers as HeadersOf;
  if (headers === undefined || (typeof headers === "object" && headers !== null)) return () => headers ?? {};
  throw invalid("`headers`: expected an object of headers, or a function that returns one, got something else");
}

const invalid = (mistake: string): CachedError => optionInvalid(`inspectorHandler: ${mistake}`);
