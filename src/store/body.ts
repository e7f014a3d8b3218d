import { hash as hashOf } from "node:crypto";
import { CHECK_LENGTH, checkOf, type Key } from "../keys/key.js";
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

/** What the entry of a value has besides the value. */
export interface BodyParts {
  readonly resultTags: ResultTags | undefined;
  readonly hint: ResponseHint | undefined;
  /** What the signature is for hard invalidations, for soft ones: see `ControlRecord.softSignatureOf`. */
  readonly softSignature: string;
  /** Undefined if the load has set nothing of it: the policy decides. */
  readonly freshness?: OwnFreshness | undefined;
}

/** The content of a value's entry. `value` is the value as packed by the codec. */
export interface Body extends BodyParts {
  readonly value: Uint8Array;
}

/** The same as read: the value begins at `valueAt` and ends with the bytes. */
export interface ReadBody extends BodyParts {
  readonly valueAt: number;
}

/** The first byte of every body: this, and the flags of the parts that it has. */
const LAYOUT_VERSION = 4 << 3;
const HAS_SOFT_SIGNATURE = 1;
const HAS_TEXT = 2;
const HAS_TAGS = 4;
const ALL_PARTS = HAS_SOFT_SIGNATURE | HAS_TEXT | HAS_TAGS;
/** Where the check of the key begins: the second half of its hash. */
const STORED_CHECK_AT = 1;
const HEAD_BYTES = STORED_CHECK_AT + CHECK_LENGTH;
/** Most bodies. */
const WITHOUT_PARTS: ReadBody = {
  resultTags: undefined,
  hint: undefined,
  softSignature: "",
  freshness: undefined,
  valueAt: HEAD_BYTES,
};
const LENGTH_BYTES = 4;
const SOFT_BYTES = 8;
const VERSION_BYTES = 16;
const VERSIONS_BYTES = VERSION_BYTES + SOFT_BYTES;
const NAME_END = "\n".charCodeAt(0);
/** The longest beginning that the names of tags have in common: a prefix of any reasonable length, and a digest. */
const MAX_TAG_NAME_BYTES = 1024;

/**
 * Encodes the body of a value of `key`. Layout: layout version 4, times 8, and the flags
 * of its parts (u8); the check; if there are any, soft signature (8 bytes), hint and own freshness (length,
 * u32, and JSON), and tags (length, u32, their combined version, 16 bytes, their combined soft version, 8
 * bytes, zeros for none, and their names); value. Integers are little endian. Most values have no parts, so
 * their head is 23 bytes.
 */
export function writeBody({ resultTags, hint, softSignature, freshness, value }: Body, key: Pick<Key, "hash">): Buffer {
  let parts = 0;
  const chunks: Uint8Array[] = [];
  if (softSignature !== "") {
    parts |= HAS_SOFT_SIGNATURE;
    chunks.push(softBytes(softSignature));
  }
  if (hint !== undefined || freshness !== undefined) {
    parts |= HAS_TEXT;
    const text = Buffer.from(JSON.stringify({ hint, freshness }), "utf8");
    chunks.push(lengthBytes(text.length), text);
  }
  if (resultTags !== undefined) {
    parts |= HAS_TAGS;
    const { version, softVersion, list } = resultTags;
    const versions = [Buffer.from(version, "latin1"), softBytes(softVersion)];
    chunks.push(lengthBytes(VERSIONS_BYTES + list.length), ...versions, list);
  }
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(LAYOUT_VERSION | parts, 0);
  head.write(checkOf(key), STORED_CHECK_AT, "latin1");
  return Buffer.concat([head, ...chunks, value]);
}

/**
 * Decodes what `writeBody` returns for `key`. `collision`: it belongs to another key.
 * Returns undefined for any other bytes. The list of tags is a view of `buffer`.
 */
export function readBody(buffer: Buffer, { hash }: Pick<Key, "hash">): ReadBody | "collision" | undefined {
  const parts = (buffer[0] ?? 0) ^ LAYOUT_VERSION;
  if (buffer.length < HEAD_BYTES || parts > ALL_PARTS) return undefined;
  if (buffer.toString("latin1", STORED_CHECK_AT, HEAD_BYTES) !== checkOf({ hash })) return "collision";
  return parts === 0 ? WITHOUT_PARTS : readParts(buffer, parts);
}

function readParts(buffer: Buffer, parts: number): ReadBody | undefined {
  try {
    let at = HEAD_BYTES;
    const next = (length: number): Buffer => {
      if (at + length > buffer.length) throw new RangeError("the body is truncated");
      at += length;
      return buffer.subarray(at - length, at);
    };
    const softSignature = (parts & HAS_SOFT_SIGNATURE) === 0 ? "" : next(SOFT_BYTES).toString("latin1");
    const text = (parts & HAS_TEXT) === 0 ? "{}" : next(next(LENGTH_BYTES).readUInt32LE()).toString("utf8");
    const tags = (parts & HAS_TAGS) === 0 ? undefined : next(next(LENGTH_BYTES).readUInt32LE());
    if (tags !== undefined && !hasNames(tags)) return undefined;
    const written: unknown = JSON.parse(text);
    if (!isText(written)) return undefined;
    const { freshness, hint } = written;
    return { resultTags: tags && readTags(tags), hint, softSignature, freshness, valueAt: at };
  } catch {
    return undefined;
  }
}

/** Whether it is what `writeBody` writes as JSON. Hints end up in headers, and others may write under the prefix. */
function isText(written: unknown): written is Pick<Body, "hint" | "freshness"> {
  const isScope = (value: unknown): boolean => value === "PUBLIC" || value === "PRIVATE";
  return hasOnly(written, {
    hint: (hint) => hasOnly(hint, { maxAge: isDuration, scope: isScope }),
    freshness: (freshness) => hasOnly(freshness, { maxAgeMs: isDuration, staleWhileRevalidateMs: isDuration }),
  });
}

const hasOnly = (value: unknown, checks: Readonly<Record<string, (member: unknown) => boolean>>): boolean =>
  typeof value === "object" &&
  value !== null &&
  Object.entries(value).every(([name, member]) => Object.hasOwn(checks, name) && checks[name]?.(member) === true);

const isDuration = (value: unknown): boolean => typeof value === "number" && Number.isFinite(value) && value >= 0;

/**
 * Returns a hint as it can be stored. A resolver can set anything: what is no number of seconds counts as 0, what is no
 * scope as PRIVATE, so that the response is cached by nobody for whom it is not meant.
 */
export function validHint({ maxAge, scope }: { readonly maxAge?: unknown; readonly scope?: unknown }): ResponseHint {
  return {
    ...(maxAge === undefined || maxAge === null ? {} : { maxAge: isDuration(maxAge) ? (maxAge as number) : 0 }),
    ...(scope === undefined || scope === null ? {} : { scope: scope === "PUBLIC" ? scope : ("PRIVATE" as const) }),
  };
}

/** Names share their beginning, so that a long one would multiply. */
const hasNames = (tags: Buffer): boolean => {
  const firstEnd = tags.indexOf(NAME_END, VERSIONS_BYTES);
  return firstEnd !== -1 && firstEnd - VERSIONS_BYTES <= MAX_TAG_NAME_BYTES;
};

const readTags = (tags: Buffer): ResultTags => ({
  list: tags.subarray(VERSIONS_BYTES),
  version: tags.toString("latin1", 0, VERSION_BYTES),
  softVersion: softAt(tags, VERSION_BYTES),
});

function lengthBytes(length: number): Buffer {
  const bytes = Buffer.alloc(LENGTH_BYTES);
  bytes.writeUInt32LE(length);
  return bytes;
}

const softBytes = (soft: string): Buffer => (soft === "" ? Buffer.alloc(SOFT_BYTES) : Buffer.from(soft, "latin1"));

/** Most tags were never invalidated softly; this detects them without creating a string. */
function softAt(bytes: Buffer, at: number): string {
  if (bytes.readUInt32LE(at) === 0 && bytes.readUInt32LE(at + 4) === 0) return "";
  return bytes.toString("latin1", at, at + SOFT_BYTES);
}

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
  if (scope === "" && !haveSoftPart(versions)) return "";
  const parts = versions.map((version) => softPartOf(version ?? ""));
  return hashOf("sha256", JSON.stringify([scope, ...parts]), "binary").slice(0, SOFT_BYTES);
}

function haveSoftPart(versions: readonly TagVersion[]): boolean {
  for (const version of versions) if (version !== undefined && softPartOf(version) !== "") return true;
  return false;
}

/**
 * Returns the digest of tag versions without what soft invalidations have changed, 16 bytes. Undefined if one of them is missing or stands in for
 * a write in progress: their combination is then not current.
 */
export function combinedVersion(versions: readonly TagVersion[]): string | undefined {
  for (const version of versions) if (version === undefined || isWriteInProgress(version)) return undefined;
  // Versions have one length, so that no two lists of them give the same text.
  const hard = versions.map((version) => hardPartOf(version as string)).join("");
  return hashOf("sha256", Buffer.from(hard, "latin1"), "binary").slice(0, VERSION_BYTES);
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
