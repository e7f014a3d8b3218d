import { type Cache, CachedError, type CacheExtension, extensionOf } from "graphql-cached";
import { checkOptionNames, describeSetting, inOneLine, messageOf } from "graphql-cached/store";
import { answer } from "./exchange.js";
import { type HttpHandler, type HttpRequest, handlerOf } from "./http.js";
import { cacheSource, endpointSource, type HeadersOf } from "./sources.js";

/**
 * Returns a handler that serves the inspector page, and answers its questions, at the URL where it
 * is mounted. It never rejects. The page itself is sent to everyone and holds no data; every
 * question needs `allow`.
 *
 * Throws `CACHED_OPTION_INVALID` if the options name neither a cache nor an endpoint, or `allow` is
 * missing.
 */
export function inspectorHandler<Caller = InspectorRequest>(options: InspectorOptions<Caller>): InspectorHandler {
  checkOptionNames(options, "inspectorHandler", ["cache", "endpoint", "headers", "allow"]);
  const { cache, endpoint, headers = {}, allow } = options;
  const invalid = (mistake: string): Error => new CachedError("CACHED_OPTION_INVALID", `inspectorHandler: ${mistake}`);
  if ((cache === undefined) === (endpoint === undefined))
    throw invalid(
      `\`cache\`, \`endpoint\`: expected exactly one of them, got ${cache === undefined ? "none" : "both"}`,
    );
  if (cache !== undefined && options.headers !== undefined)
    throw invalid("`headers`: expected none with `cache`, since they are sent to an endpoint; remove it");
  if (typeof headers !== "function" && (typeof headers !== "object" || headers === null))
    throw invalid("`headers`: expected an object of headers, or a function that returns one, got something else");
  if (typeof allow !== "function")
    throw invalid(
      `\`allow\`: expected a function that returns true or false for a request, got ${describeSetting(allow)}`,
    );
  const logger: CacheExtension["logger"] =
    cache === undefined ? console : extensionOf(cache, "inspectorHandler").logger;
  const headersOf = typeof headers === "function" ? (headers as HeadersOf) : () => headers;
  const source = cache === undefined ? endpointSource(endpoint, headersOf, invalid) : cacheSource(cache);
  let isReported = false;
  const isAllowed = async (request: unknown): Promise<boolean> => {
    try {
      return (await allow(request as Caller)) === true;
    } catch (error) {
      const reason = inOneLine(messageOf(error));
      if (!isReported) logger.warn(`graphql-cached: inspectorHandler: \`allow\` threw, which denies access: ${reason}`);
      isReported = true;
      return false;
    }
  };
  return handlerOf((incoming) => answer({ source, isAllowed, logger }, incoming));
}

/** A request as a server passes it: of the Fetch API, of node:http and Express, or of Fastify. */
export type InspectorRequest = HttpRequest;

/** The headers for an endpoint, by name. Those without a value are not sent. */
export type EndpointHeaders = Readonly<Record<string, string | undefined>>;

/** Options of `inspectorHandler`: what to show, and to whom. */
export type InspectorOptions<Caller = InspectorRequest> = {
  /**
   * Decides which callers may look. Required: there is no default. It gets the request as the
   * server passes it: a `Request` of the Fetch API, the `IncomingMessage` of node:http (in Express
   * with what other middleware has added), or the request of Fastify.
   */
  readonly allow: (request: Caller) => boolean | PromiseLike<boolean>;
} & (
  | {
      /** The cache of this process. It shows all processes that share its store. */
      readonly cache: Cache<never>;
      readonly endpoint?: never;
      readonly headers?: never;
    }
  | {
      /** The URL of a GraphQL endpoint that has the inspection in its schema. */
      readonly endpoint: string | URL;
      /**
       * What to send to it, such as `authorization`; or a function that returns that for a request.
       * Default: nothing.
       */
      readonly headers?:
        | EndpointHeaders
        | ((request: Caller) => EndpointHeaders | PromiseLike<EndpointHeaders>)
        | undefined;
      readonly cache?: never;
    }
);

/**
 * Serves the inspector page at one URL, under servers of the Fetch API, of node:http and Express,
 * and of Fastify.
 */
export type InspectorHandler = HttpHandler;
