import { Packr } from "msgpackr";
import type { Codec } from "../codec/codec.js";
import { type Dialect, fromPlain, toPlain } from "../codec/plain.js";
import type { ValueTypes } from "../codec/value-type.js";

/** Half of a character, which UTF-8 cannot write. */
const LOSSY = /\p{Surrogate}/u;

/** MessagePack writes bytes as they are. msgpackr renames a field `__proto__`, and takes one named `constructor` for the object's class. */
const DIALECT: Dialect = {
  writeBytes: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
  readBytes: (written) => Buffer.from(written as Uint8Array),
  isLossy: (text) => LOSSY.test(text),
  isReserved: (name) => name === "__proto__" || name === "constructor" || LOSSY.test(name),
};

/**
 * MessagePack with records, by the package msgpackr: smaller than JSON, and faster to read where a list holds many objects of one shape, whose
 * field names it writes once. It stores what the JSON codec stores and refuses what that refuses.
 */
export function msgpackrCodec(): Codec {
  return codecWith({});
}

function codecWith(types: ValueTypes): Codec {
  // No shared structures: every value can be read by itself, by every process.
  const packr = new Packr({ useRecords: true, useToJSON: false });
  return {
    id: "msgpackr",
    encode(value) {
      const { plain, isTagged } = toPlain(value, DIALECT, types);
      return packr.pack([isTagged, plain]);
    },
    decode(content) {
      const read: unknown = packr.unpack(content as Uint8Array);
      if (!Array.isArray(read) || read.length !== 2 || typeof read[0] !== "boolean")
        throw new TypeError("bytes of this codec are a list of whether there are tags, and the value");
      return read[0] ? fromPlain(read[1], DIALECT, types) : (read[1] as unknown);
    },
    withTypes: codecWith,
  };
}
