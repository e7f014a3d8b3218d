import { type Codec, type Dialect, fromPlain, toPlain, type ValueTypes } from "graphql-cached/codec";
import { Packr } from "msgpackr";

/** Returns a codec that writes bytes, with the package msgpackr. Stores and rejects the same values as the JSON codec. */
export function msgpackrCodec(): Codec {
  return codecWith({});
}

/** A lone surrogate, which UTF-8 cannot represent. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * MessagePack has a byte type. msgpackr renames a field `__proto__`, and takes a field
 * `constructor` for the object's class.
 */
const DIALECT: Dialect = {
  writeBytes: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
  readBytes: (written) => Buffer.from(written as Uint8Array),
  isLossy: (text) => LONE_SURROGATE.test(text),
  isReserved: (name) => name === "__proto__" || name === "constructor" || LONE_SURROGATE.test(name),
};

function codecWith(types: ValueTypes): Codec {
  // No shared structures, so that every process can read every value on its own.
  const packr = new Packr({ useRecords: true, useToJSON: false });
  return {
    id: "msgpackr",
    encode(value, maxBytes) {
      const { plain, isTagged } = toPlain(value, DIALECT, types, maxBytes);
      return packr.pack([isTagged, plain]);
    },
    decode(content) {
      const unpacked: unknown = packr.unpack(content as Uint8Array);
      if (!Array.isArray(unpacked) || unpacked.length !== 2 || typeof unpacked[0] !== "boolean")
        throw new TypeError("expected an array of two members: whether the value is tagged, and the value");
      return unpacked[0] ? fromPlain(unpacked[1], DIALECT, types) : (unpacked[1] as unknown);
    },
    withTypes: codecWith,
  };
}
