import type { ValueTypes } from "./value-type.js";

/**
 * A value that cannot be stored; `path` is its place within the result, such as `[3].director`, and
 * `remedy` what its author can do.
 */
export class Unstorable extends Error {
  readonly remedy: string | undefined;

  constructor(what: string, path: string, remedy?: string) {
    super(`${what} at \`result${path}\``);
    this.name = "Unstorable";
    this.remedy = remedy;
  }
}

/** The encoded form of a value: text or bytes. */
export type Content = string | Uint8Array;

/** Converts values to text or bytes. `decode(encode(value))` equals `value`, or `encode` throws. */
export interface Codec {
  /**
   * Identifies the format that `encode` writes: 1 to 32 letters, digits and any of _ . : -. It is
   * stored in every entry, and entries written under another id are misses; change it whenever the
   * format changes. Default: `custom`.
   */
  readonly id?: string;
  /**
   * Throws an `Unstorable` that names the path within the value, never the value itself. May throw
   * a `TooLarge` as soon as the content is known to have more than `maxBytes`, which is then of no
   * use; a codec may also ignore `maxBytes`.
   */
  encode(value: unknown, maxBytes?: number): Content;
  /**
   * Returns a new object on every call, which shares no memory with `content`, so that no two
   * readers share an object. Receives text if `encode` returned text, bytes if it returned bytes.
   * Throws on content that `encode` did not write.
   */
  decode(content: Content): unknown;
  /** Returns this codec with value types added. Without this method, `types` cannot be used. */
  withTypes?(types: ValueTypes): Codec;
}

/** A value whose content would be larger than `maxBytes`, so that it was not encoded to its end. */
export class TooLarge extends Error {
  constructor(maxBytes: number) {
    super(`the content has more than ${maxBytes} bytes`);
    this.name = "TooLarge";
  }
}

/** An entry that this process cannot read: other settings or damaged bytes. Safe to log. */
export class Unreadable extends Error {
  constructor(what: string, cause?: unknown) {
    super(what, { cause });
    this.name = "Unreadable";
  }
}
