import { hash } from "node:crypto";
import { promisify, types } from "node:util";
import { constants, crc32, deflate, deflateSync, type InputType, inflateSync, type ZlibOptions } from "node:zlib";
import { notPromise } from "../base/deferred.js";
import { type Codec, type Content, Unreadable, Unstorable } from "./codec.js";
import { createEncryption, type EncryptionOptions, SEALED } from "./encryption.js";
import { ERROR_TYPE, HEADERS_TYPE } from "./error-type.js";
import { copyPlain, isPlainContent, jsonCodec, jsonCodecWith } from "./json-codec.js";
import type { ValueTypes } from "./value-type.js";

/**
 * The pipeline between values and stored bytes: codec, compression, encryption.
 *
 * Layout of packed content: flags (u8), length of the codec id (u8), codec id, checksum (u32) of a
 * stored text, content. With `types`, the codec has `withTypes` (`option-checks.ts`).
 */
export function createPacking(settings: PackingSettings) {
  const { types: valueTypes, compressAboveBytes = Number.MAX_SAFE_INTEGER, maxValueBytes } = settings;
  const untyped = settings.codec ?? jsonCodec;
  const given = valueTypes === undefined ? untyped : (untyped.withTypes?.(valueTypes) ?? untyped);
  const codec = untyped === jsonCodec ? given : synchronousCodec(given);
  // A codec that is made from `jsonCodec` may decode differently.
  const isJson = untyped === jsonCodec;
  const encryption = settings.encryption && createEncryption(settings.encryption);
  const id = Buffer.from(codec.id ?? "custom", "latin1");
  const codecMark = Buffer.concat([Uint8Array.of(id.length), id]);
  // A release in which a class has no key form writes no tags of its instances.
  const typeNames = Object.entries(valueTypes ?? {})
    .map(([name, { keyOf }]) => (keyOf === undefined ? name : `${name} with key`))
    .sort((a, b) => (a < b ? -1 : 1));
  return {
    maxValueBytes,
    /** For what loads have thrown: errors, and what else is plain data or has a value type. */
    errors: jsonCodecWith({ ...valueTypes, "@error": ERROR_TYPE, "@headers": HEADERS_TYPE }),
    /** What another process must have in common to read what this one writes. */
    format: JSON.stringify([codec.id ?? "custom", typeNames, encryption !== undefined]),
    encode: (value: unknown, maxBytes?: number): Encoded =>
      value instanceof StoredText ? value : codec.encode(value, maxBytes),
    decode: (content: Encoded): unknown => (content instanceof StoredText ? content : codec.decode(content)),
    /** Returns what copies `decode(content)` exactly. Undefined if only decoding again does. */
    copierOf(content: Encoded): ((value: unknown) => unknown) | undefined {
      if (content instanceof StoredText) return (text) => text;
      return isJson && isPlainContent(content as string) ? copyPlain : undefined;
    },
    /** Returns the size before compression if it exceeds `maxValueBytes`. */
    excessBytes(encoded: Encoded): number | undefined {
      const content = contentOf(encoded);
      // UTF-8 needs at most three bytes per UTF-16 code unit, so most sizes need no exact count.
      if (content.length * (typeof content === "string" ? 3 : 1) <= maxValueBytes) return undefined;
      const bytes = Buffer.byteLength(content);
      return bytes > maxValueBytes ? bytes : undefined;
    },
    /** Returns the bytes. A promise if it takes long to compress them. */
    pack(encoded: Encoded): Buffer | Promise<Buffer> {
      const content = contentOf(encoded);
      const isText = typeof content === "string";
      const bytes = isText ? Buffer.from(content, "utf8") : content;
      const packed = (smaller?: Uint8Array): Buffer => {
        const isStoredText = encoded instanceof StoredText;
        const flags =
          (isText ? IS_TEXT : 0) | (smaller === undefined ? 0 : IS_COMPRESSED) | (isStoredText ? IS_STORED_TEXT : 0);
        const hasChecksum = isStoredText && smaller === undefined;
        const checksum = Buffer.alloc(hasChecksum ? CHECKSUM_BYTES : 0);
        if (hasChecksum) checksum.writeUInt32LE(crc32(bytes));
        return Buffer.concat([Uint8Array.of(flags), codecMark, checksum, smaller ?? bytes]);
      };
      if (bytes.byteLength <= compressAboveBytes) return packed();
      const smaller = compress(bytes);
      return types.isPromise(smaller) ? smaller.then(packed) : packed(smaller);
    },
    /** Unpacks what begins at `at` and ends with `bytes`. Throws `Unreadable`. */
    unpack(bytes: Buffer, at = 0): Encoded {
      const flags = bytes[at] ?? 0xff;
      if (flags > ALL_FLAGS) throw new Unreadable("its value is damaged");
      const markedTo = at + 1 + codecMark.length;
      const isCompressed = (flags & IS_COMPRESSED) !== 0;
      const isStoredText = (flags & IS_STORED_TEXT) !== 0;
      // Compressed content has a checksum of its own.
      const hasChecksum = isStoredText && !isCompressed;
      const from = markedTo + (hasChecksum ? CHECKSUM_BYTES : 0);
      if (!bytes.subarray(at + 1, markedTo).equals(codecMark))
        throw new Unreadable("its value was written by another codec");
      if (!isCompressed && bytes.length - from > maxValueBytes) throw new Unreadable(TOO_LARGE);
      if (hasChecksum && (bytes.length < from || bytes.readUInt32LE(markedTo) !== crc32(bytes.subarray(from))))
        throw new Unreadable("its value is damaged");
      const content = isCompressed ? decompress(bytes.subarray(from), maxValueBytes) : bytes.subarray(from);
      if ((flags & IS_TEXT) === 0) return content;
      const text = content.toString("utf8");
      return isStoredText ? new StoredText(text) : text;
    },
    seal: (bytes: Uint8Array, purpose: string): Uint8Array => encryption?.seal(bytes, purpose) ?? bytes,
    /** Throws `Unreadable`. */
    unseal(sealed: Uint8Array, purpose: string): Buffer {
      if (encryption !== undefined) return encryption.unseal(sealed, purpose);
      if (sealed[0] === SEALED) throw new Unreadable("it is encrypted, but this process has no `encryption` option");
      // A store may return any Uint8Array.
      return Buffer.isBuffer(sealed) ? sealed : Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
    },
  };
}

/** A codec of the user, whose promises are neither contents nor values. */
function synchronousCodec(codec: Codec): Codec {
  const { id } = codec;
  return {
    ...(id === undefined ? {} : { id }),
    encode(value, maxBytes) {
      const mistake = "a value for which `codec.encode` returns a promise";
      return notPromise(codec.encode(value, maxBytes), () => new Unstorable(mistake, "", "return text or bytes"));
    },
    decode(content) {
      const mistake = "`codec.decode` has returned a promise for it; let it return the value";
      return notPromise(codec.decode(content), () => new Unreadable(mistake));
    },
  };
}

export interface PackingSettings {
  readonly codec: Codec | undefined;
  readonly types: ValueTypes | undefined;
  readonly compressAboveBytes: number | undefined;
  readonly maxValueBytes: number;
  readonly encryption: EncryptionOptions | undefined;
}

/** What a value is encoded to: what its codec has written, or a text that passes by the codec. */
export type Encoded = Content | StoredText;

export type Packing = ReturnType<typeof createPacking>;

const IS_TEXT = 1;
const IS_COMPRESSED = 2;
/** Of a `StoredText`, which is text. */
const IS_STORED_TEXT = 4;
/** Of a stored text, which nobody need parse, so that nothing else would show damage. */
const CHECKSUM_BYTES = 4;
const ALL_FLAGS = IS_TEXT | IS_COMPRESSED | IS_STORED_TEXT;

const contentOf = (encoded: Encoded): Content => (encoded instanceof StoredText ? encoded.text : encoded);

/** Undefined if it saves nothing. Small content at once, so that writes share a pipeline. */
export function compress(bytes: Uint8Array): Uint8Array | undefined | Promise<Uint8Array | undefined> {
  const ifSmaller = (deflated: Uint8Array): Uint8Array | undefined =>
    deflated.byteLength < bytes.byteLength ? deflated : undefined;
  return bytes.byteLength <= SYNC_MAX_BYTES
    ? ifSmaller(deflateSync(bytes, FASTEST))
    : deflateInThreadPool(bytes, FASTEST).then(ifSmaller);
}

const deflateInThreadPool = promisify<InputType, ZlibOptions, Buffer>(deflate);
/** Beyond, compressing blocks the event loop for longer than extra pipelines cost. */
const SYNC_MAX_BYTES = 16 * 1024;
const FASTEST: ZlibOptions = { level: constants.Z_BEST_SPEED };

/** Synchronous: parsing the result takes as long. Throws `Unreadable`, also beyond `maxBytes`. */
export function decompress(bytes: Uint8Array, maxBytes: number): Buffer {
  try {
    return inflateSync(bytes, { maxOutputLength: Math.max(1, maxBytes) });
  } catch (cause) {
    const isTooLarge = (cause as { code?: unknown }).code === "ERR_BUFFER_TOO_LARGE";
    throw new Unreadable(isTooLarge ? TOO_LARGE : "its compressed content is damaged", cause);
  }
}

const TOO_LARGE = "its value is larger than `storage.maxValueBytes` in this process";

/** A text that is stored as it is, not parsed. All readers share it: it cannot be changed. */
export class StoredText {
  #digest: string | undefined;

  constructor(readonly text: string) {}

  get length(): number {
    return this.text.length;
  }

  /** The same for the same text, in all processes. */
  get digest(): string {
    this.#digest ??= hash("sha256", this.text, "base64url").slice(0, 22);
    return this.#digest;
  }
}
