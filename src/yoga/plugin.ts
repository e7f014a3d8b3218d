import { beginTrace, isTraceAsked, type TraceOptions, tracedExtensions } from "../inspection/trace.js";
import { type HasParts, PARTS } from "../parts.js";

/** What the plugin may be told. */
export interface CachedYogaOptions<Context> extends TraceOptions<Context> {}

/** One execution, as envelop tells its plugins of it. Yoga's context has the request's GraphQL parameters in `params`. */
interface Execution {
  readonly args: { readonly contextValue?: unknown };
}

interface Executed {
  readonly result: unknown;
  setResult(result: never): void;
}

/** What GraphQL Yoga and envelop call: a shape, so that neither needs to be installed. */
export interface CachedYogaPlugin {
  onExecute(execution: Execution): undefined | { onExecuteDone(executed: Executed): Promise<void> };
  onDispose(): Promise<void>;
}

/**
 * Adds to a schema that went through `applyCached` what GraphQL Yoga, or envelop, alone can give: `extensions.cached` says what each field
 * did, and a server that is disposed of waits for loads under way. The cache stays open: it belongs to whoever made it.
 */
export function useCached<Context>(cache: HasParts, options: CachedYogaOptions<Context> = {}): CachedYogaPlugin {
  return {
    onExecute({ args: { contextValue } }) {
      const context = contextValue as { readonly params?: { readonly extensions?: unknown } } | null | undefined;
      if (context == null || !isTraceAsked(context.params?.extensions)) return undefined;
      const trace = beginTrace(cache, context);
      return {
        async onExecuteDone({ result, setResult }) {
          if (!isSingle(result)) return;
          const extensions = await tracedExtensions(result.extensions, trace, options, context as Context);
          if (extensions !== undefined) setResult({ ...result, extensions } as never);
        },
      };
    },
    onDispose: () => cache[PARTS].drain(),
  };
}

/** A response in parts (@defer) is an iterator, and gets no trace. */
const isSingle = (result: unknown): result is { readonly extensions?: Record<string, unknown> } =>
  typeof result === "object" && result !== null && !(Symbol.asyncIterator in result);
