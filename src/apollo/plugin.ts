import type { ApolloServerPlugin, BaseContext, GraphQLRequestContext, GraphQLRequestListener } from "@apollo/server";
import { isTraceAsked, noteServed, type Trace, type TraceOptions, tracedExtensions } from "../inspection/trace.js";
import { type HasParts, PARTS } from "../parts.js";
import type { Served } from "../tier/request.js";

/** What the plugin may be told. */
export interface CachedPluginOptions<Context extends BaseContext> extends TraceOptions<Context> {}

interface CacheHint {
  readonly maxAge?: number;
  restrict(hint: { maxAge?: number; scope?: "PUBLIC" | "PRIVATE" }): void;
}

/** Apollo's hint on one field: the only part of it that is needed, as `@apollo/cache-control-types` has it. */
interface HintedInfo {
  readonly cacheControl?: { readonly cacheHint?: CacheHint };
}

/**
 * Adds what Apollo Server alone can give to a schema that went through `applyCached`: a field answered from the cache lowers the response's
 * `Cache-Control` to what is left of its freshness, `extensions.cached` says what each field did, and a stopping server waits for loads under way.
 * The cache stays open: it belongs to whoever made it.
 */
export function cachedPlugin<Context extends BaseContext>(
  cache: HasParts,
  options: CachedPluginOptions<Context> = {},
): ApolloServerPlugin<Context> {
  const parts = cache[PARTS];
  return {
    async requestDidStart({ contextValue, request }): Promise<GraphQLRequestListener<Context>> {
      const trace: Trace | undefined = isTraceAsked(request.extensions) ? {} : undefined;
      parts.scopes.observe(contextValue, (coordinate, served, info) => {
        restrictHint(info as HintedInfo, served);
        if (trace !== undefined) noteServed(trace, coordinate, served);
      });
      if (trace === undefined) return {};
      return {
        async willSendResponse({ response }: GraphQLRequestContext<Context>): Promise<void> {
          const { body } = response;
          if (body?.kind !== "single") return;
          const extensions = await tracedExtensions(body.singleResult.extensions, trace, options, contextValue);
          if (extensions !== undefined) body.singleResult.extensions = extensions;
        },
      };
    },
    async serverWillStart() {
      return { drainServer: () => parts.drain() };
    },
  };
}

/**
 * Only ever narrows what the schema or the resolver has said: a hint that is stricter stays, and a field without one gets none, since to be
 * cached here is no leave to be cached by everybody's proxies. A value that is served stale may be kept by nobody.
 */
function restrictHint(info: HintedInfo, served: Served): void {
  const hint = info.cacheControl?.cacheHint;
  if (hint === undefined) return;
  if (served.isPrivate) hint.restrict({ scope: "PRIVATE" });
  if (served.outcome !== "bypassed" && hint.maxAge !== undefined)
    hint.restrict({ maxAge: Math.floor(served.freshForMs / 1000) });
}
