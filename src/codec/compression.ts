import { promisify } from "node:util";
import { constants, deflate, deflateSync, type InputType, inflateSync, type ZlibOptions } from "node:zlib";
import { Unreadable } from "./codec.js";

const deflateBeside = promisify<InputType, ZlibOptions, Buffer>(deflate);

/** Up to here compression holds the event loop up for less than handing it to another thread and back costs in trips to the store. */
const AT_ONCE_BYTES = 16 * 1024;
const FAST: ZlibOptions = { level: constants.Z_BEST_SPEED };

/**
 * Deflate with a checksum, at its fastest; undefined where that saves nothing. What is small is done at once, so that the storeRequests of one tick stay
 * one trip; what is large, beside the event loop.
 */
export async function compressed(bytes: Uint8Array): Promise<Uint8Array | undefined> {
  const smaller = bytes.byteLength <= AT_ONCE_BYTES ? deflateSync(bytes, FAST) : await deflateBeside(bytes, FAST);
  return smaller.byteLength < bytes.byteLength ? smaller : undefined;
}

/**
 * Runs at once: it takes no longer than parsing its result, which cannot run elsewhere.
 * Errors: `Unreadable` for what `compressed` did not make, and as soon as more than `maxBytes` come out of it.
 */
export function decompressed(bytes: Uint8Array, maxBytes: number): Buffer {
  try {
    return inflateSync(bytes, { maxOutputLength: Math.max(1, maxBytes) });
  } catch (cause) {
    const isTooLarge = (cause as { code?: unknown }).code === "ERR_BUFFER_TOO_LARGE";
    throw new Unreadable(isTooLarge ? TOO_LARGE : "its compressed part is damaged", cause);
  }
}

/** Said of stored values, whether compressed or not. */
export const TOO_LARGE: string = "its value is larger than this process's `maxValueBytes`";
