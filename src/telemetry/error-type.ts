import { CachedError } from "../errors.js";

/** The codes of Node.js, such as ECONNREFUSED and ERR_INVALID_ARG_TYPE. */
const NODE_CODE = /^(E[A-Z0-9]{2,20}|ERR_[A-Z0-9_]{1,60})$/;
const CLASS_NAME = /^[A-Z][A-Za-z0-9]{0,60}$/;

/**
 * Returns what kind of error it is, for metrics and spans: the code of a `CachedError` or of Node.js, or the name
 * of its class. Never the message, which may contain user data. `_OTHER`, as in OpenTelemetry, if it has none of them.
 * Never throws, although the properties of what a source has thrown may.
 */
export function errorTypeOf(error: unknown): string {
  try {
    return knownTypeOf(error);
  } catch {
    return "_OTHER";
  }
}

function knownTypeOf(error: unknown): string {
  if (error instanceof CachedError) return error.code;
  if (!(error instanceof Error)) return "_OTHER";
  const { code } = error as { readonly code?: unknown };
  if (typeof code === "string" && NODE_CODE.test(code)) return code;
  const { name } = error.constructor;
  // A DOMException has the name of an AbortError or TimeoutError; those of other errors may be set to anything.
  const ownName = error instanceof DOMException ? error.name : name;
  return CLASS_NAME.test(ownName) ? ownName : "_OTHER";
}
