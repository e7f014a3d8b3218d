import { CachedError } from "../errors.js";
import { type Codec, type Content, Unreadable } from "./codec.js";
import { compressed, decompressed, TOO_LARGE } from "./compression.js";
import { createEncryption, type EncryptionOptions, isSealed } from "./encryption.js";
import { jsonCodec } from "./json-codec.js";
import type { ValueTypes } from "./value-type.js";

/** The few settings that packing needs; the resolved options happen to satisfy it. */
export interface PackingSettings {
  readonly codec: Codec | undefined;
  readonly types: ValueTypes | undefined;
  readonly compressAboveBytes: number | undefined;
  readonly maxValueBytes: number;
  readonly encryption: EncryptionOptions | undefined;
}

/** What a value goes through on its way to the store and back: codec, compression, and with all else in the entry, encryption. */
export interface Packing {
  /** Errors: `Unstorable`, or whatever a codec of the user's throws. */
  encode(value: unknown): Content;
  decode(content: Content): unknown;
  readonly maxValueBytes: number;
  /** The bytes of `content`, before compression, if they are more than may be stored. */
  excessBytes(content: Content): number | undefined;
  /** Says by which codec `content` was made, and compresses it if that is asked for and saves something. */
  pack(content: Content): Promise<Buffer>;
  /** Errors: `Unreadable`. */
  unpack(packed: Buffer): Content;
  /** `bytes` themselves where nothing is encrypted. `about` is what they may be read as, and nothing else. */
  seal(bytes: Uint8Array, about: string): Uint8Array;
  /** Errors: `Unreadable`. */
  unseal(sealed: Uint8Array, about: string): Uint8Array;
}

/** In the first byte of what is packed. */
const IS_TEXT = 1;
const IS_COMPRESSED = 2;

/**
 * Layout of what is packed: flags (u8), length of the codec's id (u8), the id, content.
 * Errors: `CACHED_OPTION_INVALID`, where the codec cannot be given value types.
 */
export function createPacking(settings: PackingSettings): Packing {
  const { types, compressAboveBytes = Number.MAX_SAFE_INTEGER, maxValueBytes } = settings;
  const codec = codecWith(settings.codec ?? jsonCodec, types);
  const encryption = settings.encryption === undefined ? undefined : createEncryption(settings.encryption);
  const id = Buffer.from(codec.id ?? "custom", "latin1");
  const contentAt = 2 + id.length;
  const excessBytes = (content: Content): number | undefined => {
    // No character takes more than three bytes in UTF-8 for each unit it has in a string.
    if (content.length * (typeof content === "string" ? 3 : 1) <= maxValueBytes) return undefined;
    const bytes = typeof content === "string" ? Buffer.byteLength(content) : content.byteLength;
    return bytes > maxValueBytes ? bytes : undefined;
  };
  return {
    encode: (value) => codec.encode(value),
    decode: (content) => codec.decode(content),
    maxValueBytes,
    excessBytes,
    async pack(content) {
      const isText = typeof content === "string";
      const bytes = isText ? Buffer.from(content, "utf8") : content;
      const smaller = bytes.byteLength > compressAboveBytes ? await compressed(bytes) : undefined;
      const flags = (isText ? IS_TEXT : 0) | (smaller === undefined ? 0 : IS_COMPRESSED);
      return Buffer.concat([Uint8Array.of(flags, id.length), id, smaller ?? bytes]);
    },
    unpack(bytes) {
      const flags = bytes[0] ?? 0xff;
      if (flags > (IS_TEXT | IS_COMPRESSED)) throw new Unreadable("its value is damaged");
      if (bytes[1] !== id.length || !isAt(id, bytes, 2)) throw new Unreadable("its value was written by another codec");
      const isText = (flags & IS_TEXT) !== 0;
      if ((flags & IS_COMPRESSED) !== 0) {
        const whole = decompressed(bytes.subarray(contentAt), maxValueBytes);
        return isText ? whole.toString("utf8") : whole;
      }
      if (bytes.length - contentAt > maxValueBytes) throw new Unreadable(TOO_LARGE);
      return isText ? bytes.toString("utf8", contentAt) : bytes.subarray(contentAt);
    },
    seal: (bytes, about) => encryption?.seal(bytes, about) ?? bytes,
    unseal(sealed, about) {
      if (encryption !== undefined) return encryption.unseal(sealed, about);
      if (isSealed(sealed)) throw new Unreadable("it is encrypted, and this process has no `encryption`");
      return sealed;
    },
  };
}

function codecWith(codec: Codec, types: ValueTypes | undefined): Codec {
  if (types === undefined) return codec;
  if (codec.withTypes !== undefined) return codec.withTypes(types);
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    "createCache: `types` needs a codec with the method `withTypes`, such as the JSON codec or `msgpackrCodec()`, and the given `codec` has none; " +
      "let your codec write these classes itself, or leave `codec` out",
  );
}

/** Shorter than a comparison of buffers, since ids are a few bytes. */
function isAt(part: Buffer, whole: Buffer, at: number): boolean {
  for (let index = 0; index < part.length; index++) if (part[index] !== whole[at + index]) return false;
  return true;
}
