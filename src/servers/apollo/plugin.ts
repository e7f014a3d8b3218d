import type { ApolloServerPlugin } from "@apollo/server";
import type { GraphQLSchema } from "graphql";
import type { Cache } from "../../cache.js";
import { StateOf } from "../../core/base/state-of.js";
import type { ResponsesOptions } from "../../core/responses/options.js";
import type { TraceOptions } from "../../tools/inspection/trace.js";
import { openAdapter } from "../adapter/adapter.js";
import type { EdgeOptions } from "../edge/options.js";
import { ApolloRequest } from "./apollo-request.js";
import { hasLifetimes } from "./cache-hints.js";
import { servedResults } from "./stringify-result.js";

/**
 * The Apollo Server plugin. What cached fields and loaders have read lowers the response's
 * `Cache-Control` to its remaining freshness, `extensions.cached` reports what each of them did,
 * and a stopping server waits for loads and mutations under way. The cache itself stays open.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache; the server fails to start with
 * `CACHED_SCHEMA_INVALID` if its schema uses `@cached` and none was passed through `applyCached`.
 * Logs which fields of a schema do not use the cache although one was.
 */
export function cachedPlugin<Context extends object>(
  cache: Cache<Context>,
  options: CachedPluginOptions<Context> = {},
): CachedPlugin<Context> {
  const adapter = openAdapter(cache, options, "cachedPlugin", ["responses", "edge"], false);
  const { parts, responses, edge } = adapter;
  parts.contextReads.collectByRequest();
  const given = { adapter, options, servedResults: servedResults() };
  const requests = new StateOf<ApolloRequest<Context>>();
  const failed = async ({ error }: { readonly error: Error }): Promise<void> => {
    if (edge !== undefined) forbidKeeping(error);
  };
  const plugin = {
    async requestDidStart({ contextValue, request }) {
      const one = await ApolloRequest.begin<Context>(given, contextValue, request);
      requests.set(contextValue, one);
      return one;
    },
    invalidRequestWasReceived: failed,
    contextCreationDidFail: failed,
    async unexpectedErrorProcessingRequest({ requestContext: { contextValue } }) {
      // Another plugin has failed, so that nothing is sent.
      requests.get(contextValue)?.abandon();
    },
    async serverWillStart(service) {
      const { schema } = service;
      adapter.join(service);
      adapter.check(schema);
      const needing = responses === undefined ? (edge === undefined ? undefined : "edge") : "responses";
      if (needing !== undefined && !parts.rules.isEmpty && !hasLifetimes(schema))
        parts.onceLog.info(withoutLifetimes(needing));
      // Before the server replaces the resolvers of a copied schema.
      parts.resolvers.add(schema);
      return { drainServer: () => parts.drain() };
    },
  } satisfies ApolloServerPlugin<Context>;
  return plugin;
}

/**
 * What `cachedPlugin` returns: an `ApolloServerPlugin<Context>` that names no type of Apollo
 * Server, which declares each of them twice, for `import` and for `require`, and accepts no plugin
 * with types of the other format.
 */
export interface CachedPlugin<Context> {
  requestDidStart(requestContext: { readonly contextValue: Context; readonly request: object }): Promise<object>;
  serverWillStart(service: { readonly schema: GraphQLSchema }): Promise<object>;
}

/** Options of `cachedPlugin`. */
export interface CachedPluginOptions<Context extends object> extends TraceOptions<Context> {
  /**
   * Keeps whole responses, for as long and for whom `@cacheControl` and the hints of resolvers say,
   * until a part of them is outdated or invalidated. Default: false.
   */
  readonly responses?: boolean | ResponsesOptions | undefined;
  /**
   * Lets CDNs keep the responses to GET requests, and names what is in them in the headers
   * `Cache-Tag` and `Surrogate-Key`. It purges nothing: a listener of `invalidation.finished` does,
   * with the `tags` of the event. Never more public, nor longer, than Apollo's `Cache-Control`
   * says. Default: false.
   */
  readonly edge?: boolean | EdgeOptions | undefined;
  /**
   * Decides which callers may send `extensions: { cached: true }` to get `extensions.cached` in the
   * response. With `{ cached: "BYPASS" }` or `{ cached: "REFRESH" }` they also override the cache,
   * as `cache.override` does. Default: no caller may.
   */
  readonly allow?: TraceOptions<Context>["allow"];
}

const withoutLifetimes = (option: "responses" | "edge"): string =>
  `graphql-cached: cachedPlugin: \`${option}\`: expected @cacheControl(maxAge:) in the schema, got none, so that responses are not stored, and no-store for caches, unless resolvers set hints, or Apollo's plugin has a defaultMaxAge; add @cacheControl beside @cached`;

/** Adds to the headers of an error, which Apollo Server sends alone, that no cache may keep it. */
function forbidKeeping(error: Error): void {
  const { extensions = {} } = error as { readonly extensions?: Readonly<Record<string, unknown>> };
  const http = extensions.http as { readonly headers?: unknown } | undefined;
  const headers = new Map(http?.headers instanceof Map ? http.headers : []).set("cache-control", "no-store");
  const value = { ...extensions, http: { ...http, headers } };
  // Some errors, such as those of this package, have a getter.
  Reflect.defineProperty(error, "extensions", { value, configurable: true, enumerable: true, writable: true });
}
