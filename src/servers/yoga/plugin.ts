import type { GraphQLSchema } from "graphql";
import type { Cache } from "../../cache.js";
import { checkServed } from "../../core/directive/compile/served-schema.js";
import { type ExecutedOperation, UnaskedFields } from "../../core/directive/run/unasked-fields.js";
import { partsOf } from "../../core/parts.js";
import { endWith, isOrdinary, isSingle } from "../../core/responses/execute.js";
import { type ResponsesOptions, resolveResponses } from "../../core/responses/options.js";
import { type Operation, ResponseCache, type ResponseExecution } from "../../core/responses/response-cache.js";
import { unreadResultOf } from "../../core/responses/stored-response.js";
import { executeWithSubtrees } from "../../core/subtrees/execute.js";
import { appended } from "../../tools/inspection/response-headers.js";
import {
  beginTrace,
  checkTraceOptions,
  mistakeInTrace,
  requestedTrace,
  type TraceMistake,
  type TraceOptions,
  TraceRecorder,
  tracedExtensions,
} from "../../tools/inspection/trace.js";
import { Edge, type EdgeRequest, type EdgeResponse } from "../edge/edge.js";
import { type EdgeOptions, resolveEdge } from "../edge/options.js";

/** Options of `useCached`. */
export interface CachedYogaOptions<Context> extends TraceOptions<Context> {
  /**
   * Keeps whole responses, for as long and for whom `@cacheControl`, `@cached` and what was read say, until a part of them is
   * outdated or invalidated. Default: false.
   */
  readonly responses?: boolean | ResponsesOptions | undefined;
  /**
   * Lets CDNs keep the responses to GET requests, for as long and for whom `@cacheControl`, `@cached` and what was read say, and
   * names what is in them in the headers `Cache-Tag` and `Surrogate-Key`, for `invalidation.purge`. Yoga only. Default: false.
   */
  readonly edge?: boolean | EdgeOptions | undefined;
}

/** The part of Yoga's context that is used. */
interface YogaContext {
  readonly params?: { readonly extensions?: unknown };
  readonly request?: object;
}

/** One execution, as envelop describes it to plugins. Yoga's context has the request's GraphQL parameters in `params`. */
interface Execution {
  readonly args: {
    readonly contextValue?: unknown;
    readonly operationName?: string | null | undefined;
    readonly variableValues?: Readonly<Record<string, unknown>> | null | undefined;
  } & Partial<ExecutedOperation>;
  /** What executes the operation, and replaces that. */
  readonly executeFn?: ((args: Execution["args"]) => unknown) | undefined;
  setExecuteFn?(executeFn: (args: Execution["args"]) => unknown): void;
}

interface Executed {
  readonly result: unknown;
  setResult(result: never): void;
}

/** Undefined: none was requested. */
type RequestedTrace = TraceRecorder | TraceMistake | undefined;

interface ExecuteHooks {
  onExecuteDone(executed: Executed): Promise<void>;
}

/** The hooks that GraphQL Yoga and envelop call, as a structural type: neither needs to be installed. */
export interface CachedYogaPlugin {
  onSchemaChange(change: { readonly schema: GraphQLSchema }): void;
  onExecute(execution: Execution): undefined | ExecuteHooks;
  /** Yoga only: envelop has no HTTP response. */
  onResultProcess(processed: { readonly request: { readonly method: string }; readonly result: unknown }): void;
  /** Yoga only. */
  onResponse(http: {
    readonly request: object;
    readonly response: { readonly headers: Headers };
  }): Promise<void> | undefined;
  onDispose(): Promise<void>;
}

/**
 * The plugin for GraphQL Yoga and envelop. `extensions.cached` reports what each cached field did,
 * and a server that is disposed of waits for loads and mutations under way. The cache itself stays open.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache, and `CACHED_SCHEMA_INVALID` for a
 * schema that uses `@cached` but was not passed through `applyCached`.
 */
export function useCached<Context>(cache: Cache<Context>, options: CachedYogaOptions<Context> = {}): CachedYogaPlugin {
  const parts = partsOf(cache, "useCached");
  checkTraceOptions(options, "useCached", ["responses", "edge"]);
  const stored = resolveResponses(options.responses, "useCached");
  const responses = stored && new ResponseCache(parts, stored, true);
  const edgeOptions = resolveEdge(options.edge, "useCached", parts);
  const edge = edgeOptions && new Edge(parts, edgeOptions);
  parts.contextReads.collectByRequest();
  const unasked = new UnaskedFields(parts, "useCached");
  /** The headers of responses that are not sent yet, by request. A batch has one response, which gets none. */
  const headersOf = new WeakMap<object, Readonly<Record<string, string>>>();
  const atEdgeOf = new WeakMap<object, EdgeResponse>();
  /** What is sent to requests that a CDN may answer, whether they were executed or not. */
  const sentOf = new WeakMap<object, unknown>();
  const checkAsked = (args: Execution["args"], result: unknown): void => {
    if (!unasked.isDecided && isSingle(result) && args.schema !== undefined && args.document !== undefined)
      unasked.check(args as ExecutedOperation, (result as { readonly data?: unknown }).data);
  };
  /** Adds what was requested of the trace to the result. */
  const addTrace = async (
    { result, setResult }: Executed,
    context: YogaContext,
    trace: RequestedTrace,
  ): Promise<void> => {
    if (!isSingle(result) || trace === undefined) return;
    const extensions = await tracedExtensions(result.extensions, trace, options, context as Context);
    if (extensions === undefined) return;
    setResult({ ...result, extensions } as never);
    const { request } = context;
    if (!(trace instanceof TraceRecorder) || request === undefined) return;
    headersOf.set(request, headersOf.has(request) ? {} : trace.headers());
  };
  const beginTraceOf = (context: YogaContext | null | undefined): RequestedTrace => {
    const requested = requestedTrace(context?.params?.extensions);
    if (context == null || requested === undefined) return undefined;
    return requested === true ? beginTrace(parts, context) : mistakeInTrace(requested, []);
  };
  return {
    onSchemaChange({ schema }) {
      checkServed(schema, parts, "useCached");
      parts.subtrees.prepare(schema);
      responses?.prepare(schema);
    },
    onExecute({ args, executeFn, setExecuteFn }) {
      const context = args.contextValue as YogaContext | null | undefined;
      const trace = beginTraceOf(context);
      let isServed = false;
      const executeSubtrees = (given: Execution["args"]): unknown => {
        if (executeFn === undefined || !isOrdinary(given as object)) return executeFn?.(given);
        return executeWithSubtrees(given, parts.subtrees, executeFn);
      };
      if ((responses ?? edge) === undefined && parts.rules.hasSubtrees && executeFn !== undefined)
        setExecuteFn?.(executeSubtrees);
      const executeCollecting = async (
        given: Execution["args"],
        atEdge: EdgeResponse,
        stop: () => void,
      ): Promise<unknown> => {
        try {
          const result = await executeSubtrees(given);
          if (isSingle(result)) atEdge.executed(result);
          return result;
        } finally {
          stop();
        }
      };
      const executeWith = (given: Execution["args"], atEdge: EdgeResponse | undefined): unknown => {
        const operation = operationOf(given);
        const observer = trace instanceof TraceRecorder ? trace : undefined;
        const begun = operation && responses?.begin({ ...operation, skipsNear: atEdge?.skipsNear === true }, observer);
        const execute = (execution?: ResponseExecution): unknown => {
          if (operation === undefined || edge === undefined || atEdge === undefined) return executeSubtrees(given);
          return executeCollecting(
            given,
            atEdge,
            atEdge.execute(operation, edge.planOf(operation), observer, execution),
          );
        };
        if (operation === undefined || responses === undefined || begun === undefined) return execute();
        return begun.then((one) => {
          isServed = one.kind === "served";
          if (one.kind === "execute")
            return endWith(one.execution, responses, operation, () => execute(one.execution) as object);
          const result = unreadResultOf(one.response);
          atEdge?.served(one, result);
          return result;
        });
      };
      const executeAtEdge = async (given: Execution["args"], request: Request): Promise<unknown> => {
        const atEdge = await edge?.begin(given.contextValue, edgeRequestOf(request, trace !== undefined));
        if (atEdge !== undefined) atEdgeOf.set(request, atEdge);
        return executeWith(given, atEdge);
      };
      // Not here: another plugin may answer, or throw, and then nobody would end what has begun.
      if ((responses ?? edge) !== undefined && executeFn !== undefined)
        setExecuteFn?.((given) => {
          const request = context?.request;
          const isForEdge = edge !== undefined && request instanceof Object && "headers" in request;
          return isForEdge ? executeAtEdge(given, request as Request) : executeWith(given, undefined);
        });
      const ended = (result: unknown): void => {
        if (responses !== undefined && isSingle(result) && typeof context === "object" && context !== null)
          responses.ended(context);
      };
      const isChecked = !(unasked.isDecided || args.document === undefined);
      if (trace === undefined && !isChecked && responses === undefined) return undefined;
      return {
        async onExecuteDone(executed) {
          ended(executed.result);
          if (!isServed) checkAsked(args, executed.result);
          if (context != null) await addTrace(executed, context, trace);
        },
      };
    },
    onResultProcess({ request, result }) {
      if (edge?.isFor(request) === true) sentOf.set(request, result);
    },
    onResponse({ request, response: { headers } }) {
      parts.contextReads.flush();
      for (const [name, value] of Object.entries(headersOf.get(request) ?? {}))
        headers.set(name, appended(headers.get(name), value));
      const sent = sentOf.get(request);
      if (edge === undefined || sent === undefined) return undefined;
      return setEdgeHeaders(headers, atEdgeOf.get(request) ?? edge.unexecuted(), sent);
    },
    onDispose: () => parts.drain(),
  };
}

const edgeRequestOf = ({ method, headers }: Request, isTraced: boolean): EdgeRequest => ({
  method,
  header: (name) => headers.get(name),
  isTraced,
});

/** Adds the headers for CDNs to those of the response with a result. A cookie is for one caller. */
async function setEdgeHeaders(headers: Headers, atEdge: EdgeResponse, sent: unknown): Promise<void> {
  const age = isSingle(sent) && !headers.has("set-cookie") ? atEdge.ageOf(sent) : undefined;
  for (const [name, value] of Object.entries(await atEdge.headers(age)))
    if (name === "Vary") headers.set(name, appended(headers.get(name), value));
    else if (!headers.has(name)) headers.set(name, value);
}

/** Returns an execution as an operation of the response cache. Undefined if it has no context, or is one that Yoga does not describe. */
function operationOf({
  schema,
  document,
  contextValue,
  operationName,
  variableValues,
  ...others
}: Execution["args"]): Operation | undefined {
  if (schema === undefined || document === undefined || typeof contextValue !== "object" || contextValue === null)
    return undefined;
  if (!isOrdinary(others)) return undefined;
  return { schema, document, operationName, variables: variableValues, context: contextValue };
}
