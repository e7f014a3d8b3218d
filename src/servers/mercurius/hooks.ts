import type { DocumentNode, GraphQLSchema } from "graphql";
import type { Cache } from "../../cache.js";
import { attempt } from "../../core/base/built-in.js";
import { describeSetting, optionInvalid } from "../../core/base/errors.js";
import { StateOf } from "../../core/base/state-of.js";
import { type CacheParts, partsOf } from "../../core/parts.js";
import { requestedTrace, type TraceOptions, tracedExtensions } from "../../tools/inspection/trace.js";
import { addEdgeHeaders, openAdapter, type RequestedTrace, traceOf } from "../adapter/adapter.js";
import type { Edge, EdgeResponse } from "../edge/edge.js";
import { decideWhenSent, isForEdge, type ResponseHeaders } from "../edge/final-headers.js";
import type { EdgeOptions } from "../edge/options.js";
import { refuseLoaders } from "./loader-check.js";

/**
 * The hooks for Mercurius; call it after Mercurius is registered. `extensions.cached` reports what
 * each cached field did, and an application that is closed waits for loads and mutations under way.
 * The cache itself stays open.
 *
 * Throws `CACHED_OPTION_INVALID` for an invalid argument, and `CACHED_SCHEMA_INVALID` for a schema
 * that uses `@cached` but was not passed through `applyCached`, and for `loaders` of cached fields.
 */
export function cachedHooks<Context>(
  app: MercuriusApp,
  cache: Cache<Context>,
  options: CachedHooksOptions<Context> = {},
): void {
  partsOf(cache, "cachedHooks");
  if ((options as { readonly responses?: unknown } | null)?.responses !== undefined)
    throw optionInvalid(
      "cachedHooks: `responses`: Mercurius has no hook that can answer an operation before it is executed; cache fields with @cached, or use Apollo Server, GraphQL Yoga or cache.execute for whole responses",
    );
  const { parts, edge, check, join } = openAdapter(cache, options, "cachedHooks", ["edge"], true);
  const hooks = (app as Partial<MercuriusApp> | undefined)?.graphql as GraphQLHooks | undefined;
  if (typeof hooks?.addHook !== "function")
    throw optionInvalid(
      `cachedHooks: expected a Fastify application on which Mercurius is registered, got ${describeSetting(app)}; call it after \`await app.register(mercurius, …)\``,
    );
  join(hooks);
  if (edge !== undefined) addEdgeHooks(app, hooks, edge);
  const checkSchema = (): void => {
    if (hooks.schema !== undefined) check(hooks.schema);
  };
  checkSchema();
  refuseLoaders(app, hooks, parts);
  checkAfter(hooks, ["defineResolvers", "replaceSchema", "transformSchema"], checkSchema);
  if (options.allow !== undefined) addTraceHooks(hooks, parts, options);
  app.addHook("onClose", () => parts.drain());
}

/** Options of `cachedHooks`. */
export interface CachedHooksOptions<Context> extends TraceOptions<Context> {
  /** Refused: Mercurius has no hook that can answer an operation before it is executed. */
  readonly responses?: never;
  /**
   * Lets CDNs keep the responses to GET requests, for as long and for whom `@cacheControl`,
   * `@cached` and what was read say, and names what is in them in the headers `Cache-Tag` and
   * `Surrogate-Key`. It purges nothing: a listener of `invalidation.finished` does, with the `tags`
   * of the event. Default: false.
   */
  readonly edge?: boolean | EdgeOptions | undefined;
}

interface Result {
  readonly data?: unknown;
  readonly errors?: readonly unknown[] | undefined;
  extensions?: Record<string, unknown>;
}

/** The methods that are used of a Fastify application with Mercurius. Neither is needed. */
export interface MercuriusApp {
  /** `never`: three of its many overloads are used, and no narrower type accepts them all. */
  readonly graphql: { addHook(name: never, hook: never): void };
  addHook(name: "onClose", hook: () => Promise<void>): unknown;
  addHook(
    name: "preSerialization",
    hook: (request: object, reply: MercuriusReply, payload: unknown) => Promise<void>,
  ): unknown;
  addHook(name: "onSend", hook: (request: object, reply: MercuriusReply) => Promise<void>): unknown;
}

interface MercuriusReply {
  readonly request?: {
    readonly body?: unknown;
    readonly query?: unknown;
    readonly method?: string;
    readonly headers?: Readonly<Record<string, unknown>>;
  };
  header?(name: string, value: string): unknown;
  getHeader?(name: string): unknown;
  removeHeader?(name: string): unknown;
}

interface GraphQLHooks {
  readonly schema?: GraphQLSchema;
  defineLoaders?(loaders: Readonly<Record<string, object>>): void;
  addHook(
    name: "preParsing",
    hook: (schema: GraphQLSchema, source: string, context: OperationContext) => Promise<void>,
  ): void;
  addHook(
    name: "preExecution",
    hook: (schema: GraphQLSchema, document: DocumentNode, context: OperationContext) => Promise<void>,
  ): void;
  addHook(name: "onResolution", hook: (execution: Result, context: OperationContext) => Promise<void>): void;
}

/** `operationId`: the index of the operation in the body of an HTTP batch. */
interface OperationContext {
  readonly reply?: MercuriusReply;
  readonly operationId?: number;
}

/** Fastify has headers by their names in lower case. */
const headersOf = (reply: MercuriusReply | undefined): ResponseHeaders => ({
  get: (name) => reply?.getHeader?.(name),
  set: (name, value) => reply?.header?.(name, value),
  delete: (name) => reply?.removeHeader?.(name),
});

function addTraceHooks<Context>(hooks: GraphQLHooks, parts: CacheParts, options: TraceOptions<Context>): void {
  const traces = new WeakMap<object, RequestedTrace>();
  hooks.addHook("preExecution", async (_schema, _document, context) => {
    const trace = traceOf(parts, context, requestedTrace(requestedExtensions(context)));
    if (trace !== undefined) traces.set(context, trace);
  });
  hooks.addHook("onResolution", async (execution, context) => {
    const trace = traces.get(context);
    if (trace === undefined) return;
    const extensions = await tracedExtensions(execution.extensions, trace, options, context as Context);
    if (extensions !== undefined) execution.extensions = extensions;
  });
}

/** Only responses to GET requests, which are no batches, get headers for CDNs. */
function addEdgeHooks(app: MercuriusApp, hooks: GraphQLHooks, edge: Edge): void {
  /**
   * By request. `asked`: the context of its only operation, until that is executed. `stop` ends the
   * collection of parts. Without a result, it was not executed. `isSent`: a route can send anything
   * else in its place.
   */
  type Answer = {
    readonly asked?: OperationContext | undefined;
    readonly atEdge?: EdgeResponse;
    readonly stop?: () => void;
    result?: Result;
    isSent?: boolean;
  };
  const answers = new StateOf<Answer>();
  const executed = new StateOf<Answer>();
  hooks.addHook("preParsing", async (_schema, _source, context) => {
    const { request } = context.reply ?? {};
    if (request === undefined) return;
    const asked = answers.get(request) === undefined ? context : undefined;
    answers.set(request, { asked, ...(isForEdge({ method: request.method ?? "" }) && { atEdge: edge.unexecuted() }) });
  });
  hooks.addHook("preExecution", async (schema, document, context) => {
    const { request } = context.reply ?? {};
    const { method = "", headers = {} } = request ?? {};
    const header = (name: string) => headers[name.toLowerCase()] as string | undefined;
    const isTraced = requestedTrace(requestedExtensions(context)) !== undefined;
    const atEdge = await edge.begin(context, { method, header, isTraced });
    if (request === undefined || atEdge === undefined) return;
    const operation = { schema, document, operationName: requestedOperation(context), context };
    const answer = { atEdge, stop: atEdge.execute(operation, undefined, undefined, KEYS_OF_MERCURIUS) };
    const before = answers.get(request);
    // What a route makes of several operations is the answer to none of them.
    const isOnly = before === undefined || before.asked === context;
    answers.set(request, isOnly ? answer : { atEdge: edge.unexecuted() });
    executed.set(context, answer);
  });
  hooks.addHook("onResolution", async (execution, context) => {
    const answer = executed.get(context);
    answer?.stop?.();
    answer?.atEdge?.executed(execution);
    if (answer !== undefined) answer.result = execution;
  });
  app.addHook("preSerialization", async (request, _reply, payload) => {
    const answer = answers.get(request);
    if (answer !== undefined) answer.isSent = payload === answer.result;
  });
  app.addHook("onSend", async (request, reply) => {
    const answer = answers.get(request);
    answer?.stop?.();
    const sent = answer?.isSent === true ? answer.result : undefined;
    if (answer?.atEdge !== undefined) await addEdgeHeaders(headersOf(reply), answer.atEdge, sent);
    if (answer === undefined) return;
    const { method = "", headers = {} } = reply.request ?? {};
    decideWhenSent({ reply }, { method, accept: headers.accept as string | undefined });
  });
}

/** What Mercurius reads of a context when it has executed an operation. */
const KEYS_OF_MERCURIUS = ["errors", "onResolution"];

function checkAfter(hooks: GraphQLHooks, names: readonly string[], check: () => void): void {
  const methods = hooks as unknown as Record<string, ((...args: unknown[]) => unknown) | undefined>;
  for (const name of names) {
    const change = methods[name];
    if (typeof change !== "function") continue;
    methods[name] = (...args) => {
      const result = change.apply(hooks, args);
      check();
      return result;
    };
  }
}

/** Mercurius passes hooks no `extensions` and `operationName`: they are in the body or query. */
function requestOf({ reply, operationId }: OperationContext): { extensions?: unknown; operationName?: unknown } | null {
  const { body, query } = reply?.request ?? {};
  return (Array.isArray(body) ? body[operationId ?? 0] : (body ?? query)) as object | null;
}

function requestedOperation(context: OperationContext): string | undefined {
  const name = requestOf(context)?.operationName;
  return typeof name === "string" ? name : undefined;
}

/** Returns the extensions of a request. Those in a query string are JSON. */
function requestedExtensions(context: OperationContext): unknown {
  const extensions = requestOf(context)?.extensions;
  return typeof extensions === "string" ? attempt(() => JSON.parse(extensions) as unknown) : extensions;
}
