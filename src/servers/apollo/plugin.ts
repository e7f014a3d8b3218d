import type {
  ApolloServerPlugin,
  BaseContext,
  GraphQLRequestContextExecutionDidStart,
  GraphQLRequestContextResponseForOperation,
  GraphQLRequestContextWillSendResponse,
  GraphQLRequestListener,
  GraphQLResponse,
} from "@apollo/server";
import type { Cache } from "../../cache.js";
import { type Observer, OVERRIDES, type Readable } from "../../core/loader/request-states.js";
import type { ResponsesOptions } from "../../core/responses/options.js";
import type { ExecutedResponse, ResponseAge, ResponseExecution } from "../../core/responses/response-execution.js";
import { resultOf, type StoredResult } from "../../core/responses/stored-response.js";
import { isAllowed } from "../../tools/inspection/access.js";
import {
  mistakeInTrace,
  requestedTrace,
  type TraceOptions,
  TraceRecorder,
  tracedExtensions,
} from "../../tools/inspection/trace.js";
import { namesEtag, openAdapter, setEdgeHeaders } from "../adapter/adapter.js";
import type { EdgeResponse } from "../edge/edge.js";
import { decideLast, decideWhenSent, type ResponseHeaders } from "../edge/final-headers.js";
import type { EdgeOptions } from "../edge/options.js";
import { type HintedInfo, hasLifetimes, NarrowestPolicy, restrictHint, secondsLeft } from "./cache-hints.js";
import { ServedResults } from "./stringify-result.js";

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
  const adapter = openAdapter(cache, options, "cachedPlugin", ["responses", "edge"], false);
  const { parts, responses, edge } = adapter;
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
        parts.requestStates.override(contextValue, override);
      const { http } = request;
      const isTraced = requested !== undefined;
      const header = (name: string): string | undefined => http?.headers.get(name);
      const atEdge = await edge?.begin(contextValue, http && { method: http.method, header, isTraced });
      const isRecorded = override !== undefined || requested === true;
      const trace = isRecorded ? new TraceRecorder() : undefined;
      const added = isTraced ? (trace ?? mistakeInTrace(requested, OVERRIDES)) : undefined;
      const narrowest = new NarrowestPolicy();
      const executions: Readable[] = [];
      let execution: ResponseExecution | undefined;
      let isExecuted = false;
      let isServed = false;
      let addEtag: (response: Sent) => void = () => undefined;
      /** The headers when the operation was looked up, and after its execution. Others send theirs with hits as well. */
      let [before, after] = [NO_HEADERS, NO_HEADERS];
      let executed: () => ExecutedResponse | undefined = () => undefined;
      const observer: Observer = {
        ...(trace === undefined ? { onFresh: (...fresh) => narrowest.addFresh(...fresh) } : {}),
        onRead(coordinate, report, info) {
          narrowest.add(report);
          if (info !== undefined) restrictHint(info as HintedInfo, report);
          trace?.onRead(coordinate, report);
        },
        onHint: (hint, info) => (info as HintedInfo).cacheControl?.setCacheHint(hint),
        onExecution: (one) => executions.push(one),
      };
      parts.requestStates.observe(contextValue, observer);
      const responseForOperation = async (
        operation: GraphQLRequestContextResponseForOperation<Context>,
      ): Promise<GraphQLResponse | null> => {
        const { schema, document, operationName, overallCachePolicy } = operation;
        const { variables } = operation.request;
        const asked = { schema, document, operationName, variables, context: contextValue };
        const begun = await responses?.begin(asked, observer);
        operation.metrics.responseCacheHit = begun?.kind === "served";
        if (begun?.kind === "served") {
          isServed = true;
          atEdge?.served(begun);
          const scope = begun.isPrivate ? "PRIVATE" : "PUBLIC";
          overallCachePolicy.replace({ maxAge: secondsLeft(begun.freshForMs, begun.ageMs), scope });
          // Other plugins may add to the result, but not change its data.
          const hasEtag = http?.method === "GET" && !isTraced;
          const isKnown = hasEtag && namesEtag(header("if-none-match"), begun.response.etag);
          const singleResult = servedResults.resultOf(begun.response, http !== undefined, isKnown);
          if (hasEtag) addEtag = addingEtag(singleResult, begun.response.etag, isKnown);
          return { http: operation.response.http, body: { kind: "single", singleResult } };
        }
        execution = begun?.execution;
        if (execution !== undefined) {
          underExecution.set(contextValue, execution);
          executed = watchResult(operation);
        }
        before = new Map(operation.response.http.headers);
        return null;
      };
      // Not earlier: a field that sets a hint replaces what was restricted before.
      const executionDidStart = async (requestContext: GraphQLRequestContextExecutionDidStart<Context>) => {
        const { overallCachePolicy, response, schema, document, operationName } = requestContext;
        isExecuted = true;
        const operation = { schema, document, operationName, context: contextValue };
        if (atEdge !== undefined) collections.set(contextValue, atEdge.execute(operation, observer, execution));
        const executionDidEnd = async (): Promise<void> => {
          const result = response.body?.kind === "single" ? response.body.singleResult : undefined;
          if (result !== undefined) atEdge?.executed(result);
          execution?.executed?.();
          collections.get(contextValue)?.();
          narrowest.restrict(overallCachePolicy);
          after = new Map(response.http.headers);
          if (execution?.isPrivate === true) overallCachePolicy.restrict({ scope: "PRIVATE" });
        };
        return { executionDidEnd };
      };
      return {
        ...(responses === undefined ? {} : { responseForOperation }),
        executionDidStart,
        async willSendResponse(context: GraphQLRequestContextWillSendResponse<Context>): Promise<void> {
          const { response } = context;
          parts.contextReads.flush();
          if (responses !== undefined && context.metrics.responseCacheHit === true && !isServed)
            parts.onceLog.warn(OTHER_CACHE);
          if (execution !== undefined) {
            const set = [...after].find(([name, value]) => before.get(name) !== value)?.[0];
            const ofExecution = set === undefined ? undefined : `its execution has set the header ${set}`;
            const obstacle = isExecuted ? ofExecution : "another plugin has answered";
            await endExecution(execution, context, executed(), obstacle);
          }
          addEtag(response);
          // Later than Apollo Server, whose header this narrows.
          if (atEdge !== undefined) await sendToEdge(atEdge, context);
          if (edge !== undefined && http !== undefined) decideToTheEnd(response.http, http, contextValue);
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
        },
      };
    },
    async invalidRequestWasReceived({ error }) {
      if (edge !== undefined) forbidKeeping(error);
    },
    async contextCreationDidFail({ error }) {
      if (edge !== undefined) forbidKeeping(error);
    },
    async unexpectedErrorProcessingRequest({ requestContext: { contextValue } }) {
      // Another plugin has failed, so that nothing is sent.
      underExecution.get(contextValue)?.abandon();
      collections.get(contextValue)?.();
    },
    async serverWillStart({ schema }) {
      adapter.check(schema);
      if (edge !== undefined && !parts.rules.isEmpty && !hasLifetimes(schema)) parts.onceLog.info(NO_LIFETIMES);
      // Before the server replaces the resolvers of a schema that was copied after it had been applied.
      parts.resolvers.add(schema);
      return { drainServer: () => parts.drain() };
    },
  };
}

/** Options of `cachedPlugin`. */
export interface CachedPluginOptions<Context extends BaseContext> extends TraceOptions<Context> {
  /**
   * Keeps whole responses, for as long and for whom `@cacheControl` and the hints of resolvers say, until a part of them is
   * outdated or invalidated. Default: false.
   */
  readonly responses?: boolean | ResponsesOptions | undefined;
  /**
   * Lets CDNs keep the responses to GET requests, and names what is in them in the headers `Cache-Tag` and `Surrogate-Key`. It
   * purges nothing: a listener of `invalidation.finished` does, with the `tags` of the event. Never more public, nor longer, than Apollo's `Cache-Control` says. Default: false.
   */
  readonly edge?: boolean | EdgeOptions | undefined;
  /**
   * Decides which callers may send `extensions: { cached: true }` to get `extensions.cached` in the
   * response. With `{ cached: "BYPASS" }` or `{ cached: "REFRESH" }` they also override the cache,
   * as `cache.override` does. Default: no caller may.
   */
  readonly allow?: TraceOptions<Context>["allow"];
}

type Asked = Pick<GraphQLRequestContextResponseForOperation<BaseContext>, "response" | "overallCachePolicy">;
type Sent = GraphQLRequestContextWillSendResponse<BaseContext>["response"];
type Http = GraphQLResponse["http"];
type Answered = Pick<GraphQLRequestContextWillSendResponse<BaseContext>, "response" | "overallCachePolicy">;

const NO_HEADERS: ReadonlyMap<string, string> = new Map();
const OTHER_CACHE =
  "graphql-cached: cachedPlugin: `responses`: expected to be the only response cache, got a response from another one, which nothing invalidates; remove @apollo/server-plugin-response-cache from the plugins, or `responses`";
const NO_LIFETIMES =
  "graphql-cached: cachedPlugin: `edge`: expected @cacheControl(maxAge:) in the schema, got none, so that responses are no-store unless resolvers set hints, or Apollo's plugin has a defaultMaxAge; add @cacheControl to what a CDN may keep, beside @cached";

/** Apollo Server has headers by their names in lower case. */
const headersOf = ({ headers }: Http): ResponseHeaders => ({
  get: (name) => headers.get(name.toLowerCase()),
  set: (name, value) => headers.set(name.toLowerCase(), value),
  delete: (name) => headers.delete(name.toLowerCase()),
});

/** Returns what adds the entity tag to a response that is sent as it was stored, whose text no plugin has made for one caller. */
function addingEtag(result: StoredResult, etag: string, isKnown: boolean): (response: Sent) => void {
  const names = Object.keys(result);
  const { data } = result;
  return ({ body, http }) => {
    if (body.kind !== "single" || body.singleResult.data !== data || hasStatus(http)) return;
    if (Object.keys(body.singleResult).some((name) => !names.includes(name))) return;
    http.headers.set("etag", etag);
    if (!isKnown) return;
    http.status = 304;
    // Node.js sends no body with it.
    body.singleResult = { data: null };
  };
}

/** Returns what gets the result of the execution. Plugins whose `willSendResponse` comes first can replace it, or change its data, for one caller. */
function watchResult({ response, overallCachePolicy }: Asked): () => ExecutedResponse | undefined {
  let executed: ExecutedResponse | undefined;
  let current = response.body;
  Object.defineProperty(response, "body", {
    configurable: true,
    enumerable: true,
    get: () => current,
    set: (body: GraphQLResponse["body"]) => {
      if (executed === undefined && body.kind === "single") {
        const { data, errors, extensions } = body.singleResult;
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

const hasStatus = ({ status }: { readonly status?: number | undefined }): boolean =>
  status !== undefined && status !== 200;

/** Ends the execution of a response, which is stored if the rules of Apollo Server allow it. */
async function endExecution(
  execution: ResponseExecution,
  { response: { body, http }, overallCachePolicy }: Answered,
  executed: ExecutedResponse | undefined,
  obstacle: string | undefined,
): Promise<void> {
  if (body.kind !== "single") {
    execution.abandon();
    return;
  }
  const age = ageIn(undefined, overallCachePolicy.policyIfCacheable());
  const reason = hasStatus(http) ? "it has a status of its own" : obstacle;
  const older = await execution.end(executed ?? body.singleResult, age, reason);
  if (older === undefined) return;
  body.singleResult = resultOf(older, older.data);
  overallCachePolicy.restrict({ maxAge: 0 });
}

/** Tells a CDN what it may keep: never more than the `Cache-Control` of Apollo Server, which this replaces. */
async function sendToEdge(atEdge: EdgeResponse, { response, overallCachePolicy }: Answered): Promise<void> {
  const { body, http } = response;
  const result = body.kind === "single" && body.singleResult.errors === undefined ? body.singleResult : undefined;
  const allowed = result && ageIn(http.headers.get("cache-control"), overallCachePolicy.policyIfCacheable());
  const isReplaced = result !== undefined && atEdge.isReplaced(result);
  const age = allowed && { ...allowed, isPrivate: allowed.isPrivate || isReplaced };
  await setEdgeHeaders(headersOf(http), atEdge, age, () => age !== undefined);
}

/** Decides again with every further header: other plugins may set one later, and Apollo Server sets the type of the content last. */
function decideToTheEnd(
  http: Http,
  { method, headers: asked }: NonNullable<GraphQLRequestContextWillSendResponse<BaseContext>["request"]["http"]>,
  context: { readonly res?: unknown; readonly reply?: unknown },
): void {
  const { headers } = http;
  const request = { method, accept: asked.get("accept") };
  const decide = (): void => decideLast(headersOf(http), { ...request, status: http.status, context });
  decide();
  // Those of a batch are shared.
  if (Object.hasOwn(headers, "set")) return;
  const { set } = headers;
  headers.set = (name, value) => {
    set.call(headers, name, value);
    decide();
    return headers;
  };
  decideWhenSent(context, request);
}

/** Adds to the headers of an error, which Apollo Server sends alone, that no cache may keep it. */
function forbidKeeping(error: Error): void {
  const { extensions = {} } = error as { readonly extensions?: Readonly<Record<string, unknown>> };
  const http = extensions.http as { readonly headers?: unknown } | undefined;
  const headers = new Map(http?.headers instanceof Map ? http.headers : []).set("cache-control", "no-store");
  Object.assign(error, { extensions: { ...extensions, http: { ...http, headers } } });
}

/** Returns what a `Cache-Control` says, or the policy if there is none. Undefined: it is not one of Apollo Server that allows to keep the response. */
function ageIn(
  header: string | undefined,
  policy: { readonly maxAge: number; readonly scope: "PUBLIC" | "PRIVATE" } | null,
): ResponseAge | undefined {
  if (policy === null) return undefined;
  if (header === undefined) return { maxAge: policy.maxAge, isPrivate: policy.scope === "PRIVATE" };
  const [, maxAge, scope] = /^max-age=(\d+), (public|private)$/.exec(header) ?? [];
  return maxAge === undefined ? undefined : { maxAge: Number(maxAge), isPrivate: scope === "private" };
}
