import { MAGIC as CLOCK_MAGIC, HEAD_BYTES, type StoredClock } from "../../core/store/clock-log.js";
import { readStoredEntry, writeStoredEntry } from "../../core/store/entry-layout.js";
import type { StoredEntry } from "../../core/store/transitions.js";

/**
 * What is stored under a name: an entry, the invalidation clock or a copy of its head, the settings, or anything not written by this store. Undefined stands for absent.
 */
export type Content =
  | { readonly kind: "entry"; readonly stored: StoredEntry }
  | { readonly kind: "head"; readonly head: Buffer; readonly dropAt: number }
  | { readonly kind: "clock"; readonly clock: StoredClock; readonly dropAt: number }
  | { readonly kind: "settings"; readonly content: Uint8Array; readonly dropAt: number }
  | { readonly kind: "unknown-format" };

const INSTANT_BYTES = 8;
const MAGIC_BYTES = 4;
/** The first bytes of an invalidation clock, which its head and its log follow. */
const WHOLE_CLOCK_MAGIC = "gq1 ";
/** The first bytes of the settings, which their content follows. */
const SETTINGS_MAGIC = "gk1 ";
/**
 * Stored under an absent name before the content itself is written with `cas`. It counts as absent:
 * its instant of expiry is 0.
 */
export const RESERVATION = Buffer.alloc(24);
/** The instant of expiry of what never expires. */
export const NEVER = Number.MAX_SAFE_INTEGER;

/**
 * Parses the bytes under a name. Returns undefined if there are none or if they have expired: the
 * server itself expires items only to the second.
 */
export function readContent(bytes: Buffer | undefined, now: number): Content | undefined {
  if (bytes === undefined) return undefined;
  if (RESERVATION.equals(bytes)) return undefined;
  if (bytes.length < INSTANT_BYTES + MAGIC_BYTES) return { kind: "unknown-format" };
  const dropAt = bytes.readDoubleLE(0);
  const rest = bytes.subarray(INSTANT_BYTES);
  const magic = rest.toString("latin1", 0, MAGIC_BYTES);
  if (magic === WHOLE_CLOCK_MAGIC) {
    const logAt = MAGIC_BYTES + HEAD_BYTES;
    return { kind: "clock", clock: { head: rest.subarray(MAGIC_BYTES, logAt), log: rest.subarray(logAt) }, dropAt };
  }
  if (rest.length === HEAD_BYTES && CLOCK_MAGIC.equals(rest.subarray(0, CLOCK_MAGIC.length)))
    return { kind: "head", head: rest, dropAt };
  if (magic === SETTINGS_MAGIC) return { kind: "settings", content: rest.subarray(MAGIC_BYTES), dropAt };
  const stored = readStoredEntry(rest, dropAt);
  if (stored !== undefined) return ifLive({ kind: "entry", stored }, dropAt, now);
  return { kind: "unknown-format" };
}

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
    case "head":
      return Buffer.concat([head, content.head]);
    case "clock":
      return Buffer.concat([head, Buffer.from(WHOLE_CLOCK_MAGIC), content.clock.head, content.clock.log]);
    case "settings":
      return Buffer.concat([head, Buffer.from(SETTINGS_MAGIC), content.content]);
  }
}

export function dropAtOf(content: Exclude<Content, { kind: "unknown-format" }>): number {
  return content.kind === "entry" ? content.stored.dropAt : content.dropAt;
}

export const storedEntryOf = (content: Content | undefined): StoredEntry | undefined =>
  content?.kind === "entry" ? content.stored : undefined;
