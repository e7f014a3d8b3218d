import { Unreadable } from "../codec/codec.js";
import type { Packing } from "../codec/packing.js";
import { CachedError } from "../errors.js";
import type { Key } from "../keys/key.js";
import { type ResponseHint, type ResultTag, readBody } from "../store/body.js";
import type { Entry } from "../store/entry.js";
import type { Channel } from "../telemetry/channel.js";
import { failureOf, readFailure } from "./failure.js";

/** A value, the tags that its own load gave it, and what the load said of its response. */
export interface DecodedValue {
  readonly kind: "value";
  readonly value: unknown;
  readonly resultTags: readonly ResultTag[];
  readonly hint: ResponseHint | undefined;
}

/** What is in a value's entry; `corrupt` and `collision` are as good as absent. */
export type Decoded = DecodedValue | { readonly kind: "corrupt" } | { readonly kind: "collision" };

/** Opens an entry for the reader of `key`; a new value on every call. An entry that cannot be read is told of, and never throws. */
export function decodeEntry(entry: Entry, key: Key, packing: Packing, channel: Channel): Decoded {
  let cause: unknown;
  try {
    const body = readBody(packing.unseal(entry.body, key.name));
    if (body !== undefined) {
      if (body.input !== key.input) return { kind: "collision" };
      const { resultTags, hint } = body;
      return { kind: "value", value: packing.decode(packing.unpack(body.value)), resultTags, hint };
    }
  } catch (error) {
    cause = error;
  }
  tellCorrupt(key, cause, channel);
  return { kind: "corrupt" };
}

/** Opens what another process told of its failed load; undefined, and told of, where that cannot be decrypted or is about another key. */
export function decodeFailure(body: Uint8Array, key: Key, packing: Packing, channel: Channel): Error | undefined {
  let cause: unknown;
  try {
    const failure = readFailure(packing.unseal(body, failureOf(key)), key);
    if (failure !== undefined) return failure;
  } catch (error) {
    cause = error;
  }
  tellCorrupt(key, cause, channel);
  return undefined;
}

function tellCorrupt({ coordinate, digest }: Key, cause: unknown, channel: Channel): void {
  const [what, remedy] =
    cause instanceof Unreadable
      ? [
          `: ${cause.message}`,
          "see that all processes have the same `codec`, `types`, `maxValueBytes` and `encryption`",
        ]
      : ["", "look for what else writes under this prefix"];
  const error = new CachedError(
    "CACHED_ENTRY_CORRUPT",
    `an entry of \`${coordinate}\` was expected to be readable and is not${what}; it is loaded again, ${remedy}`,
    { coordinate, cause },
  );
  channel.publish({ name: "entry.corrupt", coordinate, digest, error });
}
