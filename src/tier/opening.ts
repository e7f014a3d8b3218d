import type { Codec } from "../codec/codec.js";
import { CachedError } from "../errors.js";
import type { Key } from "../keys/key.js";
import { type ResultTag, readBody } from "../store/body.js";
import type { Entry } from "../store/entry.js";
import type { Channel } from "../telemetry/channel.js";

/** What is in a value's entry; `corrupt` and `collision` are as good as absent. */
export type Opened =
  | { readonly kind: "value"; readonly value: unknown; readonly resultTags: readonly ResultTag[] }
  | { readonly kind: "corrupt" }
  | { readonly kind: "collision" };

/** Opens an entry for the reader of `key`; a new value on every call. An entry that cannot be read is told of, and never throws. */
export function openEntry(entry: Entry, key: Key, codec: Codec, channel: Channel): Opened {
  const { coordinate, digest } = key;
  let cause: unknown;
  try {
    const body = readBody(entry.body);
    if (body !== undefined) {
      if (body.echo !== key.echo) return { kind: "collision" };
      return { kind: "value", value: codec.decode(body.text), resultTags: body.resultTags };
    }
  } catch (error) {
    cause = error;
  }
  const error = new CachedError(
    "CACHED_ENTRY_CORRUPT",
    `an entry of \`${coordinate}\` was expected to be readable and is not; it is loaded again, look for what else writes under this prefix`,
    { coordinate, cause },
  );
  channel.publish({ name: "entry.corrupt", coordinate, digest, error });
  return { kind: "corrupt" };
}
