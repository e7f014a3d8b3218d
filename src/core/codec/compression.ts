import { promisify } from "node:util";
import { constants, deflate, deflateSync, type InputType, inflateSync, type ZlibOptions } from "node:zlib";
import { Unreadable } from "./codec.js";

/**
 * Compresses with deflate (zlib format, with a checksum) at its fastest level. Returns undefined if
 * that saves nothing. Small content is compressed synchronously, so that the writes of one tick
 * still share one pipeline; large content is compressed in the thread pool.
 */
export async function compress(bytes: Uint8Array): Promise<Uint8Array | undefined> {
  const smaller =
    bytes.byteLength <= SYNC_MAX_BYTES ? deflateSync(bytes, FASTEST) : await deflateInThreadPool(bytes, FASTEST);
  return smaller.byteLength < bytes.byteLength ? smaller : undefined;
}

const deflateInThreadPool = promisify<InputType, ZlibOptions, Buffer>(deflate);

/**
 * Up to this size, compressing blocks the event loop for less time than a hop to the thread pool
 * costs in extra pipelines.
 */
const SYNC_MAX_BYTES = 16 * 1024;
const FASTEST: ZlibOptions = { level: constants.Z_BEST_SPEED };

/**
 * Decompresses synchronously: it takes no longer than parsing the result, which cannot leave the
 * event loop anyway.
 * Throws `Unreadable` for bytes that `compress` did not produce, and as soon as the output exceeds
 * `maxBytes`.
 */
export function decompress(bytes: Uint8Array, maxBytes: number): Buffer {
  try {
    return inflateSync(bytes, { maxOutputLength: Math.max(1, maxBytes) });
  } catch (cause) {
    const isTooLarge = (cause as { code?: unknown }).code === "ERR_BUFFER_TOO_LARGE";
    throw new Unreadable(isTooLarge ? TOO_LARGE : "its compressed content is damaged", cause);
  }
}

/** The message for stored values over the limit, compressed or not. */
export const TOO_LARGE: string = "its value is larger than `maxValueBytes` in this process";
