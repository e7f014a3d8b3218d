import type { ValueTypes } from "./value-type.js";

/** What a codec makes of a value: text, or bytes. */
export type Content = string | Uint8Array;

/** How values become text or bytes, and return. `decode(encode(value))` equals `value`, or `encode` refuses. */
export interface Codec {
  /**
   * Says what `encode` writes: 1 to 32 letters, digits and any of _ . : -. It stands in every entry, and what another codec wrote counts as not
   * there; so change it whenever `encode` comes to write otherwise. Not said: `custom`.
   */
  readonly id?: string;
  /** Errors: throws an `Unstorable` that says where in the value the trouble lies, never the value itself. */
  encode(value: unknown): Content;
  /**
   * A new object on every call, which shares no memory with `content`, so that no two readers share one. Text comes back as text, bytes as bytes.
   * Errors: throws on content that `encode` did not write.
   */
  decode(content: Content): unknown;
  /** The same codec with value types of the user's own. Without this method a codec cannot be given together with `types`. */
  withTypes?(types: ValueTypes): Codec;
}

/** Why a value cannot be stored: `path` says where in the value, such as `[3].director`. */
export class Unstorable extends Error {
  constructor(what: string, path: string) {
    super(`${what} at \`result${path}\``);
    this.name = "Unstorable";
  }
}

/** Why what is stored cannot be read by this process, in words fit for a log: a setting that differs, or bytes that are damaged. */
export class Unreadable extends Error {
  constructor(what: string, cause?: unknown) {
    super(what, { cause });
    this.name = "Unreadable";
  }
}
