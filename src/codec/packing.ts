import { CachedError } from "../errors.js";
import { type Codec, type Content, Unreadable } from "./codec.js";
import { compress, decompress, TOO_LARGE } from "./compression.js";
import { copyPlain } from "./copy-plain.js";
import { createEncryption, type EncryptionOptions, SEALED } from "./encryption.js";
import { isPlainJson, jsonCodec, PLAIN_JSON_AT } from "./json-codec.js";
import { JsonParser } from "./json-parser.js";
import type { ValueTypes } from "./value-type.js";

/** The settings that packing needs; the resolved options satisfy this interface. */
export interface PackingSettings {
  readonly codec: Codec | undefined;
  readonly types: ValueTypes | undefined;
  readonly compressAboveBytes: number | undefined;
  readonly maxValueBytes: number;
  readonly encryption: EncryptionOptions | undefined;
  /** Whether values are kept for longer than a request. */
  readonly nearCache?: object | undefined;
}

/**
 * The pipeline between values and stored bytes: codec, compression, and encryption of the whole
 * entry.
 */
export interface Packing {
  /** What another process must have in common to read what this one writes. Contains no secrets. */
  readonly format: string;
  /** Throws `Unstorable`, or whatever a user's codec throws. */
  encode(value: unknown): Content;
  /** `packed` and `at`: what `content` was unpacked from, if that is at hand. Small values are decoded faster then. */
  decode(content: Content, packed?: Buffer, at?: number): unknown;
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
  readonly isEncrypted: boolean;
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
  // What is kept in the near cache must not keep the texts of values as well, see `JsonParser`.
  const parser = isJson && settings.nearCache === undefined ? new JsonParser() : undefined;
  const encryption = settings.encryption === undefined ? undefined : createEncryption(settings.encryption);
  const id = Buffer.from(codec.id ?? "custom", "latin1");
  const contentAt = 2 + id.length;
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
    encode: (value) => codec.encode(value),
    decode(content, packed, at = 0) {
      if (parser === undefined || !isPlainJson(content as string)) return codec.decode(content);
      const isPart = packed !== undefined && ((packed[at] as number) & IS_COMPRESSED) === 0;
      return parser.parse(content as string, PLAIN_JSON_AT, isPart ? packed : undefined, at + contentAt);
    },
    copierOf: (content) => (isJson && isPlainJson(content as string) ? copyPlain : undefined),
    maxValueBytes,
    excessBytes,
    async pack(content) {
      const isText = typeof content === "string";
      const bytes = isText ? Buffer.from(content, "utf8") : content;
      const smaller = bytes.byteLength > compressAboveBytes ? await compress(bytes) : undefined;
      const flags = (isText ? IS_TEXT : 0) | (smaller === undefined ? 0 : IS_COMPRESSED);
      return Buffer.concat([Uint8Array.of(flags, id.length), id, smaller ?? bytes]);
    },
    unpack(bytes, at = 0) {
      const flags = bytes[at] ?? 0xff;
      if (flags > (IS_TEXT | IS_COMPRESSED)) throw new Unreadable("its value is damaged");
      if (bytes[at + 1] !== id.length || !isAt(id, bytes, at + 2))
        throw new Unreadable("its value was written by another codec");
      const isText = (flags & IS_TEXT) !== 0;
      const from = at + contentAt;
      if ((flags & IS_COMPRESSED) !== 0) {
        const whole = decompress(bytes.subarray(from), maxValueBytes);
        return isText ? whole.toString("utf8") : whole;
      }
      if (bytes.length - from > maxValueBytes) throw new Unreadable(TOO_LARGE);
      return isText ? bytes.toString("utf8", from) : bytes.subarray(from);
    },
    isEncrypted: encryption !== undefined,
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

/** Compares byte by byte, which is faster than Buffer.compare for ids of a few bytes. */
function isAt(part: Buffer, whole: Buffer, at: number): boolean {
  for (let index = 0; index < part.length; index++) if (part[index] !== whole[at + index]) return false;
  return true;
}
