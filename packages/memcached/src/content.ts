import {
  HEAD_BYTES,
  readHead,
  readStoredEntry,
  type StoredClock,
  type StoredEntry,
  writeStoredEntry,
} from "graphql-cached/store";

/**
 * Returns undefined if there are no bytes, or if they have expired: the server itself expires items
 * only to the second.
 */
export function readContent(bytes: Buffer | undefined, now: number): Content {
  if (bytes === undefined || RESERVATION.equals(bytes)) return undefined;
  if (bytes.length < INSTANT_BYTES + MAGIC_BYTES) return { kind: "unknown-format" };
  const rest = bytes.subarray(INSTANT_BYTES);
  const magic = rest.toString("latin1", 0, MAGIC_BYTES);
  if (magic === WHOLE_CLOCK_MAGIC) {
    const logAt = MAGIC_BYTES + HEAD_BYTES;
    return { kind: "clock", clock: { head: rest.subarray(MAGIC_BYTES, logAt), log: rest.subarray(logAt) } };
  }
  if (readHead(rest) !== undefined) return { kind: "head", head: rest };
  if (magic === REPORT_MAGIC) {
    const dropAt = bytes.readDoubleLE(0);
    return now < dropAt ? { kind: "report", dropAt, content: rest.subarray(MAGIC_BYTES) } : undefined;
  }
  const stored = readStoredEntry(rest, bytes.readDoubleLE(0));
  if (stored === undefined) return { kind: "unknown-format" };
  return now < stored.dropAt ? { kind: "entry", stored } : undefined;
}

/** What this store writes under a name: entries and reports, and what never expires. */
export type KnownContent =
  | { readonly kind: "entry"; readonly stored: StoredEntry }
  | { readonly kind: "head"; readonly head: Buffer }
  | { readonly kind: "clock"; readonly clock: StoredClock }
  | { readonly kind: "report"; readonly dropAt: number; readonly content: Uint8Array };

/** What is under a name. Undefined stands for absent. */
export type Content = KnownContent | { readonly kind: "unknown-format" } | undefined;

const INSTANT_BYTES = 8;
const MAGIC_BYTES = 4;
/** The first bytes of an invalidation clock, which its head and its log follow. */
const WHOLE_CLOCK_MAGIC = "gq1 ";
const REPORT_MAGIC = "gr1 ";
/**
 * Stored under an absent name before the content itself is written with `cas`. It counts as absent:
 * its instant of expiry is 0.
 */
export const RESERVATION = Buffer.alloc(24);

/** Returns the bytes that `readContent` parses: the instant of expiry, followed by the content. */
export function writeContent(content: KnownContent): Buffer {
  const dropAt = Buffer.alloc(INSTANT_BYTES);
  dropAt.writeDoubleLE(dropAtOf(content));
  switch (content.kind) {
    case "entry":
      return Buffer.concat([dropAt, writeStoredEntry(content.stored)]);
    case "head":
      return Buffer.concat([dropAt, content.head]);
    case "clock":
      return Buffer.concat([dropAt, Buffer.from(WHOLE_CLOCK_MAGIC), content.clock.head, content.clock.log]);
    case "report":
      return Buffer.concat([dropAt, Buffer.from(REPORT_MAGIC), content.content]);
  }
}

export const dropAtOf = (content: KnownContent): number =>
  content.kind === "entry"
    ? content.stored.dropAt
    : content.kind === "report"
      ? content.dropAt
      : Number.MAX_SAFE_INTEGER;

export const storedEntryOf = (content: Content): StoredEntry | undefined =>
  content?.kind === "entry" ? content.stored : undefined;

export const headOf = (content: Content): Buffer | undefined => (content?.kind === "head" ? content.head : undefined);
