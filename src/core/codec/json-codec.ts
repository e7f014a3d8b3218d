import type { Codec } from "./codec.js";
import { type Dialect, fromPlain, toPlain } from "./plain.js";
import type { ValueTypes } from "./value-type.js";

/**
 * JSON, extended by undefined, Date, BigInt, Map, Set, Buffer, Uint8Array, NaN, infinities and -0.
 * The first character tells the two forms apart. A space precedes plain JSON; JSON allows it, so
 * the text is parsed without copying it. A `t` precedes JSON that contains tags.
 */
export const jsonCodec: Codec = jsonCodecWith({});

/** JSON can represent every string and every field name. Bytes become base64. */
const DIALECT: Dialect = {
  writeBytes: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64"),
  readBytes: (written) => Buffer.from(written as string, "base64"),
  isLossy: () => false,
  isReserved: () => false,
  repeatsNames: true,
};

export function jsonCodecWith(types: ValueTypes): Codec {
  return {
    id: "json",
    encode(value, maxBytes) {
      const { plain, isTagged } = toPlain(value, DIALECT, types, maxBytes);
      return (isTagged ? "t" : " ") + JSON.stringify(plain);
    },
    decode(content) {
      const text = content as string;
      if (text.startsWith(" ")) return JSON.parse(text);
      if (text.startsWith("t")) return fromPlain(JSON.parse(text.slice(1)), DIALECT, types);
      throw new SyntaxError("expected text that begins with a space or `t`");
    },
    withTypes: jsonCodecWith,
  };
}

/**
 * Returns whether what `jsonCodec` has encoded, with any types, consists of objects, arrays and
 * primitives, so that `copyPlain` copies what it is decoded to. Values with `undefined` are common.
 */
export function isPlainContent(content: string): boolean {
  if (content.startsWith(" ")) return true;
  // In a text of JSON, quotes are escaped, so that this is always a tag.
  for (let at = content.indexOf(TAG_START); at !== -1; at = content.indexOf(TAG_START, at + 1))
    if (!PRIMITIVES.includes(content.charAt(at + TAG_START.length))) return false;
  return true;
}

const TAG_START = '{"$gc":["';
/** The tags of undefined, numbers that JSON lacks, and BigInt. */
const PRIMITIVES = ["u", "n", "i"];

/** Copies what was decoded from plain content. It knows neither dates nor maps. */
export function copyPlain(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const list: unknown[] = value.slice();
    for (let index = 0; index < list.length; index++) {
      const member = list[index];
      if (typeof member === "object" && member !== null) list[index] = copyPlain(member);
    }
    return list;
  }
  // A spread defines fields, so that `__proto__` is an ordinary one, which the assignment finds.
  const copy = { ...value } as Record<string, unknown>;
  for (const name in copy) {
    const member = copy[name];
    if (typeof member === "object" && member !== null && Object.hasOwn(copy, name)) copy[name] = copyPlain(member);
  }
  return copy;
}
