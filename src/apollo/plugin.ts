import type { ApolloServerPlugin, BaseContext, GraphQLRequestContext, GraphQLRequestListener } from "@apollo/server";
import { isAllowed } from "../inspection/resolvers.js";
import type { Override } from "../loader/request-scope.js";
import { type HasParts, PARTS } from "../parts.js";
import type { ResponseHint } from "../store/body.js";
import type { Served } from "../tier/request.js";

/** What the plugin may be told. */
export interface CachedPluginOptions<Context extends BaseContext> {
  /**
   * Who may ask with `extensions: { cached: true }` in the request what each cached field did; with `{ cached: "BYPASS" }` or `{ cached: "REFRESH" }`
   * he also has values from their sources, as with `cache.override`. Not said: nobody.
   */
  readonly allow?: (context: Context) => boolean | PromiseLike<boolean>;
}

/** What each cached field of a response did: coordinate → outcome → how many times. A bypass is written with its reason. */
type Trace = Record<string, Record<string, number>>;

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
      const wish = wishOf(request.extensions?.cached);
      const isAdmitted =
        options.allow !== undefined && wish !== undefined && (await isAllowed(options.allow, contextValue));
      if (isAdmitted && wish.override !== undefined) parts.scopes.override(contextValue, wish.override);
      const trace: Trace | undefined = isAdmitted ? {} : undefined;
      parts.scopes.observe(contextValue, (coordinate, served, info) => {
        restrictHint(info as HintedInfo, served);
        if (trace !== undefined) note(trace, coordinate, served);
      });
      if (trace === undefined) return {};
      return {
        async willSendResponse({ response }: GraphQLRequestContext<Context>): Promise<void> {
          const { body } = response;
          if (body?.kind !== "single") return;
          body.singleResult.extensions = { ...body.singleResult.extensions, cached: trace };
        },
      };
    },
    async serverWillStart() {
      return { drainServer: () => parts.drain() };
    },
  };
}

/** What a request asks of the cache in its extensions; undefined where it asks for nothing. */
function wishOf(asked: unknown): { readonly override: Override | undefined } | undefined {
  if (asked === true) return { override: undefined };
  return asked === "BYPASS" || asked === "REFRESH" ? { override: asked } : undefined;
}

/**
 * Says again what the load has said of its response, and otherwise only ever narrows what the schema has said: a hint that is stricter stays, and
 * a field without one gets none, since to be cached here is no leave to be cached by everybody's proxies. A value that is served stale may be
 * kept by nobody.
 */
function restrictHint(info: HintedInfo, served: Served): void {
  const { cacheControl } = info;
  const hint = cacheControl?.cacheHint;
  if (cacheControl === undefined || hint === undefined) return;
  if (served.outcome !== "bypassed" && served.hint !== undefined) cacheControl.setCacheHint(served.hint);
  if (served.isPrivate) hint.restrict({ scope: "PRIVATE" });
  if (served.outcome !== "bypassed" && hint.maxAge !== undefined)
    hint.restrict({ maxAge: Math.floor(served.freshForMs / 1000) });
}

function note(trace: Trace, coordinate: string, served: Served): void {
  const outcome = served.outcome === "bypassed" ? `bypassed(${served.reason})` : served.outcome;
  trace[coordinate] ??= {};
  const outcomes = trace[coordinate];
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
}
