import { ignoreRejection } from "../base/deferred.js";
import { describeSetting, optionInvalid } from "../base/errors.js";
import { abortSignalOf } from "../base/graphql-version.js";
import type { Channel } from "../telemetry/channel.js";
import type { CallSignals } from "../tier/request/waiters.js";
import type { ContextWatch } from "./context-watch.js";

/** Finds a request's signals: `abortSignal`, `context.request.signal`, `info.getAbortSignal()`. */
export class RequestSignals {
  constructor(
    private readonly abortSignal: ((context: never) => unknown) | undefined,
    private readonly channel: Channel,
    private readonly contextWatch: ContextWatch,
  ) {}

  /** `info`: that of the resolver, if any. */
  of(coordinate: string, context: unknown, info?: unknown): CallSignals | undefined {
    if (context === undefined && info === undefined) return undefined;
    // A load that encloses this read does not use what is read from the context here.
    return this.contextWatch.pause(() => {
      const request = this.abortSignal === undefined ? [] : this.#given(coordinate, context);
      let execution: unknown;
      try {
        execution = abortSignalOf(info);
        const { signal } = (context as { request?: { signal?: unknown } } | null | undefined)?.request ?? {};
        if (isAbortSignal(signal)) request.push(signal);
      } catch {
        // Contexts may have getters that throw, which is no business of the cache.
      }
      if (isAbortSignal(execution)) return { request, execution };
      return request.length === 0 ? undefined : { request, execution: undefined };
    });
  }

  #given(coordinate: string, context: unknown): AbortSignal[] {
    let problem: string;
    let cause: unknown;
    try {
      const signal = this.abortSignal?.(context as never);
      if (signal === undefined || signal === null) return [];
      if (isAbortSignal(signal)) return [signal];
      ignoreRejection(signal);
      problem = `got ${describeSetting(signal)}; return the signal of an AbortController`;
    } catch (error) {
      problem = "it threw an exception, the cause of this error";
      cause = error;
    }
    const error = optionInvalid(
      `createCache: \`loads.abortSignal\`: expected an AbortSignal or undefined, ${problem}; until then the aborts of requests for \`${coordinate}\` may not be noticed`,
      { coordinate, ...(cause === undefined ? {} : { cause }) },
    );
    this.channel.publish({ name: "signal.refused", coordinate, digest: "", error });
    return [];
  }
}

/** Servers use signals of their own classes, so `instanceof` would not do. */
function isAbortSignal(value: unknown): value is AbortSignal {
  if (typeof value !== "object" || value === null) return false;
  const { aborted, addEventListener } = value as Partial<AbortSignal>;
  return typeof aborted === "boolean" && typeof addEventListener === "function";
}
