/** Longer inputs are not remembered. */
export const MAX_MEMO_LENGTH = 256;
/** The number of inputs, in all memos of a cache, after which those that were not used again are forgotten. */
const MAX_INPUTS = 10_000;
/** The number of inputs used once of which it is known that they were used. */
const MAX_USED_ONCE = 10_000;

/**
 * Remembers what was made from the inputs of recent calls: the key of a call costs a canonical text and a
 * hash. Only inputs that are used a second time are remembered. Most inputs may never be used again, and
 * objects that are kept for a while cost the garbage collector more than the memo would save. The recency
 * of single inputs is not tracked, which would cost more than it saves.
 */
export class KeyMemo<Made> {
  readonly #memos: KeyMemos;
  readonly #seed: number;
  #recent = new Map<string | number, Made>();
  #older: Map<string | number, Made> | undefined;
  /** Whether the last input was not remembered, so that the next one may well not be either. */
  #hasMissed = false;

  /** `seed` tells the inputs of this memo from those of others. */
  constructor(memos: KeyMemos, seed: number) {
    this.#memos = memos;
    this.#seed = seed;
  }

  /** Short, so that V8 inlines it into the path of hits. */
  get(input: string | number): Made | undefined {
    const made = this.#hasMissed ? undefined : this.#recent.get(input);
    return made === undefined ? this.#find(input) : made;
  }

  #find(input: string | number): Made | undefined {
    // To look for an unknown input in maps of thousands would cost most of what the memo saves.
    if (this.#hasMissed && !this.#memos.mayRemember(input, this.#seed)) return undefined;
    let made = this.#recent.get(input);
    if (made === undefined) {
      made = this.#older?.get(input);
      if (made !== undefined) this.#keep(input, made);
    }
    this.#hasMissed = made === undefined;
    return made;
  }

  /** Remembers what was made from `input`, if it is used for the second time. */
  set(input: string | number, made: Made): void {
    if (this.#memos.isUsedAgain(input, this.#seed)) this.#keep(input, made);
  }

  clear(): void {
    this.#recent.clear();
    this.#older = undefined;
  }

  /** Forgets the inputs that were not used since the last call. Returns whether any are left. */
  forgetOlder(): boolean {
    const { size } = this.#recent;
    this.#older = size === 0 ? undefined : this.#recent;
    if (size > 0) this.#recent = new Map();
    return size > 0;
  }

  #keep(input: string | number, made: Made): void {
    this.#memos.willKeep(this, input, this.#seed);
    this.#recent.set(input, made);
  }
}

/** The memos of one cache. Together they hold between one and two times `MAX_INPUTS`. */
export class KeyMemos {
  /** Those that hold anything. */
  readonly #filled = new Set<KeyMemo<unknown>>();
  #kept = 0;
  #count = 0;
  /** The inputs that were used lately. */
  readonly #used = new InputSet();
  #usedOnce = 0;
  /** Those that the memos hold, in their recent and older maps. */
  #recent = new InputSet();
  #older = new InputSet();

  /** Returns a new memo. */
  create<Made>(): KeyMemo<Made> {
    return new KeyMemo(this, this.#count++);
  }

  /** Returns false only if the memo with `seed` does not hold `input`. */
  mayRemember(input: string | number, seed: number): boolean {
    const hash = hashOf(input, seed);
    return this.#recent.has(hash) || this.#older.has(hash);
  }

  /** Called by a memo before it remembers an input. */
  willKeep(memo: KeyMemo<unknown>, input: string | number, seed: number): void {
    if (this.#kept >= MAX_INPUTS) {
      this.#kept = 0;
      for (const filled of this.#filled) if (!filled.forgetOlder()) this.#filled.delete(filled);
      [this.#older, this.#recent] = [this.#recent, this.#older];
      this.#recent.clear();
    }
    this.#kept++;
    this.#filled.add(memo);
    this.#recent.add(hashOf(input, seed));
  }

  /** Returns whether an input of the memo with `seed` was used lately, and notes that it is used now. */
  isUsedAgain(input: string | number, seed: number): boolean {
    const hash = hashOf(input, seed);
    if (this.#used.has(hash)) return true;
    if (this.#usedOnce >= MAX_USED_ONCE) {
      this.#used.clear();
      this.#usedOnce = 0;
    }
    this.#usedOnce++;
    this.#used.add(hash);
    return false;
  }
}

/** The bits of an `InputSet`: 16 KiB. */
const INPUT_BITS = 2 ** 17;

/** A set of the hashes of inputs, of which some share a bit: it may have one that was not added. */
class InputSet {
  /** Undefined as long as the set is empty. */
  #bits: Uint8Array | undefined;

  has(hash: number): boolean {
    const bit = hash % INPUT_BITS;
    return this.#bits !== undefined && ((this.#bits[bit >> 3] as number) & (1 << (bit & 7))) !== 0;
  }

  add(hash: number): void {
    this.#bits ??= new Uint8Array(INPUT_BITS / 8);
    const bit = hash % INPUT_BITS;
    const at = bit >> 3;
    this.#bits[at] = (this.#bits[at] as number) | (1 << (bit & 7));
  }

  clear(): void {
    this.#bits?.fill(0);
  }
}

/** A number from 0 to 2^32 - 1. Multiplies as in FNV-1a. */
function hashOf(input: string | number, seed: number): number {
  const text = typeof input === "string" ? input : String(input);
  let hash = 0x811c9dc5 ^ seed;
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
