import { hardPartOf } from "../store/store.js";

/**
 * Returns the digest of `scope` and of the names and versions of tags, 8 bytes: see "signature" in
 * PROTOCOL.md. Computed for every hit with tags, so it is not a cryptographic hash, which would take
 * longer than parsing a small value. It need not be one: the versions contain at least 8 random bytes
 * that no client can choose or see, and the names are digests.
 *
 * Each text is mixed in with its length, four bytes at a time, with the multipliers and rotations of
 * MurmurHash3, into two halves of 32 bits that depend on each other. Source: A. Appleby,
 * "MurmurHash3", 2011, x86 variants.
 */
export function tagSignature(scope: string, names: readonly string[], versions: readonly string[]): string {
  let low = 0x2b2ae35;
  let high = 0x5ebca6b;
  const texts = 1 + 2 * names.length;
  for (let nth = 0; nth < texts; nth++) {
    const text = textAt(nth, scope, names, versions);
    const whole = text.length - (text.length % 4);
    for (let at = 0; at <= whole; at += 4) {
      // The last block has the length and what is left of the text.
      const block = at < whole ? fourBytesAt(text, at) : lastBytesOf(text, whole);
      const mixed = Math.imul(block, 0xcc9e2d51);
      const product = Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
      low ^= product;
      low = (Math.imul((low << 13) | (low >>> 19), 5) + high) | 0;
      high ^= Math.imul(product, 0x38b34ae5);
      high = (Math.imul((high << 17) | (high >>> 15), 5) + low) | 0;
    }
  }
  low = avalanche(low ^ texts);
  high = avalanche((high + low) | 0);
  low = (low + high) | 0;
  return String.fromCharCode(...bytesOf(low), ...bytesOf(high));
}

/** The scope, and then in turn the name and the version of each tag. */
function textAt(nth: number, scope: string, names: readonly string[], versions: readonly string[]): string {
  if (nth === 0) return scope;
  return nth % 2 === 1 ? (names[(nth - 1) / 2] as string) : hardPartOf(versions[nth / 2 - 1] as string);
}

const fourBytesAt = (text: string, at: number): number =>
  text.charCodeAt(at) |
  (text.charCodeAt(at + 1) << 8) |
  (text.charCodeAt(at + 2) << 16) |
  (text.charCodeAt(at + 3) << 24);

function lastBytesOf(text: string, from: number): number {
  let block = text.length;
  for (let at = from; at < text.length; at++) block = Math.imul(block, 257) ^ text.charCodeAt(at);
  return block;
}

/** Lets every bit of a number depend on all others. */
function avalanche(number: number): number {
  const half = Math.imul(number ^ (number >>> 16), 0x85ebca6b);
  const whole = Math.imul(half ^ (half >>> 13), 0xc2b2ae35);
  return whole ^ (whole >>> 16);
}

const bytesOf = (number: number): readonly number[] => [
  number & 0xff,
  (number >>> 8) & 0xff,
  (number >>> 16) & 0xff,
  number >>> 24,
];
