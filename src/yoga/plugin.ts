import type { GraphQLSchema } from "graphql";
import type { Cache } from "../cache.js";
import { assertApplied } from "../directive/wrap-fields.js";
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

/** One execution, as envelop describes it to plugins. Yoga's context has the request's GraphQL parameters in `params`. */
interface Execution {
  readonly args: { readonly contextValue?: unknown };
}

interface Executed {
  readonly result: unknown;
  setResult(result: never): void;
}

/** The hooks that GraphQL Yoga and envelop call, as a structural type: neither needs to be installed. */
export interface CachedYogaPlugin {
  onSchemaChange(change: { readonly schema: GraphQLSchema }): void;
  onExecute(execution: Execution): undefined | { onExecuteDone(executed: Executed): Promise<void> };
  onDispose(): Promise<void>;
}

/**
 * The plugin for GraphQL Yoga and envelop. `extensions.cached` reports what each cached field did,
 * and a server that is disposed of waits for loads under way. The cache itself stays open.
 *
 * Throws `CACHED_OPTION_INVALID` if `cache` is not a cache, and `CACHED_SCHEMA_INVALID` for a
 * schema that uses `@cached` but was not passed through `applyCached`.
 */
export function useCached<Context>(cache: Cache<Context>, options: CachedYogaOptions<Context> = {}): CachedYogaPlugin {
  const parts = partsOf(cache, "useCached");
  checkTraceOptions(options, "useCached");
  return {
    onSchemaChange({ schema }) {
      assertApplied(schema, parts, "useCached");
    },
    onExecute({ args: { contextValue } }) {
      const context = contextValue as { readonly params?: { readonly extensions?: unknown } } | null | undefined;
      const requested = requestedTrace(context?.params?.extensions);
      if (context == null || requested === undefined) return undefined;
      const trace = requested === true ? beginTrace(parts, context) : mistakeInTrace(requested, []);
      return {
        async onExecuteDone({ result, setResult }) {
          if (!isSingle(result)) return;
          const extensions = await tracedExtensions(result.extensions, trace, options, context as Context);
          if (extensions !== undefined) setResult({ ...result, extensions } as never);
        },
      };
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
