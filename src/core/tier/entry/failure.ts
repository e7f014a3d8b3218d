import { types } from "node:util";
import { toError } from "../../base/graphql-version.js";
import { jsonCodec } from "../../codec/json-codec.js";
import { checkOf, type Key } from "../../keys/key.js";

/**
 * Describes what a load of `key` threw, for readers in other processes that wait for it, and for later ones. They get an
 * error even if it threw something else. Bounded, whatever it threw; never throws.
 */
export function writeFailure(thrown: unknown, key: Key): Uint8Array {
  const error: Error & { readonly extensions?: unknown } = toError(thrown);
  const description = {
    of: checkOf(key),
    name: textOf(() => error.name).slice(0, MAX_NAME_LENGTH),
    message: cut(textOf(() => error.message)),
    extensions: encodeExtensions(error),
  };
  return Buffer.from(JSON.stringify(description));
}

/** The most bytes of a message, and of all extensions, that others get: the rest is cut off, or left out. */
const MAX_TEXT_BYTES = 16 * 1024;
const MAX_NAME_LENGTH = 256;
/** The most bytes of a description: JSON needs up to six for a character. */
const MAX_BYTES = 16 * MAX_TEXT_BYTES;
/** Deeper parts of extensions are left out, and so are cycles. */
const MAX_DEPTH = 20;
/** What a part of extensions counts for besides its text. */
const PART_BYTES = 8;

/**
 * An error of a load in another process, with the name and message of the original, and those parts of its `extensions`
 * that can be encoded.
 */
class RemoteFailure extends Error {
  readonly extensions: Readonly<Record<string, unknown>> | undefined;

  constructor(name: string, message: string, extensions: Readonly<Record<string, unknown>> | undefined) {
    super(message);
    this.name = name;
    this.extensions = extensions;
  }
}

function textOf(read: () => unknown): string {
  try {
    return String(read());
  } catch {
    return "";
  }
}

/** Cuts off what exceeds `MAX_TEXT_BYTES` in UTF-8, at the end of a character. */
function cut(text: string): string {
  const bytes = Buffer.from(text.slice(0, MAX_TEXT_BYTES));
  if (bytes.length <= MAX_TEXT_BYTES && text.length <= MAX_TEXT_BYTES) return text;
  return bytes.toString("utf8", 0, MAX_TEXT_BYTES).replace(/\uFFFD$/, "");
}

/**
 * Encodes extensions as values are encoded: a Map of headers stays one. `code` comes first, so that no other part takes
 * its place. Undefined if there are none.
 */
function encodeExtensions(error: { readonly extensions?: unknown }): string | undefined {
  try {
    const { extensions } = error;
    if (typeof extensions !== "object" || extensions === null) return undefined;
    const names = Object.keys(extensions);
    const room = { bytes: MAX_TEXT_BYTES };
    const ordered = [...names.filter((name) => FIRST.includes(name)), ...names.filter((name) => !FIRST.includes(name))];
    const kept = ordered.flatMap((name): [string, unknown][] => {
      const before = room.bytes;
      room.bytes -= PART_BYTES + Buffer.byteLength(name);
      const part = partOf(() => (extensions as Record<string, unknown>)[name], 1, room);
      if (room.bytes >= 0 && part !== LEFT_OUT) return [[name, part]];
      room.bytes = before;
      return [];
    });
    return jsonCodec.encode(Object.fromEntries(kept)) as string;
  } catch {
    return undefined;
  }
}

/** What servers act on. */
const FIRST: readonly string[] = ["code", "http"];
const LEFT_OUT = Symbol("left out");

/**
 * Returns a copy of a part of extensions that can be encoded, without those of its own parts that cannot: what JSON makes
 * of it, except that dates, bytes, maps, sets and big integers stay what they are. Stops when there is no room.
 */
function partOf(read: () => unknown, depth: number, room: { bytes: number }): unknown {
  if (depth > MAX_DEPTH || room.bytes < 0) return LEFT_OUT;
  try {
    const value = read();
    room.bytes -= PART_BYTES;
    if (typeof value === "function" || typeof value === "symbol") return LEFT_OUT;
    if (typeof value === "bigint") room.bytes -= String(value).length;
    if (typeof value === "string") room.bytes -= value.length > room.bytes ? value.length : Buffer.byteLength(value);
    if (typeof value !== "object" || value === null || room.bytes < 0) return value;
    if (types.isUint8Array(value)) {
      room.bytes -= value.byteLength;
      return room.bytes < 0 ? LEFT_OUT : Buffer.from(value);
    }
    if (ArrayBuffer.isView(value)) return LEFT_OUT;
    return partOfObject(value, (member) => partOf(member, depth + 1, room), room);
  } catch {
    return LEFT_OUT;
  }
}

function partOfObject(value: object, copy: (read: () => unknown) => unknown, room: { bytes: number }): unknown {
  if (types.isDate(value)) return new Date(value.getTime());
  /** Copies members until there is no room; `null` stands for those that cannot be encoded. */
  const copyAll = <Member>(members: Iterable<Member>, copyOf: (member: Member) => unknown): unknown[] => {
    const copies: unknown[] = [];
    for (const member of members) {
      if (room.bytes < 0) break;
      copies.push(copyOf(member));
    }
    return copies;
  };
  const memberOf = (member: unknown): unknown => {
    const part = copy(() => member);
    return part === LEFT_OUT ? null : part;
  };
  if (Array.isArray(value)) return copyAll(value, memberOf);
  if (types.isSet(value)) return new Set(copyAll(value, memberOf));
  if (types.isMap(value))
    return new Map(copyAll(value, ([name, member]) => [memberOf(name), memberOf(member)]) as [unknown, unknown][]);
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copy(() => toJSON.call(value) as unknown);
  const fields = copyAll(Object.keys(value), (name) => {
    room.bytes -= Buffer.byteLength(name);
    return [name, copy(() => (value as Record<string, unknown>)[name])];
  }) as [string, unknown][];
  return Object.fromEntries(fields.filter(([, part]) => part !== LEFT_OUT));
}

/**
 * Returns the associated data of an encrypted failure, so that no value of the same key can replace
 * it.
 */
export const failureAad = (key: Key): string => `${key.name} failed`;

/**
 * Reads what `writeFailure` returns. Returns undefined for the failure of another key, whose
 * message may be meant for another user, and a generic error for bytes that it does not return.
 */
export function readFailure(body: Uint8Array, key: Key): Error | undefined {
  try {
    if (body.byteLength > MAX_BYTES) throw new RangeError("expected a bounded description");
    const description: unknown = JSON.parse(Buffer.from(body).toString("utf8"));
    const { of, name, message, extensions } = description as Record<string, unknown>;
    if (of !== checkOf(key)) return undefined;
    if (typeof name !== "string" || typeof message !== "string") throw new TypeError("expected texts");
    return new RemoteFailure(name, message, extensions === undefined ? undefined : decodeExtensions(extensions));
  } catch {
    return new Error("another process failed to load this value; its description cannot be read");
  }
}

function decodeExtensions(encoded: unknown): Readonly<Record<string, unknown>> {
  const extensions = jsonCodec.decode(encoded as string);
  if (typeof extensions !== "object" || extensions === null || Array.isArray(extensions))
    throw new TypeError("expected an object");
  return extensions as Readonly<Record<string, unknown>>;
}
