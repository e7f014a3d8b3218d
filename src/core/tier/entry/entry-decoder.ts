import { attempt } from "../../base/built-in.js";
import { CachedError } from "../../base/errors.js";
import { Unreadable } from "../../codec/codec.js";
import type { Encoded, Packing } from "../../codec/packing.js";
import type { Key } from "../../keys/key.js";
import type { Entry } from "../../store/entry.js";
import { type ReadBody, readBody } from "../../store/entry-layout.js";
import { type Channel, subjectOf } from "../../telemetry/channel.js";
import { type Failure, type Failures, failureAad } from "./failure.js";

/** Every call returns a new value. Unreadable entries are reported, never thrown. */
export function decodeEntry(entry: Entry, key: Key, packing: Packing, channel: Channel): Decoded {
  let cause: unknown;
  try {
    const body = packing.unseal(entry.body, valueAad(key, entry));
    const parts = readBody(body, key);
    if (parts === "collision") return { kind: "collision" };
    if (parts !== undefined) {
      const content = packing.unpack(body, parts.valueAt);
      return { kind: "value", value: packing.decode(content), content, parts };
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

/** A decoded value, what it was decoded from, and what its load has said about it. */
export interface DecodedValue {
  readonly kind: "value";
  readonly value: unknown;
  readonly content: Encoded;
  readonly parts: ReadBody;
}

/** `corrupt`: it cannot be read. `collision`: it belongs to another key. Both count as absent. */
export type Decoded = DecodedValue | { readonly kind: "corrupt" } | { readonly kind: "collision" };

/** Returns what a value's entry has besides the value. Undefined if that cannot be read. */
export function partsIn(entry: Entry, key: Key, packing: Packing): ReadBody | undefined {
  // Decoding the entry reports what it throws.
  const parts = attempt(() => readBody(packing.unseal(entry.body, valueAad(key, entry)), key));
  return parts === "collision" ? undefined : parts;
}

/** Undefined, and reported, if the failure cannot be read or belongs to another key. */
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

export const reportImplausible = (key: Key, reason: string, channel: Channel): void =>
  report(key, reason, OTHERS, undefined, channel);

const OTHERS = "check what else writes under this prefix";

function report(key: Key, reason: string, remedy: string, cause: unknown, channel: Channel): void {
  const { coordinate } = key;
  const mistake = `\`${coordinate}\`: a stored entry cannot be read, so the value is loaded again: ${reason}; ${remedy}`;
  const error = new CachedError("CACHED_ENTRY_CORRUPT", mistake, { coordinate, cause });
  channel.publish({ name: "entry.corrupt", ...subjectOf(key), error });
}
