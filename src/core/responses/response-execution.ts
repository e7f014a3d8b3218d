import type { DocumentNode, GraphQLSchema } from "graphql";
import { Deferred } from "../base/deferred.js";
import type { StoredText } from "../codec/packing.js";
import type { Subject } from "../keys/key.js";
import { isNegative } from "../tier/request/loaded.js";
import { LoadControl, type ResultControl } from "../tier/request/result-control.js";
import type { CollectedParts } from "./collected-parts.js";
import type { ResolvedResponses, ResponsesOptions } from "./options.js";
import { resultOf, StoredResponse, type StoredResult } from "./stored-response.js";

/**
 * Returns an execution of an operation that is not expected to be cacheable. `learn`: is told the
 * age that it turns out to have.
 */
export const unstoredExecution = (
  isPrivate: boolean,
  learn: (age: ResponseAge | undefined) => void,
): ResponseExecution => ({
  ...unrecordedExecution(isPrivate),
  async end({ errors, data }, age, obstacle) {
    if (errors === undefined && data != null) learn(obstacle === undefined ? age : undefined);
    return undefined;
  },
});

/** An operation that a server is about to execute. Its document is valid. */
export interface Operation {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operationName: string | null | undefined;
  /** As the client has sent them. */
  readonly variables: Readonly<Record<string, unknown>> | null | undefined;
  readonly context: object;
  /**
   * Executes it once more, when its caller has an answer. Undefined: the server does not allow
   * that.
   */
  readonly execute?: () => unknown;
  /** In the place of the option. */
  readonly tags?: ResponsesOptions["tags"];
}

/** Whether a response says that something is missing: no data of a root field, or an empty list. */
const hasNegativeRoot = ({ data }: ExecutedResponse): boolean => Object.values(data as object).some(isNegative);

export interface ExecutedResponse {
  readonly data?: unknown;
  readonly errors?: readonly unknown[] | undefined;
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * How long and for whom a response may be kept by the rules of the server. Undefined: not at all.
 */
export interface ResponseAge {
  /** Seconds. */
  readonly maxAge: number;
  readonly isPrivate: boolean;
}

/** Executes an operation without the cache, and learns from it. */
export interface ResponseExecution {
  readonly isPrivate: boolean;
  /** Collects what the response is made of. Undefined: nothing does. */
  readonly parts?: CollectedParts;
  /** The paths into the context in its key. */
  readonly contextPaths?: readonly string[];
  /** Runs it. */
  run<T>(execute: () => T): T;
  /**
   * Notes that all resolvers have returned: what is read of the context from now on is no part of
   * the response.
   */
  executed?(): void;
  /**
   * Ends the execution. `age`: what the rules of the server say. `obstacle`: why the response must
   * not be stored whatever they say. Resolves to the response to send in its place, if it has
   * errors and an older one may be served.
   */
  end(response: ExecutedResponse, age: ResponseAge | undefined, obstacle?: string): Promise<StoredResponse | undefined>;
  abandon(): void;
}

/**
 * Takes the place of a response that is not stored: those who have waited for it execute the
 * operation themselves.
 */
const NOT_STORED = { notStored: true };

const hasFailed = ({ data, errors = [] }: ExecutedResponse): boolean => errors.length > 0 || data == null;

/** Returns what is stored of a response. Throws if it is not JSON. */
function storedOf({ data, extensions = {} }: ExecutedResponse, names: readonly string[]): StoredText {
  const kept = Object.entries(extensions).filter(([name]) => names.includes(name));
  return StoredResponse.write(data, kept.length > 0 ? Object.fromEntries(kept) : undefined);
}

/** An execution of which the cache learns nothing. */
export const unrecordedExecution = (isPrivate: boolean): ResponseExecution => ({
  isPrivate,
  run: (execute) => execute(),
  end: async () => undefined,
  abandon: () => undefined,
});

/** What the execution of a load knows of its response, and what happens when it has ended. */
export interface ExecutionLoad {
  readonly parts: CollectedParts;
  readonly control: ResultControl;
  readonly isPrivate: boolean;
  run<T>(execute: () => T): T;
  readonly startedAt: number;
  readonly options: ResolvedResponses;
  readonly negativeMaxAgeMs: number;
  /**
   * Returns the tags of the response besides those of its parts. Undefined: they are not known, so
   * that it is not stored.
   */
  readonly tags: () => readonly string[] | undefined;
  readonly expectsReads: boolean;
  readonly contextPaths: readonly string[];
  /**
   * Ends the watch of the context, and returns the properties that were read and that not all
   * callers share.
   */
  contextReads(): readonly string[];
  ended(): void;
  /** Called if the response is not stored for a reason that will last. */
  unstorable(isPrivate: boolean): void;
  /** Called with when it can be served for the last time, on the clock of this process. */
  stored(untilAt: number): void;
  /** Returns the response that is served in place of an execution that has failed. */
  older(): Promise<StoredResponse | undefined>;
}

/**
 * Returns an execution that is the load of a response, which others wait for, and what the load
 * returns.
 */
export function leasedExecution(load: ExecutionLoad): {
  readonly execution: ResponseExecution;
  readonly loaded: Promise<unknown>;
} {
  const { parts, control, isPrivate, contextPaths, options } = load;
  const loaded = new Deferred<unknown>();
  let hasEnded = false;
  const begin = (): boolean => {
    if (hasEnded) return false;
    hasEnded = true;
    load.contextReads();
    load.ended();
    return true;
  };
  const execution: ResponseExecution = {
    isPrivate,
    parts,
    contextPaths,
    run: load.run,
    executed: () => void load.contextReads(),
    async end(response, age, obstacle) {
      if (!begin()) return undefined;
      if (load.expectsReads && !parts.hasReads)
        parts.pass("none of its cached fields was read, so that another cache may have answered");
      const [error] = response.errors ?? [];
      const mayBeStale = Math.max(options.staleWhileRevalidateMs, options.staleIfErrorMs) > 0;
      if (error !== undefined && mayBeStale) {
        // The tier decides whether an error says that the source is in trouble, and whether there
        // is an older response.
        loaded.reject((error as { readonly originalError?: unknown }).originalError ?? error);
        return load.older();
      }
      let stored: unknown = NOT_STORED;
      try {
        stored = storedBy(load, response, age, obstacle);
      } catch {
        // Its data is not JSON.
        load.unstorable(false);
        control.skip();
      }
      loaded.resolve(stored);
      return undefined;
    },
    abandon() {
      if (!begin()) return;
      control.skip();
      loaded.resolve(NOT_STORED);
    },
  };
  return { execution, loaded: loaded.promise };
}

/** Runs the execution of a response, and ends it, however that ends. */
export async function endWith<Result extends object>(
  execution: ResponseExecution,
  run: () => Result | PromiseLike<Result>,
  ageOf: () => ResponseAge | undefined,
): Promise<Result | StoredResult> {
  let result: Result | undefined;
  try {
    result = await execution.run(run);
  } finally {
    if (!isSingle(result)) execution.abandon();
  }
  if (!isSingle(result)) return result;
  const older = await execution.end(result, ageOf());
  return older === undefined ? result : resultOf(older, older.data);
}

/**
 * A response in several parts (@defer, @stream) is an async iterator, or an object with its first
 * part in the form of graphql 17.
 */
export const isSingle = (result: unknown): result is ExecutedResponse =>
  typeof result === "object" && result !== null && !(Symbol.asyncIterator in result) && !("initialResult" in result);

const REMEDY = (path: string): string =>
  `add ${JSON.stringify(path)} to \`responses.key\`, or set \`responses.scope\` to "PRIVATE", without \`guests\``;

/** Returns what is stored of the response of a load, and says so to its control. */
function storedBy(
  { parts, control, isPrivate, startedAt, options, negativeMaxAgeMs, unstorable, stored, ...load }: ExecutionLoad,
  response: ExecutedResponse,
  age: ResponseAge | undefined,
  obstacle: string | undefined,
): unknown {
  const subjects = parts.subjects();
  const hasOtherScope = !isPrivate && (age?.isPrivate === true || parts.isPrivate);
  // Counted from the beginning of the execution, as the age of an entry is.
  const ageMs = Math.min(options.maxAgeMs, (age?.maxAge ?? 0) * 1000, parts.freshUntilAt - startedAt);
  const hasErrors = hasFailed(response);
  const maxAgeMs = !hasErrors && hasNegativeRoot(response) ? Math.min(ageMs, negativeMaxAgeMs) : ageMs;
  if (!hasErrors && !hasOtherScope) parts.addContextReads(load.contextReads(), REMEDY);
  const isKnown = ![age, subjects].includes(undefined) && (obstacle ?? parts.refusal) === undefined;
  const tags = !hasErrors && !hasOtherScope && isKnown ? load.tags() : undefined;
  const isUnstorable = hasOtherScope || tags === undefined;
  if (hasErrors || isUnstorable || maxAgeMs <= 0) {
    // Parts that are stale now are fresh again soon.
    if (hasErrors || isUnstorable) unstorable(!hasErrors && hasOtherScope);
    control.skip();
    return NOT_STORED;
  }
  control.set({
    maxAge: maxAgeMs / 1000,
    tags: tags as readonly string[],
    ...(Number.isFinite(parts.staleForMs) ? { staleWhileRevalidate: parts.staleForMs / 1000 } : {}),
  });
  const text = storedOf(response, options.extensions);
  stored(startedAt + maxAgeMs + Math.max(options.staleWhileRevalidateMs, options.staleIfErrorMs));
  // Those who share the execution get them with the response, which says nothing of them itself.
  if (control instanceof LoadControl) control.addSubjects(subjects as readonly Subject[]);
  return text;
}
