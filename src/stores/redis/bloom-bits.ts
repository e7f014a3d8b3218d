import { hash } from "node:crypto";

/** The size of a Bloom filter. */
export interface BloomSize {
  /** Length of the filter in bits. */
  readonly bits: number;
  /** Number of bits that each id sets. */
  readonly bitsPerId: number;
}

/** The maximum length of a Redis string: 512 MB, in bits. */
const MAX_BITS = 2 ** 32;

/**
 * Returns the size of the smallest filter that, with `capacity` ids in it, reports at most
 * `falsePositiveRatio` of all other ids as present. Undefined if that exceeds the maximum length of
 * a Redis string.
 * Source: B. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 13(7), 1970.
 */
export function bloomSize(capacity: number, falsePositiveRatio: number): BloomSize | undefined {
  const bits = Math.ceil((-capacity * Math.log(falsePositiveRatio)) / Math.LN2 ** 2);
  const bitsPerId = Math.max(1, Math.round((bits / capacity) * Math.LN2));
  return bits > MAX_BITS ? undefined : { bits, bitsPerId };
}

/**
 * Returns the offsets of the bits of one id. They are derived from two hashes by double hashing.
 * Source: A. Kirsch, M. Mitzenmacher, "Less Hashing, Same Performance: Building a Better Bloom
 * Filter", ESA 2006.
 */
export function bloomOffsets(id: string, { bits, bitsPerId }: BloomSize): number[] {
  const digest = hash("sha256", id, "buffer");
  // 48 bits each, so that the products and sums below stay exact.
  const first = digest.readUIntBE(0, 6);
  const second = digest.readUIntBE(6, 6);
  return Array.from({ length: bitsPerId }, (_, nth) => ((first % bits) + nth * (second % bits)) % bits);
}
