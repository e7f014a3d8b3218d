/** The length of a version of the control record or of a tag. */
export const VERSION_BYTES = 16;
const TIME_BYTES = 8;
/** JavaScript and Lua count exactly up to this. */
const MAX_MICROS = Number.MAX_SAFE_INTEGER;

/**
 * How far a time in the store may be ahead of the store's clock, which may have gone back: a day. One that is further
 * ahead was not made by the library, and nothing that is made later could replace it.
 */
export const MAX_AHEAD_MS = 24 * 3_600_000;

/**
 * Returns whether `version` can be a version of the control record at `now`, the store's time. What cannot is no version:
 * the record counts as lost.
 */
export const isControlVersion = (version: string, now = Number.POSITIVE_INFINITY): boolean =>
  version.length === VERSION_BYTES &&
  version.charCodeAt(0) === 0 &&
  version.charCodeAt(1) < 0x20 &&
  timeOfVersion(version) <= now + MAX_AHEAD_MS;

/** Returns when a version was made, in milliseconds on the store's clock. */
export const timeOfVersion = (version: string): number => microsOf(version) / 1000;

/**
 * Returns a version made at `now`, in milliseconds on the store's clock, that is larger than
 * `replaced`. `unique` is 8 bytes that were never used before.
 */
export function nextControlVersion(now: number, unique: Buffer, replaced: string | undefined): string {
  const atLeast = replaced === undefined ? 0 : microsOf(replaced) + 1;
  const bytes = Buffer.alloc(VERSION_BYTES);
  bytes.writeBigUInt64BE(BigInt(Math.min(MAX_MICROS, Math.max(Math.floor(now * 1000), atLeast))));
  unique.copy(bytes, TIME_BYTES);
  return bytes.toString("latin1");
}

/** Returns the larger of two versions. Strings of bytes compare byte by byte. */
export function largerVersion(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one < other ? other : one;
}

const microsOf = (version: string): number =>
  Number(Buffer.from(version.slice(0, TIME_BYTES), "latin1").readBigUInt64BE());
