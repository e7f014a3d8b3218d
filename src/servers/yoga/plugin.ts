import type { DocumentNode, GraphQLSchema } from "graphql";
import type { Cache } from "../../cache.js";
import { StateOf } from "../../core/base/state-of.js";
import { isOrdinary } from "../../core/responses/execute.js";
import type { ResponsesOptions } from "../../core/responses/options.js";
import { endWith, isSingle, type Operation, type ResponseExecution } from "../../core/responses/response-execution.js";
import { isUnchanged, type StoredResponse, unreadResultOf } from "../../core/responses/stored-response.js";
import { requestedTrace, type TraceOptions, TraceRecorder, tracedExtensions } from "../../tools/inspection/trace.js";
import { addEdgeHeaders, namesEtag, openAdapter, type RequestedTrace, traceOf } from "../adapter/adapter.js";
import type { EdgeResponse } from "../edge/edge.js";
import { decideLast, decideWhenSent, isForEdge } from "../edge/final-headers.js";
import type { EdgeOptions } from "../edge/options.js";

/**
 * The plugin for GraphQL Yoga and envelop. `extensions.cached` reports what each cached field did,
 * and a server that is disposed of waits for loads and mutations under way. The cache itself stays
 * open.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache, and `CACHED_SCHEMA_INVALID` for a
 * schema that uses `@cached` but was not passed through `applyCached`.
 */
export function useCached<Context>(cache: Cache<Context>, options: CachedYogaOptions<Context> = {}): CachedYogaPlugin {
  const adapter = openAdapter(cache, options, "useCached", ["responses", "edge"], true);
  const { parts, responses, edge } = adapter;
  parts.contextReads.collectByRequest();
  const atEdgeOf = new StateOf<EdgeResponse>();
  /** Results that are sent, by request, whether executed or not. */
  const sentOf = new WeakMap<object, unknown>();
  /** The stored responses of requests that are sent their entity tags. */
  const servedOf = new WeakMap<object, StoredResponse>();
  const checked = new WeakSet<GraphQLSchema>();
  /** The requests whose responses are of one caller. */
  const ofCallers = new WeakSet<object>();
  const addTrace = async ({ result, setResult }: Executed, context: YogaContext, trace: RequestedTrace) => {
    if (!isSingle(result)) return;
    const extensions = await tracedExtensions(result.extensions, trace, options, context as Context);
    if (extensions !== undefined) setResult({ ...result, extensions } as never);
  };
  const noteSent = ({ request, result }: { readonly request: object; readonly result: unknown }): void => {
    if (edge !== undefined) sentOf.set(request, result);
    const served = servedOf.get(request);
    if (served !== undefined && !(isSingle(result) && isUnchanged(result, served))) servedOf.delete(request);
  };
  /** Whatever this server answers, pages and the like too, says who may keep it. */
  const decide = ({ request, response, serverContext, setResponse, fetchAPI }: Answered): void => {
    const { status, statusText } = response;
    const asked = { method: request.method, accept: request.headers.get("accept") };
    if (sentOf.has(request)) {
      decideLast(response.headers, { ...asked, status, context: serverContext });
      decideWhenSent(serverContext, asked);
    } else if (!response.headers.has("cache-control")) {
      // One that another plugin has fetched cannot be changed.
      const headers = new fetchAPI.Headers([...response.headers]);
      headers.set("cache-control", "no-store");
      setResponse(new fetchAPI.Response(response.body, { status, statusText, headers }));
    }
  };
  return {
    onPluginInit({ plugins }) {
      adapter.join(plugins);
      // After all others, which may still change the result, or set a cookie.
      plugins.push({ onResultProcess: noteSent, ...(edge === undefined ? {} : { onResponse: decide }) });
    },
    onSchemaChange({ schema }) {
      // With a schema for each request, it changes back and forth.
      if (!checked.has(schema)) adapter.check(schema);
      checked.add(schema);
    },
    // Its events are parts of no response, though they are read meanwhile.
    onSubscribe: ({ args }) => parts.requestStates.own(args.contextValue),
    onExecute({ args, executeFn, setExecuteFn }) {
      const context = args.contextValue as YogaContext | null | undefined;
      const trace = context == null ? undefined : traceOf(parts, context, requestedTrace(context.params?.extensions));
      const executeWith = async (given: Execution["args"], atEdge: EdgeResponse | undefined): Promise<unknown> => {
        // Not later: what is read of the context is a part of the response then.
        const own = given.contextValue as YogaContext | null | undefined;
        const request = own?.request ?? own;
        const run = async (): Promise<unknown> => {
          const result = await executeFn?.(given);
          if (responses === undefined || operation === undefined || isHttpRequest(request)) return result;
          return isSingle(result) ? responses.inProcess(operation, result) : result;
        };
        const operation = operationOf(given, run);
        if (operation === undefined) return executeFn?.(given);
        const observer = trace instanceof TraceRecorder ? trace : undefined;
        const execute = async (execution?: ResponseExecution): Promise<unknown> => {
          if (atEdge === undefined) return run();
          const stop = atEdge.execute(operation, observer, execution);
          try {
            const result = await run();
            if (isSingle(result)) atEdge.executed(result);
            return result;
          } finally {
            stop();
          }
        };
        const begun = await responses?.begin(operation, observer);
        if (responses === undefined || begun === undefined) return execute();
        if (begun.kind === "served" ? begun.isPrivate : begun.execution.isPrivate) ofCallers.add(request as object);
        if (begun.kind === "execute")
          return endWith(
            begun.execution,
            () => execute(begun.execution) as Promise<object>,
            () => responses.ageOf(operation),
          );
        const result = unreadResultOf(begun.response);
        if (isHttpRequest(request) && request.method === "GET" && trace === undefined)
          servedOf.set(request, begun.response);
        atEdge?.served(begun);
        return result;
      };
      // Not here: another plugin may answer, or throw, and then nobody would end what has begun.
      if ((responses ?? edge) !== undefined && executeFn !== undefined)
        setExecuteFn?.(async (given) => {
          const request = context?.request;
          if (edge === undefined || !isHttpRequest(request)) return executeWith(given, undefined);
          const { method, headers } = request;
          const header = (name: string): string | null => headers.get(name);
          const atEdge = await edge.begin(given.contextValue, { method, header, isTraced: trace !== undefined });
          if (atEdge !== undefined) atEdgeOf.set(request, atEdge);
          return executeWith(given, atEdge);
        });
      if (trace === undefined && responses === undefined) return undefined;
      return {
        async onExecuteDone(executed) {
          const { result } = executed;
          if (responses !== undefined && isSingle(result) && typeof context === "object" && context !== null)
            responses.ended(context);
          if (context != null && trace !== undefined) await addTrace(executed, context, trace);
        },
      };
    },
    async onResponse({ request, response, fetchAPI, setResponse }) {
      parts.contextReads.flush();
      const { headers } = response;
      const sent = sentOf.get(request);
      if (edge !== undefined && sent !== undefined && isForEdge(request))
        await addEdgeHeaders(headers, atEdgeOf.get(request) ?? edge.unexecuted(), isSingle(sent) ? sent : undefined);
      // What says nothing of caches is kept by some.
      if (ofCallers.has(request) && !headers.has("cache-control")) headers.set("cache-control", "private, no-store");
      const { etag } = servedOf.get(request) ?? {};
      if (etag === undefined || response.status !== 200) return;
      headers.set("etag", etag);
      if (namesEtag(request.headers.get("if-none-match"), etag))
        setResponse?.(new (fetchAPI ?? globalThis).Response(null, { status: 304, headers }));
    },
    onDispose: () => parts.drain(),
  };
}

/** Options of `useCached`. */
export interface CachedYogaOptions<Context> extends TraceOptions<Context> {
  /**
   * Keeps whole responses, for as long and for whom `@cacheControl`, `@cached` and what was read
   * say, until a part of them is outdated or invalidated. Default: false.
   */
  readonly responses?: boolean | ResponsesOptions | undefined;
  /**
   * Lets CDNs keep the responses to GET requests, for as long and for whom `@cacheControl`,
   * `@cached` and what was read say, and names what is in them in the headers `Cache-Tag` and
   * `Surrogate-Key`. It purges nothing: a listener of `invalidation.finished` does, with the `tags`
   * of the event. Yoga only. Default: false.
   */
  readonly edge?: boolean | EdgeOptions | undefined;
}

interface YogaContext {
  readonly params?: { readonly extensions?: unknown };
  readonly request?: object;
}

/** One execution, as envelop describes it. Yoga adds `params` to the context. */
interface Execution {
  readonly args: {
    readonly contextValue?: unknown;
    readonly schema?: GraphQLSchema;
    readonly document?: DocumentNode;
    readonly operationName?: string | null | undefined;
    readonly variableValues?: Readonly<Record<string, unknown>> | null | undefined;
  };
  /** What executes the operation, and replaces that. */
  readonly executeFn?: ((args: Execution["args"]) => unknown) | undefined;
  setExecuteFn?(executeFn: (args: Execution["args"]) => unknown): void;
}

interface Executed {
  readonly result: unknown;
  setResult(result: never): void;
}

interface Answered {
  readonly request: Request;
  readonly response: Response;
  readonly serverContext?: { readonly res?: unknown; readonly reply?: unknown } | undefined;
  readonly fetchAPI: { readonly Headers: typeof Headers; readonly Response: typeof Response };
  setResponse(response: Response): void;
}

/** The hooks of GraphQL Yoga and envelop, neither of which needs to be installed. */
export interface CachedYogaPlugin {
  onPluginInit(init: { readonly plugins: object[] }): void;
  onSchemaChange(change: { readonly schema: GraphQLSchema }): void;
  onSubscribe(subscription: Pick<Execution, "args">): void;
  onExecute(execution: Execution): undefined | { onExecuteDone(executed: Executed): Promise<void> };
  /** Yoga only: envelop has no HTTP response. */
  onResponse(
    http: Pick<Answered, "request" | "response"> & Partial<Pick<Answered, "fetchAPI" | "setResponse">>,
  ): Promise<void>;
  onDispose(): Promise<void>;
}

const isHttpRequest = (request: unknown): request is Request => request instanceof Object && "headers" in request;

/** Undefined without a context, or for what Yoga does not describe. */
function operationOf(
  { schema, document, contextValue: context, operationName, variableValues: variables, ...others }: Execution["args"],
  execute: () => unknown,
): Operation | undefined {
  if (schema === undefined || document === undefined || typeof context !== "object" || context === null)
    return undefined;
  return isOrdinary(others) ? { schema, document, operationName, variables, context, execute } : undefined;
}
