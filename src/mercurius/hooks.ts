import { beginTrace, isTraceAsked, type Trace, type TraceOptions, tracedExtensions } from "../inspection/trace.js";
import { type HasParts, PARTS } from "../parts.js";

/** What the hooks may be told. */
export interface CachedHooksOptions<Context> extends TraceOptions<Context> {}

interface Result {
  extensions?: Record<string, unknown>;
}

/** The few methods of a Fastify application with Mercurius that are needed: a shape, so that neither needs to be installed. */
export interface MercuriusApp {
  /** Its overloads, of which two are used, fit no shape but this one. */
  readonly graphql: { addHook(name: never, hook: never): void };
  addHook(name: "onClose", hook: () => Promise<void>): unknown;
}

interface GraphQLHooks {
  addHook(
    name: "preExecution",
    hook: (schema: unknown, document: unknown, context: OperationContext) => Promise<void>,
  ): void;
  addHook(name: "onResolution", hook: (execution: Result, context: OperationContext) => Promise<void>): void;
}

/** Mercurius' context of one operation. In an HTTP batch, `operationId` is the operation's place in the request's body. */
interface OperationContext {
  readonly reply?: { readonly request?: { readonly body?: unknown; readonly query?: unknown } };
  readonly operationId?: number;
}

/**
 * Adds to a schema that went through `applyCached` what Mercurius alone can give: `extensions.cached` says what each field did, and an
 * application that is closed waits for loads under way. The cache stays open: it belongs to whoever made it. Call it once Mercurius is registered.
 */
export function cachedHooks<Context>(
  app: MercuriusApp,
  cache: HasParts,
  options: CachedHooksOptions<Context> = {},
): void {
  const traces = new WeakMap<object, Trace>();
  if (options.allow !== undefined) {
    const hooks = app.graphql as unknown as GraphQLHooks;
    hooks.addHook("preExecution", async (_schema, _document, context) => {
      if (isTraceAsked(requestedExtensions(context))) traces.set(context, beginTrace(cache, context));
    });
    hooks.addHook("onResolution", async (execution, context) => {
      const trace = traces.get(context);
      if (trace === undefined) return;
      const extensions = await tracedExtensions(execution.extensions, trace, options, context as Context);
      if (extensions !== undefined) execution.extensions = extensions;
    });
  }
  app.addHook("onClose", () => cache[PARTS].drain());
}

/** Mercurius gives its hooks no `extensions`; they are where the client has put them: in the body, or as JSON in the address. */
function requestedExtensions({ reply, operationId }: OperationContext): unknown {
  const { body, query } = reply?.request ?? {};
  const operation = (Array.isArray(body) ? body[operationId ?? 0] : (body ?? query)) as { extensions?: unknown } | null;
  const extensions = operation?.extensions;
  if (typeof extensions !== "string") return extensions;
  try {
    return JSON.parse(extensions);
  } catch {
    return undefined;
  }
}
