/** Longer inputs are not remembered. */
export const MAX_MEMO_LENGTH = 256;
/** The number of inputs after which the ones that were not used again are forgotten. */
const MAX_INPUTS = 2_000;
/** The number of inputs used once of which a memo knows that they were used, and the bits for that: 2 KiB. */
const MAX_USED_ONCE = 2_000;
const USED_BITS = 2 ** 14;

/**
 * Remembers what was made from the inputs of recent calls: the key of a call costs a canonical text and a
 * hash. Only inputs that are used a second time are remembered. Most inputs may never be used again, and
 * objects that are kept for a while cost the garbage collector more than the memo would save. Holds
 * between one and two times `MAX_INPUTS`. The recency of single inputs is not tracked, which would cost
 * more than it saves.
 */
export class KeyMemo<Made> {
  #recent = new Map<string | number, Made>();
  #older = new Map<string | number, Made>();
  /** A bit for each input that was used lately, by its hash. An input that shares its bit counts as used. */
  #used: Uint8Array | undefined;
  #usedOnce = 0;

  get(input: string | number): Made | undefined {
    const recent = this.#recent.get(input);
    if (recent !== undefined) return recent;
    if (this.#older.size === 0) return undefined;
    const older = this.#older.get(input);
    if (older !== undefined) this.#keep(input, older);
    return older;
  }

  /** Remembers what was made from `input`, if it is used for the second time. */
  set(input: string | number, made: Made): void {
    if (this.#isUsedAgain(input)) this.#keep(input, made);
  }

  clear(): void {
    this.#recent.clear();
    this.#older.clear();
  }

  #keep(input: string | number, made: Made): void {
    if (this.#recent.size >= MAX_INPUTS) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(input, made);
  }

  #isUsedAgain(input: string | number): boolean {
    this.#used ??= new Uint8Array(USED_BITS / 8);
    const bit = hashOf(input) % USED_BITS;
    const mask = 1 << (bit & 7);
    const bits = this.#used[bit >> 3] as number;
    if ((bits & mask) !== 0) return true;
    if (this.#usedOnce >= MAX_USED_ONCE) {
      this.#used.fill(0);
      this.#usedOnce = 0;
    }
    this.#usedOnce++;
    this.#used[bit >> 3] = (this.#used[bit >> 3] as number) | mask;
    return false;
  }
}

/** A number from 0 to 2^32 - 1. Multiplies as in FNV-1a. */
function hashOf(input: string | number): number {
  const text = typeof input === "string" ? input : String(input);
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/**
 * Whether a value can be an input of a memo as it is. Objects can change, and -0 and 0 would be one
 * input.
 */
export const isMemoInput = (value: unknown): value is string | number =>
  typeof value === "string" ? value.length <= MAX_MEMO_LENGTH : typeof value === "number" && !Object.is(value, -0);

/**
 * Returns a value as part of the input of a memo: two values have the same text exactly if they are the
 * same, also as the beginning of a longer text. Undefined if the value is not remembered.
 */
export function memoText(value: unknown): string | undefined {
  switch (typeof value) {
    case "string":
      return value.length <= MAX_MEMO_LENGTH ? `${value.length}:${value}` : undefined;
    case "number":
      return Object.is(value, -0) ? undefined : `n${value},`;
    case "boolean":
      return value ? "T" : "F";
    case "undefined":
      return "U";
    case "object":
      return value === null ? "N" : undefined;
    default:
      return undefined;
  }
}
