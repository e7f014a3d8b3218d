import { types } from "node:util";
import { ignoreRejection } from "../base/deferred.js";
import { CachedError, checkOptionsObject, describeSetting } from "../base/errors.js";
import { copyOfInput } from "../keys/canonical.js";
import { MEANINGS, type PolicySettings } from "../policy/policy.js";
import type { ResultControl } from "../tier/request/result-control.js";
import { batchCall } from "./batch-call.js";
import type { LoaderMaking, LoaderParts } from "./context-requests.js";
import { identityOf, identityOfTarget } from "./identity.js";
import { defineLoader, functionsOf } from "./loader-factory.js";
import {
  aFunction,
  type CachedLoader,
  type CachedRead,
  COMMON_OPTIONS,
  type LoaderKind,
  placeOf,
} from "./loader-options.js";
import type { LoaderRule } from "./loader-rule.js";

/**
 * Creates a function with the shared tier in front of it: a loader whose ids are calls, each of which is loaded by itself.
 * Throws `CACHED_OPTION_INVALID`.
 */
export function createCachedFunction<Load extends LoadFunction>(
  options: FunctionOptions<Load>,
  parts: LoaderParts,
): CachedFunction<Parameters<Load>, Awaited<ReturnType<Load>>> {
  type Value = Awaited<ReturnType<Load>>;
  type Args = Parameters<Load>;
  checkOptionsObject(options, FUNCTION.caller);
  const { name, load, key, tags, context: contextOf, identify: ofCall } = options as unknown as Given<Value>;
  const { contextWatch, signals, requestStates } = parts;
  const ofContext = contextOf && (parts.identify as ((context: unknown) => unknown) | undefined);
  const identify: LoaderMaking<Call, Value, object | undefined>["identify"] = ofCall
    ? (_context, { args }) => contextWatch.asIdentity(() => ofCall(...args))
    : ofContext && ((context) => (context === undefined ? undefined : ofContext(context)));
  const sourceOf: LoaderMaking<Call, Value, object | undefined>["sourceOf"] = (context, _loader, { scope }) => {
    const watched = { coordinate: name, isPrivate: scope === "PRIVATE" };
    return async ({ id, cached }): Promise<Value> => {
      const call = batchCall(name, [cached], () => context && signals.of(name, requestStates.contextOf(context)));
      const own: FunctionCall = {
        get signal() {
          return call.signal;
        },
        get result() {
          return call.results[0] as ResultControl;
        },
      };
      return await contextWatch.run(watched, context, () => load.apply(own, id.args));
    };
  };
  const loaderOf = defineLoader<Call, Value, object | undefined>(options, parts, {
    options: {
      name,
      ...(options.type === undefined ? {} : { type: options.type }),
      kind: FUNCTION,
      functions: functionsOf({ context: contextOf, key, tags: typeof tags === "function" ? tags : undefined }),
      hasOwnKey: key !== undefined,
      cache: false,
      cacheKeyFn: (call) => call.keyParts(key),
      ...(tags === undefined ? {} : { tags: ({ args }) => (typeof tags === "function" ? tags(...args) : tags) }),
    },
    given: load,
    sourceOf,
    uncached: (context, loader, _caller, policy) => ({
      ...loader,
      load: (id) => {
        requestStates.observerOf(context)?.collector?.addUncached(name, policy.scope === "PRIVATE");
        return sourceOf(context, loader, policy)({ id, cached: undefined, enclosing: undefined });
      },
    }),
    isCalledAlone: true,
    identify,
    identifyPlace: ofCall && placeOf(name, FUNCTION),
    originOf: key && (({ given, context }) => given.filter((one) => one !== context)),
    inputOf: ({ args, context }) => ({
      args: args.map((one) => (one === context ? undefined : one)),
      contextAt: context === undefined ? [] : args.flatMap((one, nth) => (one === context ? [nth] : [])),
    }),
    idOf(named, context) {
      const { args, contextAt = [] } = (Array.isArray(named) ? { args: named } : named) as Partial<CallInput>;
      if (Array.isArray(args))
        return new Call(
          args.map((one: unknown, nth) => (contextAt.includes(nth) ? context : one)),
          contextOf,
        );
      throw new CachedError("CACHED_KEY_UNUSABLE", "expected an array of the arguments of a call", {
        coordinate: name,
      });
    },
  });
  const calling =
    <Result>(read: (loader: CachedLoader<Call, Value>, call: Call) => Result) =>
    (...args: Args): Result => {
      const call = new Call(args, contextOf);
      return read(loaderOf(call.context), call);
    };
  return Object.assign(
    calling((loader, call) => loader.load(call)),
    {
      read: calling((loader, call) => loader.read(call)),
      async clear(...args: Args): Promise<void> {
        const { keyOf, policy } = parts.loaders.get(name) as LoaderRule;
        const call = new Call(args, contextOf);
        const caller = identityOf(identify && (() => identify(call.context, call)), undefined);
        const target = policy.scope === "PRIVATE" ? { private: caller } : {};
        const identity = identityOfTarget(target, { coordinate: name, policy }, "function");
        await parts.invalidation.run({ keys: [keyOf(args, identity)], tags: [] }, "hard", { via: "cache.invalidate" });
      },
    },
  );
}

/** The same options with the types of no function in particular. */
type Given<Value> = FunctionOptions<(this: FunctionCall, ...args: unknown[]) => Value | Promise<Value>>;

/** One call of a function. Its arguments are copies, as a caller may go on to change what it has passed, but for the context and instances of classes. */
class Call {
  readonly given: readonly unknown[];
  readonly args: unknown[];
  readonly context: object | undefined = undefined;
  readonly #mistake: unknown;

  constructor(given: readonly unknown[], contextOf: Given<unknown>["context"]) {
    const used = withoutEnd(given);
    this.given = used;
    this.args = used;
    try {
      const context = contextIn(contextOf?.(...used));
      this.context = context;
      this.args = used.map((one) => (one === context ? one : copyOfInput(one)));
    } catch (error) {
      this.#mistake = error;
    }
  }

  /** Returns what the key is made of. Throws what `context` or `keyOf` has thrown. */
  keyParts(keyOf: Given<unknown>["key"]): unknown {
    if (this.#mistake !== undefined) throw this.#mistake;
    const { args, context } = this;
    if (keyOf !== undefined) return keyOf(...args);
    const parts = context === undefined ? args : withoutEnd(args.map((one) => (one === context ? undefined : one)));
    // The key of one plain value is remembered. One list is in another, so it is not the list of all arguments.
    return parts.length === 1 && typeof parts[0] !== "object" ? parts[0] : parts;
  }
}

/** A trailing undefined is as good as no argument, so that both spellings have one entry. */
const withoutEnd = (args: readonly unknown[]): unknown[] =>
  args.slice(0, args.findLastIndex((one) => one !== undefined) + 1);

function contextIn(context: unknown): object | undefined {
  if (context === undefined || context === null) return undefined;
  if (typeof context === "object" && !types.isPromise(context)) return context;
  ignoreRejection(context);
  throw new CachedError(
    "CACHED_KEY_UNUSABLE",
    `\`context\`: expected a function that returns the context object of the request or undefined, got ${describeSetting(context)}; return the object itself`,
  );
}

/** What a refresh job has of a call. */
interface CallInput {
  readonly args: readonly unknown[];
  readonly contextAt: readonly number[];
}

/** A function with the cache in front of it. */
export interface CachedFunction<Args extends readonly unknown[], Value> {
  /** Rejects with the error of `load`. */
  (...args: Args): Promise<Value>;
  /** Calls it, and says how the value was read. */
  read(...args: Args): Promise<CachedRead<Value>>;
  /** Invalidates the entry of these arguments, as `cache.invalidate` does. */
  clear(...args: Args): Promise<void>;
}

/** What belongs to one call of `load`, as its `this`. */
export interface FunctionCall {
  /** Aborts when nobody waits for the value any more. To be passed to the source. */
  readonly signal: AbortSignal;
  /** Controls how the result is cached. */
  readonly result: ResultControl;
}

/** Loads the value of one call, or a promise of it. */
export type LoadFunction = (this: FunctionCall, ...args: never) => unknown;

/** The options of `cache.wrap`: a name, a function, and policy settings in seconds. */
export interface FunctionOptions<Load extends LoadFunction> extends Omit<PolicySettings, "key" | "tags"> {
  /** Names the entries in all processes. Must be a GraphQL name that no loader has. */
  readonly name: string;
  /** Loads the value of one call. Written as a method, it has a `FunctionCall` as `this`. */
  readonly load: Load;
  /** Returns what the key is made of, plain data. Must tell apart all calls with different results. Default: all arguments but the context. */
  readonly key?: (...args: Parameters<Load>) => unknown;
  /** The tags of the values, or a function that returns those of one call. */
  readonly tags?: readonly string[] | ((...args: Parameters<Load>) => readonly string[]);
  /**
   * Returns the context of the request that a call belongs to: one of the arguments, or what an AsyncLocalStorage has. For the
   * identity, overrides, traces and aborts. Undefined: it belongs to none.
   */
  readonly context?: (...args: Parameters<Load>) => object | undefined;
  /** Returns the caller's identity for `scope: PRIVATE`. Default: that of the context. */
  readonly identify?: (...args: Parameters<Load>) => string | number | bigint | null | undefined;
  /** The GraphQL type of the values. See `LoaderOptions`. */
  readonly type?: string;
}

type OwnOption = "key" | "tags" | Exclude<keyof FunctionOptions<never>, keyof PolicySettings>;

const FUNCTION: LoaderKind = {
  caller: "cache.wrap",
  noun: "function",
  load: "load",
  key: "key",
  input: "argument",
  options: {
    ...COMMON_OPTIONS,
    load: aFunction,
    key: aFunction,
    tags: (value) =>
      typeof value === "function" ||
      (Array.isArray(value) && value.every((tag) => typeof tag === "string" && tag !== ""))
        ? undefined
        : "an array of non-empty strings, or a function that returns one",
    context: aFunction,
    identify: aFunction,
  } satisfies Readonly<Record<OwnOption, (value: unknown) => string | undefined>>,
  meanings: {
    ...MEANINGS,
    ...Object.fromEntries(
      ["fn", "func", "function", "fetch", "fetcher", "batch", "resolve", "getfreshvalue"].map((one) => [one, "`load`"]),
    ),
    ...Object.fromEntries(
      ["keyfn", "cachekey", "cachekeyfn", "keyof", "generatekey", "resolver", "args"].map((one) => [one, "`key`"]),
    ),
  },
  identifyMissing:
    "an identity; pass `identify: (...args) => userId`, or createCache({ identify }) and `context: (...args) => context`",
};
