import { Unreadable } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { CachedError } from "../errors.js";
import type { Key } from "../keys/key.js";
import { type ResponseHint, type ResultTags, readBody } from "../store/body.js";
import type { Entry } from "../store/entry.js";
import type { Channel } from "../telemetry/channel.js";
import { failureAad, readFailure } from "./failure.js";

/** A decoded value with the tags derived from it and the cache hint of its load. */
export interface DecodedValue {
  readonly kind: "value";
  readonly value: unknown;
  readonly resultTags: ResultTags | undefined;
  readonly hint: ResponseHint | undefined;
  /** See `Body.softSignature`. */
  readonly softSignature: string;
}

/**
 * The content of a value's entry. `corrupt`: it cannot be read. `collision`: it belongs to another
 * key. Both count as absent.
 */
export type Decoded = DecodedValue | { readonly kind: "corrupt" } | { readonly kind: "collision" };

/**
 * Decodes the entry of a value for the reader of `key`. Every call returns a new value. Unreadable
 * entries are reported, never thrown.
 */
export function decodeEntry(entry: Entry, key: Key, packing: Packing, channel: Channel): Decoded {
  let cause: unknown;
  try {
    const body = readBody(packing.unseal(entry.body, key.name));
    if (body !== undefined) {
      if (body.input !== key.input) return { kind: "collision" };
      const { resultTags, hint, softSignature } = body;
      return { kind: "value", value: packing.decode(packing.unpack(body.value)), resultTags, hint, softSignature };
    }
  } catch (error) {
    cause = error;
  }
  reportCorrupt(key, cause, channel);
  return { kind: "corrupt" };
}

/**
 * Decodes the failure of a load in another process. Returns undefined, and reports it, if the
 * failure cannot be decrypted or belongs to another key.
 */
export function decodeFailure(body: Uint8Array, key: Key, packing: Packing, channel: Channel): Error | undefined {
  let cause: unknown;
  try {
    const failure = readFailure(packing.unseal(body, failureAad(key)), key);
    if (failure !== undefined) return failure;
  } catch (error) {
    cause = error;
  }
  reportCorrupt(key, cause, channel);
  return undefined;
}

function reportCorrupt({ coordinate, digest }: Key, cause: unknown, channel: Channel): void {
  const [reason, remedy] =
    cause instanceof Unreadable
      ? [cause.message, "use the same `codec`, `types`, `maxValueBytes` and `encryption` in all processes"]
      : ["its bytes are damaged or of another format", "check what else writes under this prefix"];
  const error = new CachedError(
    "CACHED_ENTRY_CORRUPT",
    `\`${coordinate}\`: a stored entry cannot be read, so the value is loaded again: ${reason}; ${remedy}`,
    { coordinate, cause },
  );
  channel.publish({ name: "entry.corrupt", coordinate, digest, error });
}
