/**
 * Every error of the house has a code from this table. A retired code is never used again.
 * Configuration errors are thrown; running errors reach a caller only where he asked for the operation himself (an invalidation, a load
 * that had no other way to end): otherwise they are events, and the request goes on as a miss.
 */
export const CODES = {
  CACHED_OPTION_INVALID: "an option is unknown, or its value is of the wrong type or out of range",
  CACHED_POLICY_INVALID: "what `@cached`, `@invalidates`, `extensions.cached` or a profile says cannot be done",
  CACHED_SCHEMA_INVALID: "one or more mistakes in how a schema uses the cache; the message lists them all",
  CACHED_SCOPE_MISSING:
    "a field is PRIVATE and `identify` is not given, or it is under an auth directive and does not say who may share its value",
  CACHED_COORDINATE_UNKNOWN: "no cached field or loader has this coordinate",
  CACHED_IDENTITY_CHANGED: "the context of a PRIVATE load came to say somebody else, so its value is not used",
  CACHED_KEY_UNUSABLE: "a part of the key is not there at run time, so the value is not cached",
  CACHED_KEY_UNSERIALIZABLE: "a part of the key cannot be written canonically",
  CACHED_VALUE_UNSERIALIZABLE: "a value cannot be stored unchanged, so it is not cached",
  CACHED_VALUE_TOO_LARGE: "a value is larger than `maxValueBytes`, so it is not cached",
  CACHED_ENTRY_CORRUPT: "a stored entry cannot be read, and is treated as not there",
  CACHED_STORE_UNAVAILABLE: "the store failed or did not answer within its time budget",
  CACHED_LOAD_TIMEOUT: "a load did not end within `loadTimeoutMs`",
  CACHED_SOURCE_UNAVAILABLE: "a load was not begun, since its source has too much to do or has failed too often",
  CACHED_INSPECTION_DENIED: "the inspection query was asked by somebody whom `allow` does not admit",
} as const;

export type ErrorCode = keyof typeof CODES;

/** What an error may carry besides its code and message. */
export interface ErrorContext {
  readonly coordinate?: string | undefined;
  readonly cause?: unknown;
}

/** The only error class of the house. Its message says what was expected, what came, where, and what to do; never a value or an argument. */
export class CachedError extends Error {
  readonly code: ErrorCode;
  /** Where, as a schema coordinate such as `Query.movie`, or the name of a loader. */
  readonly coordinate: string | undefined;

  constructor(code: ErrorCode, message: string, context: ErrorContext = {}) {
    super(message, "cause" in context ? { cause: context.cause } : undefined);
    this.name = "CachedError";
    this.code = code;
    this.coordinate = context.coordinate;
  }
}

/** What `value` is, in a few words fit for a message: its type, and the value itself only where it is a setting (`shown`). */
export function describeSetting(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value === "string") return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value);
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return "an array";
  return typeof value === "function" ? "a function" : "an object";
}

/** The message of anything that was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
