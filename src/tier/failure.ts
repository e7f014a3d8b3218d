import { toError } from "../graphql-version.js";
import { checkOf, type Key } from "../keys/key.js";

/**
 * An error of a load in another process, with the name, message and serializable `extensions` of
 * the original.
 */
class RemoteFailure extends Error {
  readonly extensions: Readonly<Record<string, unknown>> | undefined;

  constructor(name: string, message: string, extensions: Readonly<Record<string, unknown>> | undefined) {
    super(message);
    this.name = name;
    this.extensions = extensions;
  }
}

/**
 * Describes what a load of `key` threw, for readers in other processes that wait for it, and for later ones. They get an
 * error even if it threw something else.
 */
export function writeFailure(thrown: unknown, key: Key): Uint8Array {
  const error: Error & { readonly extensions?: unknown } = toError(thrown);
  const { name, message, extensions } = error;
  const description = { of: checkOf(key), name, message };
  try {
    return Buffer.from(JSON.stringify({ ...description, extensions }));
  } catch {
    return Buffer.from(JSON.stringify(description));
  }
}

/**
 * Returns the associated data of an encrypted failure, so that no value of the same key can replace
 * it.
 */
export const failureAad = (key: Key): string => `${key.name} failed`;

/**
 * Reads what `writeFailure` returns. Returns undefined for the failure of another key, whose
 * message may be meant for another user, and a generic error for unreadable bytes.
 */
export function readFailure(body: Uint8Array, key: Key): Error | undefined {
  try {
    const { of, name, message, extensions } = JSON.parse(Buffer.from(body).toString("utf8")) as Record<string, unknown>;
    if (of !== checkOf(key)) return undefined;
    const isObject = typeof extensions === "object" && extensions !== null;
    return new RemoteFailure(
      String(name),
      String(message),
      isObject ? (extensions as Record<string, unknown>) : undefined,
    );
  } catch {
    return new Error("another process failed to load this value; its description cannot be read");
  }
}
