import { hardPartOf } from "../store/store.js";

/** The number of tags whose digests are remembered. Then all are forgotten. */
const MAX_DIGESTS = 10_000;

/** The digest of one tag and its version: two halves of 32 bits. */
interface TagDigest {
  readonly version: string;
  readonly low: number;
  readonly high: number;
}

/**
 * Makes the signatures of entries, and remembers what single tags with their current versions add to them:
 * the values of a tick share most of their tags.
 */
export class TagSignatures {
  readonly #digests = new Map<string, TagDigest>();

  /**
   * Returns the digest of `scope` and of the names and versions of tags, 8 bytes: see "signature" in
   * PROTOCOL.md. Computed for every hit with tags, so it is not a cryptographic hash, which would take
   * longer than parsing a small value. It need not be one: the versions contain at least 8 random bytes
   * that no client can choose or see, and the names are digests.
   */
  of(scope: string, names: readonly string[], versions: readonly string[]): string {
    const mixer = new Mixer();
    mixer.addText(scope);
    for (let nth = 0; nth < names.length; nth++) {
      const { low, high } = this.#digestOf(names[nth] as string, versions[nth] as string);
      mixer.addBlock(low);
      mixer.addBlock(high);
    }
    mixer.end(names.length);
    return mixer.bytes();
  }

  #digestOf(name: string, version: string): TagDigest {
    const known = this.#digests.get(name);
    if (known !== undefined && known.version === version) return known;
    if (known === undefined && this.#digests.size >= MAX_DIGESTS) this.#digests.clear();
    const mixer = new Mixer();
    mixer.addText(name);
    mixer.addText(hardPartOf(version));
    mixer.end(0);
    const digest = { version, low: mixer.low, high: mixer.high };
    this.#digests.set(name, digest);
    return digest;
  }
}

/**
 * Mixes blocks of four bytes, with the multipliers and rotations of MurmurHash3, into two halves of 32
 * bits that depend on each other. Source: A. Appleby, "MurmurHash3", 2011, x86 variants.
 */
class Mixer {
  low = 0x2b2ae35;
  high = 0x5ebca6b;

  addBlock(block: number): void {
    const mixed = Math.imul(block, 0xcc9e2d51);
    const product = Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
    const low = this.low ^ product;
    this.low = (Math.imul((low << 13) | (low >>> 19), 5) + this.high) | 0;
    const high = this.high ^ Math.imul(product, 0x38b34ae5);
    this.high = (Math.imul((high << 17) | (high >>> 15), 5) + this.low) | 0;
  }

  /** Adds a text of bytes, and its length. */
  addText(text: string): void {
    const whole = text.length - (text.length % 4);
    for (let at = 0; at < whole; at += 4) this.addBlock(fourBytesAt(text, at));
    this.addBlock(lastBytesOf(text, whole));
  }

  end(count: number): void {
    this.low = avalanche(this.low ^ count);
    this.high = avalanche((this.high + this.low) | 0);
    this.low = (this.low + this.high) | 0;
  }

  bytes(): string {
    const { low, high } = this;
    return String.fromCharCode(
      low & 0xff,
      (low >>> 8) & 0xff,
      (low >>> 16) & 0xff,
      low >>> 24,
      high & 0xff,
      (high >>> 8) & 0xff,
      (high >>> 16) & 0xff,
      high >>> 24,
    );
  }
}

const fourBytesAt = (text: string, at: number): number =>
  text.charCodeAt(at) |
  (text.charCodeAt(at + 1) << 8) |
  (text.charCodeAt(at + 2) << 16) |
  (text.charCodeAt(at + 3) << 24);

/** What is left of a text, and its length. */
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
