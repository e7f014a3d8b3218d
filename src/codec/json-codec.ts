import type { Codec } from "./codec.js";
import { type Dialect, fromPlain, toPlain } from "./plain.js";
import type { ValueTypes } from "./value-type.js";

/** JSON writes any text and any field, and bytes as base64. */
const DIALECT: Dialect = {
  writeBytes: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64"),
  readBytes: (written) => Buffer.from(written as string, "base64"),
  isLossy: () => false,
  isReserved: () => false,
};

/**
 * JSON, and beyond it: undefined, Date, BigInt, Map, Set, Buffer, Uint8Array, NaN, infinities and -0.
 * Text that needs none of these is plain JSON behind a space, which JSON allows, so that it is read without being cut; the rest stands behind a
 * `t`, with tags where JSON ends.
 */
export const jsonCodec: Codec = jsonCodecWith({});

function jsonCodecWith(types: ValueTypes): Codec {
  return {
    id: "json",
    encode(value) {
      const { plain, isTagged } = toPlain(value, DIALECT, types);
      return (isTagged ? "t" : " ") + JSON.stringify(plain);
    },
    decode(content) {
      const text = content as string;
      if (text.startsWith(" ")) return JSON.parse(text);
      if (text.startsWith("t")) return fromPlain(JSON.parse(text.slice(1)), DIALECT, types);
      throw new SyntaxError("text of this codec begins with a space or with `t`");
    },
    withTypes: jsonCodecWith,
  };
}
