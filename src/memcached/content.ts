import { readStoredEntry, writeStoredEntry } from "../store/entry-layout.js";
import type { TagVersion } from "../store/store.js";
import type { StoredEntry } from "../store/transitions.js";

/** What is at a name: an entry, the version of a tag, the record of tag invalidations, or what none of ours has written. Absent is undefined. */
export type Content =
  | { readonly kind: "entry"; readonly stored: StoredEntry }
  | { readonly kind: "version"; readonly version: string; readonly dropAt: number }
  | { readonly kind: "log"; readonly bytes: Buffer; readonly dropAt: number }
  | { readonly kind: "unknown-format" };

const VERSION_BYTES = 16;
const INSTANT_BYTES = 8;
const LOG_MARK = "gr1 ";
/** What stands for a version while a write bracket is open. */
const WRITE_IN_PROGRESS = "write-in-progress";

/** Undefined where there is nothing, or what was there is over: the server itself counts in whole seconds. */
export function readContent(bytes: Buffer | undefined, now: number): Content | undefined {
  if (bytes === undefined) return undefined;
  if (bytes.length < INSTANT_BYTES + VERSION_BYTES) return { kind: "unknown-format" };
  const dropAt = bytes.readDoubleLE(0);
  const rest = bytes.subarray(INSTANT_BYTES);
  if (rest.length === VERSION_BYTES)
    return ifLive({ kind: "version", version: rest.toString("latin1"), dropAt }, dropAt, now);
  if (rest.toString("latin1", 0, LOG_MARK.length) === LOG_MARK)
    return ifLive({ kind: "log", bytes: rest.subarray(LOG_MARK.length), dropAt }, dropAt, now);
  const stored = readStoredEntry(rest, dropAt);
  return stored === undefined ? { kind: "unknown-format" } : ifLive({ kind: "entry", stored }, dropAt, now);
}

const ifLive = (content: Content, dropAt: number, now: number): Content | undefined =>
  now < dropAt ? content : undefined;

/** The bytes that `readContent` reads: when it is to be dropped, then a version, a record, or an entry as every store lays it out. */
export function writeContent(content: Exclude<Content, { kind: "unknown-format" }>): Buffer {
  const head = Buffer.alloc(INSTANT_BYTES);
  head.writeDoubleLE(dropAtOf(content));
  switch (content.kind) {
    case "entry":
      return Buffer.concat([head, writeStoredEntry(content.stored)]);
    case "version":
      return Buffer.concat([head, Buffer.from(content.version, "latin1")]);
    case "log":
      return Buffer.concat([head, Buffer.from(LOG_MARK), content.bytes]);
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
