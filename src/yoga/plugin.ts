import type { GraphQLSchema } from "graphql";
import type { Cache } from "../cache.js";
import { checkServed } from "../directive/served-schema.js";
import { type ExecutedOperation, UnaskedFields } from "../directive/unasked-fields.js";
import { appended } from "../inspection/response-headers.js";
import {
  beginTrace,
  checkTraceOptions,
  mistakeInTrace,
  requestedTrace,
  type TraceOptions,
  tracedExtensions,
} from "../inspection/trace.js";
import { partsOf } from "../parts.js";

/** Options of `useCached`. */
export interface CachedYogaOptions<Context> extends TraceOptions<Context> {}

/** The part of Yoga's context that is used. */
interface YogaContext {
  readonly params?: { readonly extensions?: unknown };
  readonly request?: object;
}

/** One execution, as envelop describes it to plugins. Yoga's context has the request's GraphQL parameters in `params`. */
interface Execution {
  readonly args: { readonly contextValue?: unknown } & Partial<ExecutedOperation>;
}

interface Executed {
  readonly result: unknown;
  setResult(result: never): void;
}

/** The hooks that GraphQL Yoga and envelop call, as a structural type: neither needs to be installed. */
export interface CachedYogaPlugin {
  onSchemaChange(change: { readonly schema: GraphQLSchema }): void;
  onExecute(execution: Execution): undefined | { onExecuteDone(executed: Executed): Promise<void> };
  /** Yoga only: envelop has no HTTP response. */
  onResponse(http: { readonly request: object; readonly response: { readonly headers: Headers } }): void;
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
  checkTraceOptions(options, "useCached");
  parts.contextReads.collectByRequest();
  const unasked = new UnaskedFields(parts, "useCached");
  /** The headers of responses that are not sent yet, by request. A batch has one response, which gets none. */
  const headersOf = new WeakMap<object, Readonly<Record<string, string>>>();
  const checkAsked = (args: Execution["args"], result: unknown): void => {
    if (!unasked.isDecided && isSingle(result) && args.schema !== undefined && args.document !== undefined)
      unasked.check(args as ExecutedOperation, (result as { readonly data?: unknown }).data);
  };
  return {
    onSchemaChange({ schema }) {
      checkServed(schema, parts, "useCached");
    },
    onExecute({ args }) {
      const context = args.contextValue as YogaContext | null | undefined;
      const requested = requestedTrace(context?.params?.extensions);
      if (context == null || requested === undefined)
        return unasked.isDecided || args.document === undefined
          ? undefined
          : { onExecuteDone: async ({ result }) => checkAsked(args, result) };
      const trace = requested === true ? beginTrace(parts, context) : undefined;
      return {
        async onExecuteDone({ result, setResult }) {
          if (!isSingle(result)) return;
          checkAsked(args, result);
          const added = trace ?? mistakeInTrace(requested, []);
          const extensions = await tracedExtensions(result.extensions, added, options, context as Context);
          if (extensions === undefined) return;
          setResult({ ...result, extensions } as never);
          const { request } = context;
          if (trace === undefined || request === undefined) return;
          headersOf.set(request, headersOf.has(request) ? {} : trace.headers());
        },
      };
    },
    onResponse({ request, response: { headers } }) {
      parts.contextReads.flush();
      for (const [name, value] of Object.entries(headersOf.get(request) ?? {}))
        headers.set(name, appended(headers.get(name), value));
    },
    onDispose: () => parts.drain(),
  };
}

/**
 * A response in several parts (@defer, @stream) is an async iterator, or an object with its first part in
 * the form of graphql 17; it gets no trace.
 */
const isSingle = (result: unknown): result is { readonly extensions?: Record<string, unknown> } =>
  typeof result === "object" && result !== null && !(Symbol.asyncIterator in result) && !("initialResult" in result);
