import { CHECK_AT, CHECK_LENGTH, checkOf, type Key, type Subject } from "../keys/key.js";

/**
 * Encodes the body of a value of `key`. Layout: layout version 5, times 8, and the flags
 * of its parts (u8); the check; if there are any, hint and own freshness (length,
 * u32, and JSON), and tags (count, u32, and the subject of each, f64); value. Numbers are little endian.
 */
export function writeBody({ subjects, hint, freshness, value }: Body, key: Pick<Key, "hash">): Buffer {
  let parts = 0;
  const chunks: Uint8Array[] = [];
  if (hint !== undefined || freshness !== undefined) {
    parts |= HAS_TEXT;
    const text = Buffer.from(JSON.stringify({ hint, freshness }), "utf8");
    chunks.push(lengthBytes(text.length), text);
  }
  if (subjects.length > 0) {
    parts |= HAS_TAGS;
    const list = Buffer.alloc(SUBJECT_BYTES * subjects.length);
    for (let nth = 0; nth < subjects.length; nth++) list.writeDoubleLE(subjects[nth] as Subject, SUBJECT_BYTES * nth);
    chunks.push(lengthBytes(subjects.length), list);
  }
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt8(LAYOUT_VERSION | parts, 0);
  head.write(checkOf(key), STORED_CHECK_AT, "latin1");
  return Buffer.concat([head, ...chunks, value]);
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
  /** All tags of the value: those known before its load, and those derived from it. */
  readonly subjects: readonly Subject[];
  readonly hint: ResponseHint | undefined;
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
const LAYOUT_VERSION = 5 << 3;
const HAS_TEXT = 2;
const HAS_TAGS = 4;
const ALL_PARTS = HAS_TEXT | HAS_TAGS;
const STORED_CHECK_AT = 1;
const HEAD_BYTES = STORED_CHECK_AT + CHECK_LENGTH;
const NO_TEXT = { hint: undefined, freshness: undefined };
const WITHOUT_PARTS: ReadBody = {
  subjects: [],
  hint: undefined,
  freshness: undefined,
  valueAt: HEAD_BYTES,
};
const LENGTH_BYTES = 4;
const SUBJECT_BYTES = 8;

/**
 * Decodes what `writeBody` returns for `key`. `collision`: it belongs to another key.
 * Returns undefined for any other bytes.
 */
export function readBody(buffer: Buffer, { hash }: Pick<Key, "hash">): ReadBody | "collision" | undefined {
  const parts = (buffer[0] ?? 0) ^ LAYOUT_VERSION;
  if (buffer.length < HEAD_BYTES || (parts & ~ALL_PARTS) !== 0) return undefined;
  if (buffer.toString("latin1", STORED_CHECK_AT, HEAD_BYTES) !== hash.slice(CHECK_AT)) return "collision";
  if (parts === 0) return WITHOUT_PARTS;
  let at = HEAD_BYTES;
  let text: Pick<Body, "hint" | "freshness"> = NO_TEXT;
  const subjects: Subject[] = [];
  try {
    if ((parts & HAS_TEXT) !== 0) {
      const end = at + LENGTH_BYTES + buffer.readUInt32LE(at);
      const written: unknown = JSON.parse(buffer.toString("utf8", at + LENGTH_BYTES, end));
      if (!isText(written)) return undefined;
      text = written;
      at = end;
    }
    if ((parts & HAS_TAGS) !== 0) {
      const count = buffer.readUInt32LE(at);
      at += LENGTH_BYTES;
      if (at + SUBJECT_BYTES * count > buffer.length) return undefined;
      for (; subjects.length < count; at += SUBJECT_BYTES) subjects.push(buffer.readDoubleLE(at));
    }
  } catch {
    return undefined;
  }
  // A part that is longer than the bytes.
  if (at > buffer.length) return undefined;
  return { subjects, hint: text.hint, freshness: text.freshness, valueAt: at };
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

function lengthBytes(length: number): Buffer {
  const bytes = Buffer.alloc(LENGTH_BYTES);
  bytes.writeUInt32LE(length);
  return bytes;
}
