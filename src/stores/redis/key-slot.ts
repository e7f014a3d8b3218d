/** The hash slots of a Redis Cluster. */
const SLOTS = 16_384;

/** CRC16-CCITT (XMODEM) of every byte, the checksum that Redis Cluster uses. */
const CRC16: readonly number[] = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) !== 0 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});

/**
 * Returns the part of a key that decides its hash slot: what is between the first `{` and the next
 * `}`, or the whole key if there is nothing.
 * Source: Redis Cluster specification, "Hash tags".
 */
function hashTagIn(key: string): string {
  const open = key.indexOf("{");
  const close = open === -1 ? -1 : key.indexOf("}", open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

/**
 * Returns the hash slot of a key.
 * Source: Redis Cluster specification, "Key distribution model".
 */
export function slotOfKey(key: string): number {
  let crc = 0;
  for (const byte of Buffer.from(hashTagIn(key), "utf8"))
    crc = ((crc << 8) ^ (CRC16[(crc >> 8) ^ byte] as number)) & 0xffff;
  return crc % SLOTS;
}
