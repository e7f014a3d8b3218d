import { VERSION_BYTES } from "../store/control-version.js";
import { readStoredEntry, writeStoredEntry } from "../store/entry-layout.js";
import { type TagVersion, type VersionedControl, WRITE_IN_PROGRESS } from "../store/store.js";
import type { StoredEntry } from "../store/transitions.js";

/**
 * What is stored under a name: an entry, the version of a tag, the invalidation log, the control
 * record, or anything not written by this store. Undefined stands for absent.
 */
export type Content =
  | { readonly kind: "entry"; readonly stored: StoredEntry }
  | { readonly kind: "version"; readonly version: string; readonly dropAt: number }
  | { readonly kind: "log"; readonly bytes: Buffer; readonly dropAt: number }
  | { readonly kind: "control"; readonly record: VersionedControl; readonly dropAt: number }
  | { readonly kind: "unknown-format" };

const INSTANT_BYTES = 8;
const MAGIC_BYTES = 4;
/** The first bytes of an invalidation log. */
const LOG_MAGIC = "gr1 ";
/** The first bytes of a control record, which the version and the content follow. */
const CONTROL_MAGIC = "gk1 ";
/** The instant of expiry of what never expires. */
export const NEVER = Number.MAX_SAFE_INTEGER;

/**
 * Parses the bytes under a name. Returns undefined if there are none or if they have expired: the
 * server itself expires items only to the second.
 */
export function readContent(bytes: Buffer | undefined, now: number): Content | undefined {
  if (bytes === undefined) return undefined;
  if (bytes.length < INSTANT_BYTES + VERSION_BYTES) return { kind: "unknown-format" };
  const dropAt = bytes.readDoubleLE(0);
  const rest = bytes.subarray(INSTANT_BYTES);
  if (rest.length === VERSION_BYTES) return versionIn(rest, dropAt, now);
  const magic = rest.toString("latin1", 0, MAGIC_BYTES);
  if (magic === LOG_MAGIC) return ifLive({ kind: "log", bytes: rest.subarray(MAGIC_BYTES), dropAt }, dropAt, now);
  if (magic === CONTROL_MAGIC) {
    const contentAt = MAGIC_BYTES + VERSION_BYTES;
    const version = rest.toString("latin1", MAGIC_BYTES, contentAt);
    return { kind: "control", record: { version, content: rest.subarray(contentAt) }, dropAt };
  }
  const stored = readStoredEntry(rest, dropAt);
  if (stored !== undefined) return ifLive({ kind: "entry", stored }, dropAt, now);
  // A version is random, so it can be taken for anything else only by chance, once in millions.
  return rest.length === 2 * VERSION_BYTES ? versionIn(rest, dropAt, now) : { kind: "unknown-format" };
}

const versionIn = (bytes: Buffer, dropAt: number, now: number): Content | undefined =>
  ifLive({ kind: "version", version: bytes.toString("latin1"), dropAt }, dropAt, now);

const ifLive = (content: Content, dropAt: number, now: number): Content | undefined =>
  now < dropAt ? content : undefined;

/**
 * Returns the bytes that `readContent` parses: the instant of expiry, followed by a tag version, an
 * invalidation log, a control record, or an entry in the layout of store/README.md.
 */
export function writeContent(content: Exclude<Content, { kind: "unknown-format" }>): Buffer {
  const head = Buffer.alloc(INSTANT_BYTES);
  head.writeDoubleLE(dropAtOf(content));
  switch (content.kind) {
    case "entry":
      return Buffer.concat([head, writeStoredEntry(content.stored)]);
    case "version":
      return Buffer.concat([head, Buffer.from(content.version, "latin1")]);
    case "log":
      return Buffer.concat([head, Buffer.from(LOG_MAGIC), content.bytes]);
    case "control": {
      const { version, content: bytes } = content.record;
      return Buffer.concat([head, Buffer.from(CONTROL_MAGIC), Buffer.from(version, "latin1"), bytes]);
    }
  }
}

export function dropAtOf(content: Exclude<Content, { kind: "unknown-format" }>): number {
  return content.kind === "entry" ? content.stored.dropAt : content.dropAt;
}

export const storedEntryOf = (content: Content | undefined): StoredEntry | undefined =>
  content?.kind === "entry" ? content.stored : undefined;

export function versionOf(content: Content | undefined): TagVersion {
  if (content?.kind === "version") return content.version;
  return storedEntryOf(content)?.state === "write-in-progress" ? WRITE_IN_PROGRESS : undefined;
}
