import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Packing } from "../../codec/packing.js";
import { checkOf, type Key } from "../../keys/key.js";

/**
 * The errors of loads as later readers and other processes get them: a copy that cannot be told
 * from the original, or none. What this process has caught and has no copy is remembered, so that
 * its own readers get the error itself.
 */
export class Failures {
  /** By the name of the key. */
  readonly #caught = new LRUCache<string, { readonly id: string; readonly thrown: Thrown }>({ max: MAX_CAUGHT });

  constructor(private readonly packing: Pick<Packing, "errors">) {}

  /** Describes what a load threw, with an exact copy if there is one; else calls `refuse`. */
  write(thrown: Thrown | null, key: Key, refuse: (cause: unknown) => void): Uint8Array {
    const description = { of: checkOf(key), id: randomBytes(8).toString("base64url") };
    let copy: unknown;
    try {
      if (thrown !== null) copy = this.packing.errors.encode(thrown.error, MAX_BYTES);
    } catch (cause) {
      this.catch(description.id, thrown, key);
      refuse(cause);
    }
    return Buffer.from(JSON.stringify({ ...description, copy }));
  }

  /** Remembers what this process has caught in place of the failure `id` of another one. */
  catch(id: string, thrown: Thrown | null, { name }: Key): void {
    if (thrown !== null) this.#caught.set(name, { id, thrown });
  }

  /**
   * Reads a description. Returns undefined if it is that of another key, whose error may be meant
   * for another user. Throws on what `write` does not return, and on classes that this process does
   * not know.
   */
  read(description: Uint8Array, key: Key): Failure | undefined {
    if (description.byteLength > 8 * MAX_BYTES) throw new RangeError("expected a bounded description");
    const { of, id, copy } = JSON.parse(Buffer.from(description).toString("utf8")) as Record<string, unknown>;
    if (of !== checkOf(key)) return undefined;
    if (typeof id !== "string") throw new TypeError("expected the id of a failure");
    if (copy !== undefined) return { id, thrown: { error: this.packing.errors.decode(copy as string) } };
    const caught = this.#caught.get(key.name);
    return { id, thrown: caught?.id === id ? caught.thrown : undefined };
  }
}

export interface Failure {
  readonly id: string;
  /** What readers of this process get. Undefined: nothing, they load for themselves. */
  readonly thrown: Thrown | undefined;
}

export interface Thrown {
  readonly error: unknown;
}

/** The most bytes of an error that others get, at least of its text. */
const MAX_BYTES = 32 * 1024;
const MAX_CAUGHT = 500;

/** The associated data of an encrypted failure: no value of the same key can replace it. */
export const failureAad = (key: Key): string => `${key.name} failed`;
