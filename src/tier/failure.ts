import { messageOf } from "../errors.js";
import type { Key } from "../keys/key.js";

/** A failure that came from another process: name, message and `extensions` of the original, as far as they are data. */
class RemoteFailure extends Error {
  readonly extensions: Readonly<Record<string, unknown>> | undefined;

  constructor(name: string, message: string, extensions: Readonly<Record<string, unknown>> | undefined) {
    super(message);
    this.name = name;
    this.extensions = extensions;
  }
}

/** Describes what a load of `key` threw, for those in other processes who wait for it. */
export function writeFailure(thrown: unknown, { digest }: Key): Uint8Array {
  const name = thrown instanceof Error ? thrown.name : "Error";
  const description = { of: digest, name, message: messageOf(thrown), extensions: extensionsOf(thrown) };
  try {
    return Buffer.from(JSON.stringify(description));
  } catch {
    return Buffer.from(JSON.stringify({ of: digest, name, message: messageOf(thrown) }));
  }
}

/** What an encrypted failure is bound to: a value of the same key cannot be taken for one. */
export const failureOf = (key: Key): string => `${key.name} failed`;

/** Undefined where it is the failure of another key: what one user was told of is not for the next. */
export function readFailure(body: Uint8Array, { digest }: Key): Error | undefined {
  try {
    const { of, name, message, extensions } = JSON.parse(Buffer.from(body).toString("utf8")) as Record<string, unknown>;
    if (of !== digest) return undefined;
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

function extensionsOf(thrown: unknown): unknown {
  return typeof thrown === "object" && thrown !== null ? (thrown as { extensions?: unknown }).extensions : undefined;
}
