import type { ApolloServerPlugin, BaseContext, GraphQLRequestContext, GraphQLRequestListener } from "@apollo/server";
import { isAllowed } from "../inspection/resolvers.js";
import { isTraceAsked, noteReport, type Trace, type TraceOptions, tracedExtensions } from "../inspection/trace.js";
import type { Override } from "../loader/request-scope.js";
import { type HasParts, PARTS } from "../parts.js";
import type { ResponseHint } from "../store/body.js";
import type { ReadReport } from "../tier/request.js";

/** What the plugin may be told. */
export interface CachedPluginOptions<Context extends BaseContext> extends TraceOptions<Context> {
  /**
   * Who may ask with `extensions: { cached: true }` in the request what each cached field did; with `{ cached: "BYPASS" }` or `{ cached: "REFRESH" }`
   * he also has values from their sources, as with `cache.override`. Not said: nobody.
   */
  readonly allow?: TraceOptions<Context>["allow"] & {};
}

interface CacheHint {
  readonly maxAge?: number;
  restrict(hint: { maxAge?: number; scope?: "PUBLIC" | "PRIVATE" }): void;
}

/** Apollo's hint on one field: the only part of it that is needed, as `@apollo/cache-control-types` has it. */
interface HintedInfo {
  readonly cacheControl?: { readonly cacheHint?: CacheHint; setCacheHint(hint: ResponseHint): void };
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
      const override = overrideAsked(request.extensions);
      if (override !== undefined && options.allow !== undefined && (await isAllowed(options.allow, contextValue)))
        parts.scopes.override(contextValue, override);
      const trace: Trace | undefined = override !== undefined || isTraceAsked(request.extensions) ? {} : undefined;
      parts.scopes.observe(contextValue, (coordinate, served, info) => {
        restrictHint(info as HintedInfo, served);
        if (trace !== undefined) noteReport(trace, coordinate, served);
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

/** What a request wants of the cache besides, by its extensions. */
function overrideAsked(extensions: unknown): Override | undefined {
  const asked = (extensions as { cached?: unknown } | null | undefined)?.cached;
  return asked === "BYPASS" || asked === "REFRESH" ? asked : undefined;
}

/**
 * Says again what the load has said of its response, and otherwise only ever narrows what the schema has said: a hint that is stricter stays, and
 * a field without one gets none, since to be cached here is no leave to be cached by everybody's proxies. A value that is served stale may be
 * kept by nobody.
 */
function restrictHint(info: HintedInfo, served: ReadReport): void {
  const { cacheControl } = info;
  const hint = cacheControl?.cacheHint;
  if (cacheControl === undefined || hint === undefined) return;
  if (served.outcome !== "bypassed" && served.hint !== undefined) cacheControl.setCacheHint(served.hint);
  if (served.isPrivate) hint.restrict({ scope: "PRIVATE" });
  if (served.outcome !== "bypassed" && hint.maxAge !== undefined)
    hint.restrict({ maxAge: Math.floor(served.freshForMs / 1000) });
}
