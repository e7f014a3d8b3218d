import { VERSION_BYTES } from "../store/control-version.js";
import { readEntry } from "../store/entry-layout.js";
import { type TagVersion, WRITE_IN_PROGRESS } from "../store/store.js";

/**
 * Reads what is at the key of a tag, at `now` on the server's clock. Returns undefined for anything
 * that is neither a version nor a write in progress: the tag then counts as one without a version.
 * The Lua function `readTag` decides the same way.
 */
export function readTagVersion(bytes: Buffer, now: number): TagVersion {
  // A version begins with a time of less than 2^53 microseconds. It is twice as long after a soft invalidation.
  if (bytes.length === VERSION_BYTES || bytes.length === 2 * VERSION_BYTES)
    return bytes[0] === 0 && (bytes[1] as number) < 0x20 ? bytes.toString("latin1") : undefined;
  const entry = readEntry(bytes);
  return entry?.state === "write-in-progress" && entry.untilAt > now ? WRITE_IN_PROGRESS : undefined;
}
