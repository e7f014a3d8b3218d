import { hash } from "node:crypto";
import { hardPartOf, isWriteInProgress, softPartOf, type TagVersion } from "./store.js";

/**
 * The tags derived from a loaded value. Readers compare them as a whole, so they are kept as a whole:
 * parsing a thousand names and versions would cost more than the value.
 */
export interface ResultTags {
  /** The names of the tags in the store, as `writeTagNames` returns them. */
  readonly list: Buffer;
  /** `combinedVersion` of the versions that the tags had after the load, in the same order. */
  readonly version: string;
  /** `combinedSoftVersion` of the same versions. */
  readonly softVersion: string;
}

/** The cache hint that a load gave for its response: for how long others may cache it, and who. */
export interface ResponseHint {
  /** Seconds. */
  readonly maxAge?: number;
  readonly scope?: "PUBLIC" | "PRIVATE";
}

/** How long one result is served, as its load has set it, in milliseconds. */
export interface OwnFreshness {
  readonly maxAgeMs?: number;
  readonly staleWhileRevalidateMs?: number;
}

/** The content of a value's entry. `value` is the value as packed by the codec. */
export interface Body<Value = Uint8Array> {
  /** The canonical key input, compared on every read to detect collisions and mixed-up replies. */
  readonly input: string;
  readonly resultTags: ResultTags | undefined;
  readonly hint: ResponseHint | undefined;
  /** What the signature is for hard invalidations, for soft ones: see `ControlRecord.softSignatureOf`. */
  readonly softSignature: string;
  /** Undefined if the load has set nothing of it: the policy decides. */
  readonly freshness?: OwnFreshness | undefined;
  readonly value: Value;
}

/** The first byte of every body. */
const LAYOUT_VERSION = 3;
const HEAD_BYTES = 21;
/** Where the soft signature is in the head. */
const SOFT_AT = 13;
const SOFT_BYTES = 8;
const VERSION_BYTES = 16;
const VERSIONS_BYTES = VERSION_BYTES + SOFT_BYTES;

/**
 * Encodes a body. Layout: version byte 3; lengths of the input, the hint and the tags (u32 each); soft
 * signature (8 bytes, zeros for none); input (UTF-8); hint and own freshness (JSON, or empty); tags (their
 * combined version, 16 bytes, their combined soft version, 8 bytes, zeros for none, and their names; or
 * empty); value. Integers are little endian.
 */
export function writeBody({ input, resultTags, hint, softSignature, freshness, value }: Body): Uint8Array {
  const inputBytes = Buffer.from(input, "utf8");
  const hintBytes = Buffer.from(textOf(hint, freshness), "utf8");
  const tags =
    resultTags === undefined
      ? []
      : [Buffer.from(resultTags.version, "latin1"), softBytes(resultTags.softVersion), resultTags.list];
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(LAYOUT_VERSION, 0);
  head.writeUInt32LE(inputBytes.length, 1);
  head.writeUInt32LE(hintBytes.length, 5);
  head.writeUInt32LE(resultTags === undefined ? 0 : VERSIONS_BYTES + resultTags.list.length, 9);
  head.write(softSignature, SOFT_AT, "latin1");
  return Buffer.concat([head, inputBytes, hintBytes, ...tags, value]);
}

/** Decodes what `writeBody` returns. Returns undefined for any other bytes. */
export function readBody(bytes: Uint8Array): Body<Buffer> | undefined {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < HEAD_BYTES || buffer[0] !== LAYOUT_VERSION) return undefined;
  const hintAt = HEAD_BYTES + buffer.readUInt32LE(1);
  const tagsAt = hintAt + buffer.readUInt32LE(5);
  const valueAt = tagsAt + buffer.readUInt32LE(9);
  if (valueAt > buffer.length || (valueAt !== tagsAt && valueAt - tagsAt <= VERSIONS_BYTES)) return undefined;
  const listAt = tagsAt + VERSIONS_BYTES;
  const resultTags =
    valueAt === tagsAt
      ? undefined
      : {
          list: buffer.subarray(listAt, valueAt),
          version: buffer.toString("latin1", tagsAt, tagsAt + VERSION_BYTES),
          softVersion: softAt(buffer, tagsAt + VERSION_BYTES),
        };
  try {
    const input = buffer.toString("utf8", HEAD_BYTES, hintAt);
    const value = buffer.subarray(valueAt);
    const softSignature = softAt(buffer, SOFT_AT);
    if (tagsAt === hintAt) return { input, resultTags, hint: undefined, freshness: undefined, softSignature, value };
    const { freshness, hint } = JSON.parse(buffer.toString("utf8", hintAt, tagsAt)) as Pick<Body, "hint" | "freshness">;
    return { input, resultTags, hint, freshness, softSignature, value };
  } catch {
    return undefined;
  }
}

const softBytes = (soft: string): Buffer => (soft === "" ? Buffer.alloc(SOFT_BYTES) : Buffer.from(soft, "latin1"));

/** Most values were never invalidated softly; this detects them without creating a string. */
function softAt(bytes: Buffer, at: number): string {
  if (bytes.readUInt32LE(at) === 0 && bytes.readUInt32LE(at + 4) === 0) return "";
  return bytes.toString("latin1", at, at + SOFT_BYTES);
}

/** Returns the JSON of what a load has said about its result. Empty if it has said nothing. */
const textOf = (hint: ResponseHint | undefined, freshness: OwnFreshness | undefined): string =>
  hint === undefined && freshness === undefined ? "" : JSON.stringify({ hint, freshness });

/** Returns the tags derived from a value. Undefined if there are none. */
export const resultTagsOf = (names: readonly string[], versions: readonly string[]): ResultTags | undefined =>
  names.length === 0
    ? undefined
    : {
        list: writeTagNames(names),
        version: combinedVersion(versions) as string,
        softVersion: combinedSoftVersion(versions),
      };

/**
 * Returns the digest of what soft invalidations have changed: `scope` and the versions of tags, 8 bytes.
 * Empty if there was none.
 */
export function combinedSoftVersion(versions: readonly TagVersion[], scope = ""): string {
  if (scope === "" && !versions.some(hasSoftPart)) return "";
  const parts = versions.map((version) => softPartOf(version ?? ""));
  return hash("sha256", JSON.stringify([scope, ...parts]), "binary").slice(0, SOFT_BYTES);
}

const hasSoftPart = (version: TagVersion): boolean => version !== undefined && softPartOf(version) !== "";

/**
 * Returns the digest of tag versions without what soft invalidations have changed, 16 bytes. Undefined if one of them is missing or stands in for
 * a write in progress: their combination is then not current.
 */
export function combinedVersion(versions: readonly TagVersion[]): string | undefined {
  for (const version of versions) if (version === undefined || isWriteInProgress(version)) return undefined;
  // Versions have one length, so that no two lists of them give the same text.
  const hard = versions.map((version) => hardPartOf(version as string)).join("");
  return hash("sha256", Buffer.from(hard, "latin1"), "binary").slice(0, VERSION_BYTES);
}

/** Encodes tag names: what they have in common at the beginning, and the rest of each. */
export function writeTagNames(names: readonly string[]): Buffer {
  const [first = ""] = names;
  let common = first.length;
  for (const name of names) while (!name.startsWith(first.slice(0, common))) common--;
  return Buffer.from([first.slice(0, common), ...names.map((name) => name.slice(common))].join("\n"), "latin1");
}

/** Decodes what `writeTagNames` returns. */
export function readTagNames(list: Buffer): readonly string[] {
  const [common = "", ...rest] = list.toString("latin1").split("\n");
  return rest.map((end) => common + end);
}
