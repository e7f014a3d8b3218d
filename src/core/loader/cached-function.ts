import { types } from "node:util";
import { ignoreRejection } from "../base/deferred.js";
import { checkOptionsObject, describeSetting, keyUnusable } from "../base/errors.js";
import { copyOfInput } from "../keys/canonical.js";
import type { PolicySettings } from "../policy/policy.js";
import type { ResultControl } from "../tier/request/result-control.js";
import { OwnCall } from "./batch-call.js";
import type { LoaderParts } from "./context-loader.js";
import type { Identity } from "./identity.js";
import { defineLoader } from "./loader-factory.js";
import {
  aFunction,
  type CachedLoader,
  type CachedRead,
  COMMON_OPTIONS,
  type LoaderKind,
  placeOf,
} from "./loader-options.js";
import { namesOfEntry } from "./loader-target.js";

/** Creates a loader whose ids are calls, each loaded by itself. Throws `CACHED_OPTION_INVALID`. */
export function createCachedFunction<Load extends LoadFunction>(
  options: FunctionOptions<Load>,
  parts: LoaderParts,
): CachedFunction<Parameters<Load>, Awaited<ReturnType<Load>>> {
  type Value = Awaited<ReturnType<Load>>;
  type Args = Parameters<Load>;
  checkOptionsObject(options, FUNCTION.caller);
  const given = options as unknown as Given<Value>;
  const { name, type, load, tags, context: contextOf, identify: ofCall } = given;
  const { contextWatch, tier } = parts;
  const ofContext = contextOf && (parts.identify as ((context: unknown) => unknown) | undefined);
  const { loaderOf, rule, callerOf } = defineLoader<Call, Value, object | undefined>(options, parts, {
    options: {
      name,
      ...(type === undefined ? {} : { type }),
      kind: FUNCTION,
      cache: false,
      cacheKeyFn: (call) => call.keyParts(),
      ...(tags === undefined ? {} : { tags: ({ args }) => (typeof tags === "function" ? tags(...args) : tags) }),
    },
    sourceOf(context, _loader, { scope, maxAgeMs }) {
      const watched = { coordinate: name, isPrivate: scope === "PRIVATE" };
      return async ({ id, cached }): Promise<Value> => {
        const run = () => load.apply(new OwnCall(name, [cached], parts, context), id.args);
        const runWatched = () => (maxAgeMs === 0 ? run() : contextWatch.run(watched, context, run));
        return await (cached === undefined ? tier.loads.bypass(runWatched, context) : runWatched());
      };
    },
    identify: ofCall
      ? (_context, { args }) => contextWatch.asIdentity(() => ofCall(...args))
      : ofContext && ((context) => (context === undefined ? undefined : ofContext(context))),
    identifyPlace: ofCall && placeOf(name, FUNCTION),
    originOf: ({ given, context }) => given.filter((one) => one !== context),
    // An empty list stands for the context.
    inputOf: ({ args, context }) => args.map((one) => (one !== undefined && one === context ? [] : [one])),
    idOf(named, worker) {
      if (!Array.isArray(named)) throw keyUnusable("expected an array of the arguments of a call as `id`");
      const boxed = worker && (named as unknown[][]).map((one) => (one.length === 0 ? worker.context : one[0]));
      return new Call(boxed ?? named, given, worker === undefined);
    },
  });
  const calling =
    <Result>(read: (call: Call, loader: CachedLoader<Call, Value>) => Result) =>
    (...args: Args): Result => {
      const call = new Call(args, given);
      return read(call, loaderOf(call.context));
    };
  const identityIn = (call: Call): Identity => {
    const identity = callerOf(call, call.context);
    if (identity !== undefined) return identity;
    throw keyUnusable(
      `function \`${name}\`: \`clear\`: expected the arguments of a caller that has an identity, since the function is PRIVATE, got those of one that has none; pass what \`identify\` or \`context\` reads, or call cache.invalidate({ function, args, private })`,
      { coordinate: name },
    );
  };
  const clear = async (...args: Args): Promise<void> => {
    const call = new Call(args, given, true);
    const owner = rule.policy.scope === "PRIVATE" ? { private: identityIn(call) } : {};
    const names = namesOfEntry(rule, { id: args, ...owner }, parts.logger);
    await parts.invalidation.run(names, "hard", { via: "cache.invalidate" });
  };
  const called = calling((call, loader) => loader.load(call));
  return Object.assign(called, { read: calling((call, loader) => loader.read(call)), clear });
}

type Given<Value> = FunctionOptions<(this: FunctionCall, ...args: unknown[]) => Value | Promise<Value>>;

/** One call. Its arguments are copies, as the caller may change them, unless there is a `key`. */
class Call {
  readonly args: unknown[];
  readonly context: object | undefined;
  /** Returns what the key is made of. Throws what `context` or `key` has thrown. */
  readonly keyParts: () => unknown;

  /** `isNamed`: it is not made, and may have no context: a job that invalidates has no request. */
  constructor(
    readonly given: readonly unknown[],
    { context: contextOf, key }: Given<unknown>,
    isNamed = false,
  ) {
    this.args = withoutEnd(given);
    let context: object | undefined;
    try {
      try {
        context = contextIn(contextOf?.(...this.args));
      } catch (error) {
        if (!isNamed) throw error;
      }
      if (key === undefined) this.args = this.args.map((one) => (one === context ? one : copyOfInput(one)));
      this.keyParts = () => (key === undefined ? this.#parts() : key(...this.args));
    } catch (error) {
      this.keyParts = () => {
        throw error;
      };
    }
    this.context = context;
  }

  #parts(): unknown {
    const { args, context } = this;
    const parts = context === undefined ? args : withoutEnd(args.map((one) => (one === context ? undefined : one)));
    // The key of one plain value is remembered. One list stays in the list of all arguments.
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
  throw keyUnusable(
    `\`context\`: expected a function that returns the context object of the request or undefined, got ${describeSetting(context)}; return the object itself`,
  );
}

/** A function with the cache in front of it. */
export interface CachedFunction<Args extends readonly unknown[], Value> {
  /** Rejects with the error of `load`. */
  (...args: Args): Promise<Value>;
  /** Calls it, and says how the value was read. */
  read(...args: Args): Promise<CachedRead<Value>>;
  /** Invalidates the entry of these arguments, and rejects, as `cache.invalidate` does. */
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
  /** The name of the entries, and of no loader: letters, digits and any of `_`, `:` and `-`. */
  readonly name: string;
  /** Loads the value of one call. Written as a method, it has a `FunctionCall` as `this`. */
  readonly load: Load;
  /**
   * Returns what the key is made of, plain data. Must tell apart all calls with different results.
   * Default: all arguments but the context.
   */
  readonly key?: (...args: Parameters<Load>) => unknown;
  /** The tags of the values, or a function that returns those of one call. */
  readonly tags?: readonly string[] | ((...args: Parameters<Load>) => readonly string[]);
  /**
   * Returns the context of the request that a call belongs to, for identity, override, traces and
   * aborts. Default: it belongs to none.
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
    tags(value) {
      const isList = Array.isArray(value) && value.every((tag) => typeof tag === "string" && tag !== "");
      return isList ? undefined : aFunction(value) && "an array of non-empty strings, or a function that returns one";
    },
    context: aFunction,
    identify: aFunction,
  } satisfies Readonly<Record<OwnOption, (value: unknown) => string | undefined>>,
  identifyMissing:
    "an identity; pass `identify: (...args) => userId`, or createCache({ identify }) and `context: (...args) => context`",
};
