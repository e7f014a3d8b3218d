import { hash } from "node:crypto";

/** The size of a Bloom filter. */
export interface BloomSize {
  readonly bits: number;
  /** How many bits each id sets. */
  readonly perId: number;
}

/** Redis strings end at 512 MB. */
const MAX_BITS = 2 ** 32;

/**
 * The smallest filter that takes `capacity` ids and then says "perhaps" to `falsePositiveRatio` of those it has not taken. Undefined where
 * Redis cannot hold it in one string.
 * Source: B. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 13(7), 1970.
 */
export function bloomSize(capacity: number, falsePositiveRatio: number): BloomSize | undefined {
  const bits = Math.ceil((-capacity * Math.log(falsePositiveRatio)) / Math.LN2 ** 2);
  const perId = Math.max(1, Math.round((bits / capacity) * Math.LN2));
  return bits > MAX_BITS ? undefined : { bits, perId };
}

/**
 * The bits of one id.
 * Source: A. Kirsch, M. Mitzenmacher, "Less Hashing, Same Performance", ESA 2006: two hashes make as many as are needed.
 */
export function bloomOffsets(id: string, { bits, perId }: BloomSize): number[] {
  const digest = hash("sha256", id, "buffer");
  // 48 bits each, so that sums of products stay exact.
  const first = digest.readUIntBE(0, 6);
  const second = digest.readUIntBE(6, 6);
  return Array.from({ length: perId }, (_, nth) => ((first % bits) + nth * (second % bits)) % bits);
}
