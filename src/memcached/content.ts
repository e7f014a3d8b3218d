import { MAGIC as CLOCK_MAGIC, HEAD_BYTES, type StoredClock } from "../store/clock-log.js";
import { VERSION_BYTES } from "../store/control-version.js";
import { readStoredEntry, writeStoredEntry } from "../store/entry-layout.js";
import type { VersionedControl } from "../store/store.js";
import type { StoredEntry } from "../store/transitions.js";

/**
 * What is stored under a name: an entry, the invalidation clock or a copy of its head, the control record or a copy of its version,
 * or anything not written by this store. Undefined stands for absent.
 */
export type Content =
  | { readonly kind: "entry"; readonly stored: StoredEntry }
  | { readonly kind: "version"; readonly version: string; readonly dropAt: number }
  | { readonly kind: "head"; readonly head: Buffer; readonly dropAt: number }
  | { readonly kind: "clock"; readonly clock: StoredClock; readonly dropAt: number }
  | { readonly kind: "control"; readonly record: VersionedControl; readonly dropAt: number }
  | { readonly kind: "unknown-format" };

const INSTANT_BYTES = 8;
const MAGIC_BYTES = 4;
/** The first bytes of an invalidation clock, which its head and its log follow. */
const WHOLE_CLOCK_MAGIC = "gq1 ";
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
  if (magic === WHOLE_CLOCK_MAGIC) {
    const logAt = MAGIC_BYTES + HEAD_BYTES;
    return { kind: "clock", clock: { head: rest.subarray(MAGIC_BYTES, logAt), log: rest.subarray(logAt) }, dropAt };
  }
  if (rest.length === HEAD_BYTES && CLOCK_MAGIC.equals(rest.subarray(0, CLOCK_MAGIC.length)))
    return { kind: "head", head: rest, dropAt };
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
 * Returns the bytes that `readContent` parses: the instant of expiry, followed by the content; an entry is in the layout of
 * store/README.md.
 */
export function writeContent(content: Exclude<Content, { kind: "unknown-format" }>): Buffer {
  const head = Buffer.alloc(INSTANT_BYTES);
  head.writeDoubleLE(dropAtOf(content));
  switch (content.kind) {
    case "entry":
      return Buffer.concat([head, writeStoredEntry(content.stored)]);
    case "version":
      return Buffer.concat([head, Buffer.from(content.version, "latin1")]);
    case "head":
      return Buffer.concat([head, content.head]);
    case "clock":
      return Buffer.concat([head, Buffer.from(WHOLE_CLOCK_MAGIC), content.clock.head, content.clock.log]);
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

export const versionOf = (content: Content | undefined): string | undefined =>
  content?.kind === "version" ? content.version : undefined;
