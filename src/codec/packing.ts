import { CachedError } from "../errors.js";
import { type Codec, type Content, Unreadable } from "./codec.js";
import { compress, decompress, TOO_LARGE } from "./compression.js";
import { copyPlain } from "./copy-plain.js";
import { createEncryption, type EncryptionOptions, SEALED } from "./encryption.js";
import { isPlainJson, jsonCodec } from "./json-codec.js";
import type { ValueTypes } from "./value-type.js";

/** The settings that packing needs; the resolved options satisfy this interface. */
export interface PackingSettings {
  readonly codec: Codec | undefined;
  readonly types: ValueTypes | undefined;
  readonly compressAboveBytes: number | undefined;
  readonly maxValueBytes: number;
  readonly encryption: EncryptionOptions | undefined;
}

/**
 * The pipeline between values and stored bytes: codec, compression, and encryption of the whole
 * entry.
 */
export interface Packing {
  /** What another process must have in common to read what this one writes. Contains no secrets. */
  readonly format: string;
  /** Throws `Unstorable`, `TooLarge` if the content would have more than `maxBytes`, or whatever a user's codec throws. */
  encode(value: unknown, maxBytes?: number): Content;
  decode(content: Content): unknown;
  /**
   * Returns a function that copies what `decode(content)` returns, exactly as if it were decoded again.
   * Undefined if only decoding it again does that.
   */
  copierOf(content: Content): ((value: unknown) => unknown) | undefined;
  readonly maxValueBytes: number;
  /**
   * Returns the size of `content` before compression if it exceeds `maxValueBytes`, otherwise
   * undefined.
   */
  excessBytes(content: Content): number | undefined;
  /**
   * Prepends the codec's id to `content`, and compresses it if it is above `compressAboveBytes` and
   * that saves space.
   */
  pack(content: Content): Promise<Buffer>;
  /** Unpacks what begins at `at`, by default 0, and ends with `bytes`. Throws `Unreadable`. */
  unpack(bytes: Buffer, at?: number): Content;
  /** Encrypts `bytes` for one `purpose`. Returns `bytes` itself if encryption is off. */
  seal(bytes: Uint8Array, purpose: string): Uint8Array;
  /** Throws `Unreadable`. */
  unseal(sealed: Uint8Array, purpose: string): Buffer;
}

/** The flags in the first byte of packed content. */
const IS_TEXT = 1;
const IS_COMPRESSED = 2;

/**
 * Layout of packed content: flags (u8), length of the codec id (u8), codec id, content.
 * Throws `CACHED_OPTION_INVALID` if `types` are given with a codec that has no `withTypes`.
 */
export function createPacking(settings: PackingSettings): Packing {
  const { types, compressAboveBytes = Number.MAX_SAFE_INTEGER, maxValueBytes } = settings;
  const codec = codecWith(settings.codec ?? jsonCodec, types);
  // A codec that is made from `jsonCodec` may decode differently.
  const isJson = (settings.codec ?? jsonCodec) === jsonCodec;
  const encryption = settings.encryption === undefined ? undefined : createEncryption(settings.encryption);
  const id = Buffer.from(codec.id ?? "custom", "latin1");
  /** What packed content has between its flags and the content. */
  const codecMark = Buffer.concat([Uint8Array.of(id.length), id]);
  const excessBytes = (content: Content): number | undefined => {
    // UTF-8 needs at most three bytes per UTF-16 code unit, so most sizes need no exact count.
    if (content.length * (typeof content === "string" ? 3 : 1) <= maxValueBytes) return undefined;
    const bytes = typeof content === "string" ? Buffer.byteLength(content) : content.byteLength;
    return bytes > maxValueBytes ? bytes : undefined;
  };
  // Compression and the ids of keys are left out: every process reads both forms, and keys rotate.
  // A release in which a class has no key form writes no tags of its instances.
  const typeNames = Object.entries(types ?? {})
    .map(([name, { keyOf }]) => (keyOf === undefined ? name : `${name} with key`))
    .sort((a, b) => (a < b ? -1 : 1));
  const format = JSON.stringify([codec.id ?? "custom", typeNames, encryption !== undefined]);
  return {
    format,
    encode: (value, maxBytes) => codec.encode(value, maxBytes),
    decode: (content) => codec.decode(content),
    copierOf: (content) => (isJson && isPlainJson(content as string) ? copyPlain : undefined),
    maxValueBytes,
    excessBytes,
    async pack(content) {
      const isText = typeof content === "string";
      const bytes = isText ? Buffer.from(content, "utf8") : content;
      const smaller = bytes.byteLength > compressAboveBytes ? await compress(bytes) : undefined;
      const flags = (isText ? IS_TEXT : 0) | (smaller === undefined ? 0 : IS_COMPRESSED);
      return Buffer.concat([Uint8Array.of(flags), codecMark, smaller ?? bytes]);
    },
    unpack(bytes, at = 0) {
      const flags = bytes[at] ?? 0xff;
      if (flags > (IS_TEXT | IS_COMPRESSED)) throw new Unreadable("its value is damaged");
      const from = at + 1 + codecMark.length;
      if (!bytes.subarray(at + 1, from).equals(codecMark))
        throw new Unreadable("its value was written by another codec");
      const isText = (flags & IS_TEXT) !== 0;
      if ((flags & IS_COMPRESSED) !== 0) {
        const whole = decompress(bytes.subarray(from), maxValueBytes);
        return isText ? whole.toString("utf8") : whole;
      }
      if (bytes.length - from > maxValueBytes) throw new Unreadable(TOO_LARGE);
      return isText ? bytes.toString("utf8", from) : bytes.subarray(from);
    },
    seal: (bytes, purpose) => encryption?.seal(bytes, purpose) ?? bytes,
    unseal(sealed, purpose) {
      if (encryption !== undefined) return encryption.unseal(sealed, purpose);
      if (sealed[0] === SEALED) throw new Unreadable("it is encrypted, but this process has no `encryption` option");
      // A store may return any Uint8Array.
      return Buffer.isBuffer(sealed) ? sealed : Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
    },
  };
}

function codecWith(codec: Codec, types: ValueTypes | undefined): Codec {
  if (types === undefined) return codec;
  if (codec.withTypes !== undefined) return codec.withTypes(types);
  throw new CachedError(
    "CACHED_OPTION_INVALID",
    "createCache: `types`: expected a codec with the method `withTypes`, such as the default JSON codec or msgpackrCodec(), got a `codec` without it; " +
      "encode these classes in your codec, or omit `codec`",
  );
}
