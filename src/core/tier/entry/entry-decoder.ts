import { CachedError } from "../../base/errors.js";
import { Unreadable } from "../../codec/codec.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import type { Key, Subject } from "../../keys/key.js";
import type { Entry } from "../../store/entry.js";
import { type OwnFreshness, type ReadBody, type ResponseHint, readBody } from "../../store/entry-layout.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import { type Failure, type Failures, failureAad } from "./failure.js";

/**
 * Decodes the entry of a value for the reader of `key`. Every call returns a new value. Unreadable
 * entries are reported, never thrown.
 */
export function decodeEntry(entry: Entry, key: Key, packing: Packing, channel: Channel): Decoded {
  let cause: unknown;
  try {
    const body = packing.unseal(entry.body, valueAad(key, entry));
    const parts = readBody(body, key);
    if (parts === "collision") return { kind: "collision" };
    if (parts !== undefined) {
      const content = packing.unpack(body, parts.valueAt);
      const value = packing.decode(content);
      return new DecodedValue(value, content, parts, body);
    }
  } catch (error) {
    cause = error;
  }
  reportCorrupt(key, cause, channel);
  return { kind: "corrupt" };
}

/**
 * Returns the associated data of an encrypted value: its name, and from when it counts, so that no
 * old value can be given a later position, or another age. Until when it is fresh is not part of
 * it, since the store ends that. A position says the epoch as well: it never comes back.
 */
export const valueAad = ({ name }: Pick<Key, "name">, { position, grantedAt }: Pick<Entry, "position" | "grantedAt">) =>
  `${name} ${position} ${grantedAt}`;

/** A decoded value with what its load has said about it. */
export class DecodedValue {
  readonly kind = "value";
  readonly value: unknown;
  /** What `value` was decoded from. */
  readonly content: Encoded;
  /** What the entry has besides. */
  readonly parts: ReadBody;
  /** The body of the entry. */
  readonly body: Buffer;

  constructor(value: unknown, content: Encoded, parts: ReadBody, body: Buffer) {
    this.value = value;
    this.content = content;
    this.parts = parts;
    this.body = body;
  }

  get subjects(): readonly Subject[] {
    return this.parts.subjects;
  }

  get hint(): ResponseHint | undefined {
    return this.parts.hint;
  }

  get freshness(): OwnFreshness | undefined {
    return this.parts.freshness;
  }

  /** Returns the same with another value, which is a copy. */
  with(value: unknown): DecodedValue {
    return new DecodedValue(value, this.content, this.parts, this.body);
  }
}

/**
 * The content of a value's entry. `corrupt`: it cannot be read. `collision`: it belongs to another
 * key. Both count as absent.
 */
export type Decoded = DecodedValue | { readonly kind: "corrupt" } | { readonly kind: "collision" };

/** Returns what a value's entry has besides the value. Undefined if that cannot be read. */
export function partsIn(entry: Entry, key: Key, packing: Packing): ReadBody | undefined {
  try {
    const parts = readBody(packing.unseal(entry.body, valueAad(key, entry)), key);
    return parts === "collision" ? undefined : parts;
  } catch {
    // Decoding the entry reports it.
    return undefined;
  }
}

/**
 * Decodes the failure of a load. Returns undefined, and reports it, if it cannot be read or belongs
 * to another key.
 */
export function decodeFailure(
  body: Uint8Array,
  key: Key,
  { packing, failures, channel }: { readonly packing: Packing; readonly failures: Failures; readonly channel: Channel },
): Failure | undefined {
  let cause: unknown;
  try {
    const failure = failures.read(packing.unseal(body, failureAad(key)), key);
    if (failure !== undefined) return failure;
  } catch (error) {
    cause = error;
  }
  reportCorrupt(key, cause, channel);
  return undefined;
}

function reportCorrupt(key: Key, cause: unknown, channel: Channel): void {
  const [reason, remedy] =
    cause instanceof Unreadable
      ? [cause.message, "use the same `codec`, `types`, `storage.maxValueBytes` and `encryption` in all processes"]
      : ["its bytes are damaged or of another format", OTHERS];
  report(key, reason, remedy, cause, channel);
}

/** Reports an entry whose times or positions no load can have. */
export const reportImplausible = (key: Key, reason: string, channel: Channel): void =>
  report(key, reason, OTHERS, undefined, channel);

const OTHERS = "check what else writes under this prefix";

function report(key: Key, reason: string, remedy: string, cause: unknown, channel: Channel): void {
  const { coordinate } = key;
  const error = new CachedError(
    "CACHED_ENTRY_CORRUPT",
    `\`${coordinate}\`: a stored entry cannot be read, so the value is loaded again: ${reason}; ${remedy}`,
    { coordinate, cause },
  );
  channel.publish({ name: "entry.corrupt", ...subjectOf(key), error });
}
