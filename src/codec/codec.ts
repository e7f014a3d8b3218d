/** How values become text and return. `decode(encode(value))` equals `value`, or `encode` refuses. */
export interface Codec {
  /** Errors: throws an `Unstorable` that says where in the value the trouble lies, never the value itself. */
  encode(value: unknown): string;
  /** A new object on every call, so that no two readers share one. Errors: throws on text that `encode` did not write. */
  decode(text: string): unknown;
}

/** Why a value cannot be stored: `path` says where in the value, such as `[3].director`. */
export class Unstorable extends Error {
  constructor(what: string, path: string) {
    super(`${what} at \`result${path}\``);
    this.name = "Unstorable";
  }
}
