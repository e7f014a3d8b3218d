import { readEntry } from "../../core/store/entry-layout.js";
import type { Wake } from "../../core/store/store.js";

/** The bytes before the key: its length (u16, little endian) and the lease chain that has ended. */
const LENGTH_BYTES = 2;
const HEAD_BYTES = LENGTH_BYTES + 16;

/**
 * Parses a wake-up message, written by `wakeWaiters`. Returns undefined for any other message: every
 * client of the server may publish on the channel.
 */
export function readWakeup(message: Buffer): Parameters<Wake> | undefined {
  if (message.length < HEAD_BYTES) return undefined;
  const keyEnd = HEAD_BYTES + message.readUInt16LE(0);
  if (message.length < keyEnd) return undefined;
  const entry = message.length > keyEnd ? readEntry(message.subarray(keyEnd)) : undefined;
  return [message.toString("utf8", HEAD_BYTES, keyEnd), entry, message.toString("latin1", LENGTH_BYTES, HEAD_BYTES)];
}
