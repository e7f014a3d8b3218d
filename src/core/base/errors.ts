import { attempt, isError } from "./built-in.js";

/**
 * The only error class of this library. The message says what was expected, what it got, where,
 * and how to fix it. It never contains arguments, values or identities.
 */
export class CachedError extends Error {
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: a class of the user that extends this one has only its own instances.
    if (this !== CachedError) return Function.prototype[Symbol.hasInstance].call(this, value);
    return typeof value === "object" && value !== null && MARK in value;
  }

  readonly code: ErrorCode;
  /** The coordinate, such as `Query.movie`, or the loader's name. Undefined if none applies. */
  readonly coordinate: string | undefined;

  constructor(code: ErrorCode, message: string, context: ErrorContext = {}) {
    super(message, "cause" in context ? { cause: context.cause } : undefined);
    this.name = "CachedError";
    this.code = code;
    this.coordinate = context.coordinate;
    Object.defineProperty(this, MARK, { value: true });
  }

  /** What GraphQL servers send to clients with the message. */
  get extensions(): { readonly code: ErrorCode } {
    return { code: this.code };
  }
}

/**
 * The error codes and what they mean. Configuration errors are thrown when the mistake is made.
 * Run-time trouble of the cache itself is published as an event, and the request continues as a
 * miss; it rejects only operations that the caller asked for directly, such as an invalidation.
 */
export const CODES = {
  CACHED_OPTION_INVALID: "An option or argument is unknown, has the wrong type, or is out of range.",
  CACHED_POLICY_INVALID: "A policy from `@cached`, `@invalidates`, `extensions.cached` or `policies` is invalid.",
  CACHED_SCHEMA_INVALID: "A schema uses the cache incorrectly; the message lists every mistake.",
  CACHED_SCOPE_MISSING:
    "A field has no `scope`, a PRIVATE field lacks `identify`, or a PUBLIC field under an auth mark does not declare its scope.",
  CACHED_COORDINATE_UNKNOWN: "This process has no cached field or loader with this coordinate.",
  CACHED_SCOPE_NARROWED: "A value was made from a PRIVATE one of others, or got the hint PRIVATE.",
  CACHED_IDENTITY_CHANGED: "The identity, or a context value in a key or tag, changed during a load, which failed.",
  CACHED_KEY_UNUSABLE: "A part of the key is missing or invalid.",
  CACHED_KEY_UNSERIALIZABLE: "A part of the key has no canonical text.",
  CACHED_SELECTION_READ: "A resolver read the selection, which is not in its key.",
  CACHED_QUERY_READ: "A resolver read a part of the query that no key contains.",
  CACHED_VALUE_UNSERIALIZABLE: "A value cannot be restored exactly from the store.",
  CACHED_VALUE_TOO_LARGE: "A value is larger than `storage.maxValueBytes`.",
  CACHED_VALUE_EXPIRED: "A load took longer than its value is fresh.",
  CACHED_VALUE_INVALID: "A value does not match the type of its field.",
  CACHED_ERROR_UNSHARED: "The error of a load has no exact copy; other processes load for themselves.",
  CACHED_RESULT_INVALID: "A load used the control of its result incorrectly, and failed.",
  CACHED_ENTRY_CORRUPT: "A stored entry cannot be read, and counts as a miss.",
  CACHED_STORE_UNAVAILABLE: "The store failed, or did not reply within its time budget.",
  CACHED_LOAD_TIMEOUT: "A load did not finish within `loads.loadTimeoutMs`.",
  CACHED_SOURCE_UNAVAILABLE: "A load was refused: its source is overloaded or has failed repeatedly.",
  CACHED_INSPECTION_DENIED: "`allow` did not admit the caller of the inspection query.",
} as const;

export type ErrorCode = keyof typeof CODES;

/** Optional details of a CachedError. */
export interface ErrorContext {
  readonly coordinate?: string | undefined;
  readonly cause?: unknown;
}

/** Marks the errors of all copies of this package: a development server evaluates it again. */
const MARK: unique symbol = Symbol.for("graphql-cached.error") as never;

export const optionInvalid = (message: string, context?: ErrorContext): CachedError =>
  new CachedError("CACHED_OPTION_INVALID", message, context);
export const keyUnusable = (message: string, context?: ErrorContext): CachedError =>
  new CachedError("CACHED_KEY_UNUSABLE", message, context);

/** Describes a setting for an error message: the value if it is short, otherwise its type. */
export function describeSetting(value: unknown): string {
  if (value === undefined) return "undefined";
  if (value === null) return "null";
  if (typeof value === "string") return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value);
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return "an array";
  if (typeof value === "function") return "a function";
  const name = (Object.getPrototypeOf(value) as { constructor?: { name?: unknown } } | null)?.constructor?.name;
  return typeof name === "string" && name !== "" && name !== "Object" ? `an instance of ${name}` : "an object";
}

/** Throws `CACHED_OPTION_INVALID` unless the options are an object. */
export function checkOptionsObject(options: unknown, caller: string): asserts options is object {
  if (typeof options === "object" && options !== null) return;
  throw optionInvalid(`${caller}: expected an object of options, got ${describeSetting(options)}`);
}

/** What a terminal or a reader of log lines takes for something else than text. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

export const withoutControls = (text: string, replace: (character: string) => string): string =>
  text.replaceAll(UNPRINTABLE, replace);

/** Returns control characters as JSON writes them, such as \n and \u009b. */
export const escapedControl = (character: string): string =>
  ESCAPES[character] ??
  Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");

const ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Returns foreign text, such as the message of an error, escaped and cut to `maxLength`. */
export function inOneLine(text: string, maxLength = 500): string {
  const cut = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
  return withoutControls(cut, escapedControl);
}

/** Never throws: the message of what was thrown can be anything, and have a getter. */
export function messageOf(thrown: unknown): string {
  return attempt(() => String(isError(thrown) ? thrown.message : thrown)) ?? "something without a message";
}
