import type {
  ApolloServerPlugin,
  BaseContext,
  GraphQLRequestContextExecutionDidStart,
  GraphQLRequestContextResponseForOperation,
  GraphQLRequestContextWillSendResponse,
  GraphQLRequestListener,
  GraphQLResponse,
} from "@apollo/server";
import type { DocumentNode } from "graphql";
import type { Cache } from "../../cache.js";
import { CachedError, describeSetting } from "../../core/base/errors.js";
import { checkServed } from "../../core/directive/compile/served-schema.js";
import { buildOf, type Observer, OVERRIDES, type Readable } from "../../core/loader/request-scope.js";
import { partsOf } from "../../core/parts.js";
import { type ResponsesOptions, resolveResponses } from "../../core/responses/options.js";
import {
  type Begun,
  type ExecutedResponse,
  ResponseCache,
  type ResponseExecution,
} from "../../core/responses/response-cache.js";
import { resultOf } from "../../core/responses/stored-response.js";
import type { ResponseHint } from "../../core/store/body.js";
import type { ReadReport } from "../../core/tier/request/request.js";
import { isAllowed } from "../../tools/inspection/access.js";
import { appended } from "../../tools/inspection/response-headers.js";
import {
  checkTraceOptions,
  mistakeInTrace,
  requestedTrace,
  type TraceOptions,
  TraceRecorder,
  tracedExtensions,
} from "../../tools/inspection/trace.js";
import { Edge, type EdgeAge, type EdgeResponse } from "../edge/edge.js";
import { type EdgeOptions, resolveEdge } from "../edge/options.js";
import { ServedResults } from "./stringify-result.js";

/** Options of `cachedPlugin`. */
export interface CachedPluginOptions<Context extends BaseContext> extends TraceOptions<Context> {
  /**
   * Keeps whole responses, for as long and for whom `@cacheControl` and the hints of resolvers say, until a part of them is
   * outdated or invalidated. Default: false.
   */
  readonly responses?: boolean | ResponsesOptions | undefined;
  /**
   * Lets CDNs keep the responses to GET requests, and name what is in them in the headers `Cache-Tag` and `Surrogate-Key`, for
   * `invalidation.purge`. Never more public, nor longer, than Apollo's `Cache-Control` says. Default: false.
   */
  readonly edge?: boolean | EdgeOptions | undefined;
  /**
   * Names what is in the responses of a subgraph in `extensions.apolloCacheTags` and `extensions.apolloEntityCacheTags`, for the response
   * cache of Apollo Router. What cannot be named is not to be kept: `no-store`. Default: false.
   */
  readonly routerTags?: boolean | undefined;
  /**
   * Decides which callers may send `extensions: { cached: true }` to get `extensions.cached` in the
   * response. With `{ cached: "BYPASS" }` or `{ cached: "REFRESH" }` they also override the cache,
   * as `cache.override` does. Default: no caller may.
   */
  readonly allow?: TraceOptions<Context>["allow"];
}

/** The operation whose execution begins. Its document is what is executed. */
type ExecutedRequest<Context extends BaseContext> = GraphQLRequestContextExecutionDidStart<Context> & {
  document: DocumentNode;
};

interface CacheHint {
  readonly maxAge?: number | undefined;
  readonly scope?: "PUBLIC" | "PRIVATE" | undefined;
  restrict(hint: { maxAge?: number; scope?: "PUBLIC" | "PRIVATE" }): void;
}

/** The part of Apollo's `info.cacheControl` that is used here, as in `@apollo/cache-control-types`. */
interface HintedInfo {
  readonly cacheControl?: { readonly cacheHint?: CacheHint; setCacheHint(hint: ResponseHint): void };
}

/**
 * The Apollo Server plugin. What cached fields and loaders have read lowers the response's
 * `Cache-Control` to its remaining freshness, `extensions.cached` reports what each of them did, and a
 * stopping server waits for loads and mutations under way. The cache itself stays open.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache; the server fails to start with
 * `CACHED_SCHEMA_INVALID` if its schema uses `@cached` and none was passed through `applyCached`. Logs which fields of a
 * schema do not use the cache although one was.
 */
export function cachedPlugin<Context extends BaseContext>(
  cache: Cache<Context>,
  options: CachedPluginOptions<Context> = {},
): ApolloServerPlugin<Context> {
  const parts = partsOf(cache, "cachedPlugin");
  checkTraceOptions(options, "cachedPlugin", ["responses", "edge", "routerTags"]);
  const stored = resolveResponses(options.responses, "cachedPlugin");
  const responses = stored && new ResponseCache(parts, stored, false);
  const edgeOptions = resolveEdge(options.edge, "cachedPlugin", parts);
  const { routerTags = false } = options;
  if (typeof routerTags !== "boolean")
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `cachedPlugin: \`routerTags\`: expected true or false, got ${describeSetting(routerTags)}`,
    );
  const edge = edgeOptions !== undefined || routerTags ? new Edge(parts, edgeOptions, routerTags) : undefined;
  parts.contextReads.collectByRequest();
  const servedResults = new ServedResults();
  const underExecution = new WeakMap<object, ResponseExecution>();
  /** What ends the collection of what is in a response. */
  const collections = new WeakMap<object, () => void>();
  return {
    async requestDidStart({ contextValue, request }): Promise<GraphQLRequestListener<Context>> {
      const requested = requestedTrace(request.extensions);
      const override = OVERRIDES.find((one) => one === requested);
      if (override !== undefined && options.allow !== undefined && (await isAllowed(options.allow, contextValue)))
        parts.scopes.override(contextValue, override);
      const { http } = request;
      const atEdge = await edge?.begin(
        contextValue,
        http && {
          method: http.method,
          header: (name) => http.headers.get(name),
          isTraced: requested !== undefined,
        },
      );
      const isTraced = override !== undefined || requested === true;
      const trace = isTraced ? new TraceRecorder(parts, override === "REFRESH") : undefined;
      const narrowest = new NarrowestPolicy();
      const executions: Readable[] = [];
      let execution: ResponseExecution | undefined;
      let isExecuted = false;
      /** The headers when the operation was looked up, and after its execution. Others send theirs with hits as well. */
      let [before, after] = [NO_HEADERS, NO_HEADERS];
      let isServed = false;
      /** What the client has sent, while another document is executed in its place. */
      let sent: DocumentNode | undefined;
      let executed: () => ExecutedResponse | undefined = () => undefined;
      const observer: Observer = {
        onRead(coordinate, report, info, key, source) {
          atEdge?.entities?.add(report, key, info, source);
          narrowest.add(report, key?.kind !== "subtree" ? "value" : coordinate.includes(".") ? "field" : "object");
          if (info !== undefined) restrictHint(info as HintedInfo, report);
          trace?.onRead(coordinate, report, info, key);
        },
        ...(atEdge?.entities === undefined ? {} : { onShared: atEdge.entities.addShared.bind(atEdge.entities) }),
        ...(trace === undefined ? {} : { onMiss: trace.onMiss.bind(trace) }),
        onHint: (hint, info) => (info as HintedInfo).cacheControl?.setCacheHint(hint),
        onExecution(one) {
          executions.push(one);
        },
      };
      parts.scopes.observe(contextValue, observer);
      // Not earlier: a field that sets a hint replaces what was restricted before.
      const executionDidStart = async (requestContext: ExecutedRequest<Context>) => {
        const { overallCachePolicy, response, schema, document, operationName } = requestContext;
        isExecuted = true;
        const operation = { schema, document, operationName, context: contextValue };
        if (atEdge !== undefined)
          collections.set(contextValue, atEdge.execute(operation, edge?.planOf(operation), observer, execution));
        const rewritten = parts.subtrees.rewrite(operation);
        if (rewritten !== undefined) {
          sent = document;
          requestContext.document = rewritten;
        }
        const executionDidEnd = async (): Promise<void> => {
          if (response.body?.kind === "single") atEdge?.executed(response.body.singleResult);
          if (sent !== undefined) {
            requestContext.document = sent;
            const { body } = response;
            if (body?.kind === "single") parts.subtrees.finish(body.singleResult.data);
          }
          collections.get(contextValue)?.();
          narrowest.restrict(overallCachePolicy);
          after = copyOf(response.http);
          if (execution?.isPrivate === true) overallCachePolicy.restrict({ scope: "PRIVATE" });
        };
        if (rewritten === undefined) return { executionDidEnd };
        const willResolveField = ({ info }: { readonly info: object }): void => buildOf(info)?.executed(info);
        return { executionDidEnd, willResolveField };
      };
      const added = requested === undefined ? undefined : (trace ?? mistakeInTrace(requested, OVERRIDES));
      return {
        ...(responses === undefined
          ? {}
          : {
              responseForOperation: async (
                operation: GraphQLRequestContextResponseForOperation<Context>,
              ): Promise<GraphQLResponse | null> => {
                const { schema, document, operationName } = operation;
                const { variables } = operation.request;
                const begun = await responses.begin(
                  {
                    schema,
                    document,
                    operationName,
                    variables,
                    context: contextValue,
                    skipsNear: atEdge?.skipsNear === true,
                  },
                  observer,
                );
                isServed = begun?.kind === "served";
                if (begun?.kind === "served") {
                  atEdge?.served(begun);
                  return answerOf(begun, operation, servedResults);
                }
                execution = begun?.execution;
                if (execution !== undefined) {
                  underExecution.set(contextValue, execution);
                  executed = watchResult(operation, (data) => parts.subtrees.finish(data));
                }
                before = copyOf(operation.response.http);
                return null;
              },
            }),
        executionDidStart,
        async willSendResponse(context: GraphQLRequestContextWillSendResponse<Context>): Promise<void> {
          const { response, requestIsBatched } = context;
          parts.contextReads.flush();
          if (responses !== undefined && context.metrics.responseCacheHit === true && !isServed)
            parts.onceLog.warn(OTHER_CACHE);
          if (execution !== undefined) {
            const header = [...after].find(([name, value]) => before.get(name) !== value)?.[0];
            const obstacle = !isExecuted
              ? "another plugin has answered"
              : header === undefined
                ? undefined
                : `its execution has set the header ${header}`;
            await endExecution(execution, context, executed(), obstacle);
          }
          // Later than Apollo Server, whose header this narrows.
          if (atEdge !== undefined) await setEdgeHeaders(atEdge, context);
          const { body } = response;
          // The other fields of a response in parts are still to be executed.
          if (body?.kind !== "single") return;
          for (const execution of executions) execution.clear();
          responses?.ended(contextValue);
          if (added === undefined) return;
          const extensions = await tracedExtensions(body.singleResult.extensions, added, options, contextValue);
          if (extensions === undefined) return;
          // Other plugins can have added to them meanwhile.
          body.singleResult.extensions = { ...body.singleResult.extensions, ...extensions };
          // A batch has one response for all its operations.
          if (trace === undefined || requestIsBatched) return;
          const { headers } = response.http;
          for (const [name, value] of Object.entries(trace.headers()))
            headers.set(name.toLowerCase(), appended(headers.get(name.toLowerCase()), value));
        },
      };
    },
    async unexpectedErrorProcessingRequest({ requestContext }) {
      // Another plugin has failed, so that nothing is sent.
      underExecution.get(requestContext.contextValue)?.abandon();
      collections.get(requestContext.contextValue)?.();
    },
    async serverWillStart({ schema }) {
      checkServed(schema, parts, "cachedPlugin");
      // Before the server replaces the resolvers of a schema that was copied after it had been applied.
      parts.resolvers.add(schema);
      parts.subtrees.prepare(schema);
      responses?.prepare(schema);
      return { drainServer: () => parts.drain() };
    },
  };
}

/** Returns what is left of a lifetime in whole seconds. As in the header Age, less than a second does not count as age. */
const secondsLeft = (freshForMs: number, ageMs: number): number =>
  ageMs < 1_000 ? Math.ceil(freshForMs / 1_000) : Math.floor(freshForMs / 1_000);

/**
 * The narrowest policy of all values that went into a response. Loaders have no field, and the value of
 * a field without a hint is part of its parent's, so Apollo does not see them.
 */
class NarrowestPolicy {
  #maxAge = Number.POSITIVE_INFINITY;
  /** By the hints of the fields in subtrees. */
  #hinted = Number.POSITIVE_INFINITY;
  #isPrivate = false;

  /** `subtree`: whether the fields in it, or in an object of a list, were not executed, so that Apollo knows no hints of them. */
  add(report: ReadReport, subtree: "value" | "field" | "object"): void {
    if (report.isPrivate) this.#isPrivate = true;
    if (report.outcome === "bypassed") return;
    const left = secondsLeft(report.freshForMs, report.ageMs);
    this.#maxAge = Math.min(this.#maxAge, left);
    if (subtree === "value" || report.hint === undefined) return;
    // The list around an object was executed, and has its own hint.
    const { maxAge = subtree === "object" ? undefined : 0, scope } = report.hint;
    if (scope === "PRIVATE") this.#isPrivate = true;
    if (maxAge === undefined) return;
    this.#hinted = Math.min(this.#hinted, Math.max(0, maxAge - Math.floor(report.ageMs / 1_000)));
  }

  /** Only narrows: a response without a maxAge gets none. */
  restrict(policy: CacheHint): void {
    if (Number.isFinite(this.#hinted)) policy.restrict({ maxAge: this.#hinted });
    if (this.#isPrivate) policy.restrict({ scope: "PRIVATE" });
    if (policy.maxAge !== undefined && Number.isFinite(this.#maxAge)) policy.restrict({ maxAge: this.#maxAge });
  }
}

/**
 * Repeats the hints that the load gave, and otherwise only narrows the hints of the schema. A field
 * without a hint gets none: being cached here does not allow proxies to cache it. A stale value has
 * no freshness left.
 */
function restrictHint(info: HintedInfo, report: ReadReport): void {
  const { cacheControl } = info;
  const hint = cacheControl?.cacheHint;
  if (cacheControl === undefined || hint === undefined) return;
  if (report.outcome !== "bypassed" && report.hint !== undefined) cacheControl.setCacheHint(report.hint);
  if (report.isPrivate) hint.restrict({ scope: "PRIVATE" });
  if (report.outcome !== "bypassed" && hint.maxAge !== undefined)
    hint.restrict({ maxAge: secondsLeft(report.freshForMs, report.ageMs) });
}

const OTHER_CACHE =
  "graphql-cached: cachedPlugin: `responses`: expected to be the only response cache, got a response from another one, which nothing invalidates; remove @apollo/server-plugin-response-cache from the plugins, or `responses`";

type Headers = ReadonlyMap<string, string>;
const NO_HEADERS: Headers = new Map();
const copyOf = ({ headers }: { readonly headers: Headers }): Headers => new Map(headers);

/**
 * Returns a function that returns what the execution has returned. Plugins whose `willSendResponse` comes first can replace that, or
 * change its data, for one caller.
 */
function watchResult<Context extends BaseContext>(
  { response, overallCachePolicy }: GraphQLRequestContextResponseForOperation<Context>,
  finish: (data: unknown) => void,
): () => ExecutedResponse | undefined {
  let executed: ExecutedResponse | undefined;
  let current = response.body;
  Object.defineProperty(response, "body", {
    configurable: true,
    enumerable: true,
    get: () => current,
    set: (body: GraphQLResponse["body"]) => {
      if (executed === undefined && body.kind === "single") {
        const { errors, extensions } = body.singleResult;
        finish(body.singleResult.data);
        const { data } = body.singleResult;
        // What is not stored need not be copied.
        const isKept = (errors ?? []).length === 0 && overallCachePolicy.policyIfCacheable() !== null;
        executed = { data: isKept ? copyOfData(data) : data, errors, extensions: extensions && { ...extensions } };
      }
      current = body;
    },
  });
  return () => executed;
}

/** Data that is not JSON is not stored. */
function copyOfData(data: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(data ?? null));
  } catch {
    return data;
  }
}

/** Ends the execution of a response, which is stored if the rules of Apollo Server allow it. */
async function endExecution<Context extends BaseContext>(
  execution: ResponseExecution,
  { response, overallCachePolicy }: GraphQLRequestContextWillSendResponse<Context>,
  executed: ExecutedResponse | undefined,
  obstacle: string | undefined,
): Promise<void> {
  const { body, http } = response;
  if (body.kind !== "single") {
    execution.abandon();
    return;
  }
  const policy = overallCachePolicy.policyIfCacheable();
  const age = policy === null ? undefined : { maxAge: policy.maxAge, isPrivate: policy.scope === "PRIVATE" };
  const hasStatus = http.status !== undefined && http.status !== 200;
  const older = await execution.end(
    executed ?? body.singleResult,
    age,
    hasStatus ? "it has a status of its own" : obstacle,
  );
  if (older === undefined) return;
  body.singleResult = resultOf(older);
  overallCachePolicy.restrict({ maxAge: 0 });
}

/** Replaces the `Cache-Control` of Apollo Server, if that allows to keep the response, by one for CDNs. */
async function setEdgeHeaders<Context extends BaseContext>(
  atEdge: EdgeResponse,
  { response, overallCachePolicy }: GraphQLRequestContextWillSendResponse<Context>,
): Promise<void> {
  const { body, http } = response;
  const result = body.kind === "single" && body.singleResult.errors === undefined ? body.singleResult : undefined;
  const policy = overallCachePolicy.policyIfCacheable();
  const allowed = result && ageIn(http.headers.get("cache-control"), policy);
  const isReplaced = result !== undefined && atEdge.isReplaced(result);
  if (atEdge.entities !== undefined) {
    if (result === undefined || allowed === undefined) return;
    const extensions = isReplaced ? undefined : await atEdge.routerExtensions(result.data);
    if (extensions === undefined) http.headers.set("cache-control", "no-store");
    else result.extensions = { ...result.extensions, ...extensions };
    return;
  }
  const hasStatus = http.status !== undefined && http.status !== 200;
  const isOfCaller = isReplaced || hasStatus || http.headers.has("set-cookie");
  const age = allowed && { ...allowed, isPrivate: allowed.isPrivate || isOfCaller };
  const { Vary, ...headers } = await atEdge.headers(age);
  if (Vary !== undefined) http.headers.set("vary", appended(http.headers.get("vary"), Vary));
  if (age !== undefined)
    for (const [name, value] of Object.entries(headers)) http.headers.set(name.toLowerCase(), value);
}

/** Returns what a `Cache-Control` says, or the policy if there is none. Undefined: it is not one of Apollo Server that allows to keep the response. */
function ageIn(
  header: string | undefined,
  policy: { readonly maxAge: number; readonly scope: "PUBLIC" | "PRIVATE" } | null,
): EdgeAge {
  if (policy === null) return undefined;
  if (header === undefined) return { maxAge: policy.maxAge, isPrivate: policy.scope === "PRIVATE" };
  const [, maxAge, scope] = /^max-age=(\d+), (public|private)$/.exec(header) ?? [];
  return maxAge === undefined ? undefined : { maxAge: Number(maxAge), isPrivate: scope === "private" };
}

/** Answers an operation with a stored response. Other plugins may add to the result, but not change its data. */
function answerOf<Context extends BaseContext>(
  { response, freshForMs, ageMs, isPrivate }: Extract<Begun, { kind: "served" }>,
  { request, overallCachePolicy, metrics, response: { http } }: GraphQLRequestContextResponseForOperation<Context>,
  results: ServedResults,
): GraphQLResponse {
  overallCachePolicy.replace({ maxAge: secondsLeft(freshForMs, ageMs), scope: isPrivate ? "PRIVATE" : "PUBLIC" });
  metrics.responseCacheHit = true;
  return { http, body: { kind: "single", singleResult: results.resultOf(response, request.http !== undefined) } };
}
