import { isError } from "../base/built-in.js";
import { CachedError } from "../base/errors.js";

/** Codes of Node.js, such as ECONNREFUSED, and constants of several words (UPSTREAM_DOWN). */
const CODE = /^(E[A-Z0-9]{2,20}|(?=.{1,60}$)[A-Z][A-Z0-9]*(_[A-Z][A-Z0-9]*)+)$/;
/** The codes of one word that GraphQL servers use. */
const WORDS: readonly unknown[] = ["FORBIDDEN", "UNAUTHENTICATED"];
const CLASS_NAME = /^[A-Z][A-Za-z0-9]{0,60}$/;

/**
 * Returns what kind of error it is, for metrics, spans, inspection and reports: its code or
 * `extensions.code` if it is written like a constant, else the name of its class. Never the
 * message, or another code or name, which may be user data. `_OTHER`, as in OpenTelemetry, if it
 * has none. Never throws, although properties of a thrown value may.
 */
export function errorTypeOf(error: unknown): string {
  try {
    if (error instanceof CachedError) return error.code;
    if (!isError(error)) return "_OTHER";
    const { code, extensions } = error as { code?: unknown; extensions?: { code?: unknown } };
    const known = [extensions?.code, code].find(isConstant);
    if (known !== undefined) return known;
    // Only a DOMException has a reliable name, such as AbortError: others may be set to anything.
    const { name } = error instanceof DOMException ? error : error.constructor;
    return CLASS_NAME.test(name) ? name : "_OTHER";
  } catch {
    return "_OTHER";
  }
}

const isConstant = (code: unknown): code is string =>
  typeof code === "string" && (CODE.test(code) || WORDS.includes(code));
