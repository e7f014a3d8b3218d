/** Longer inputs are not remembered. */
export const MAX_MEMO_LENGTH = 256;
/** The number of inputs, in all memos of a cache, after which those that were not used again are forgotten. */
const MAX_INPUTS = 10_000;
/** The number of inputs used once of which it is known that they were used. */
const MAX_USED_ONCE = 10_000;

/** The number of inputs of one tick that are remembered until it ends. */
const MAX_IN_TICK = 1_000;

/**
 * Remembers what was made from the inputs of recent calls: the key of a call costs a canonical text and a
 * hash. Until a tick ends, all its inputs are remembered, since several requests may read the same keys. After it, only those
 * that are used in another tick: most may never be used again, and objects that are kept for a while cost the garbage
 * collector more than the memo would save. The recency of single inputs is not tracked, which would cost more than it saves.
 */
export class KeyMemo<Made> {
  readonly #memos: KeyMemos;
  readonly #seed: number;
  #recent = new Map<string | number, Made>();
  #older: Map<string | number, Made> | undefined;
  /** What was made in this tick from inputs that are not remembered for longer: each input, and what was made from it. */
  #ofTick: (string | number | Made)[] = Array.of();
  /** The same by input. Undefined until one is used again. */
  #byInput: Map<string | number, Made> | undefined;
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
    const hash = hashOf(input, this.#seed);
    if (this.#memos.isOfTick(hash)) {
      const made = this.#findInTick(input);
      if (made !== undefined) return made;
    }
    // To look for an unknown input in maps of thousands would cost most of what the memo saves.
    if (this.#hasMissed && !this.#memos.mayRemember(hash)) return undefined;
    let made = this.#recent.get(input);
    if (made === undefined) {
      made = this.#older?.get(input);
      if (made !== undefined) this.#keep(input, made, hash);
    }
    this.#hasMissed = made === undefined;
    return made;
  }

  #findInTick(input: string | number): Made | undefined {
    if (this.#byInput === undefined) {
      this.#byInput = new Map();
      for (let at = 0; at < this.#ofTick.length; at += 2)
        this.#byInput.set(this.#ofTick[at] as string | number, this.#ofTick[at + 1] as Made);
    }
    return this.#byInput.get(input);
  }

  /** Remembers what was made from `input` until the tick ends, or for longer if it was used in another tick before. */
  set(input: string | number, made: Made): void {
    const hash = hashOf(input, this.#seed);
    if (this.#memos.isUsedAgain(hash)) this.#keep(input, made, hash);
    else {
      this.#memos.useInTick(hash, this);
      if (this.#byInput === undefined) this.#ofTick.push(input, made);
      else this.#byInput.set(input, made);
    }
  }

  clear(): void {
    this.#recent.clear();
    this.#older = undefined;
    this.endTick();
  }

  endTick(): void {
    this.#ofTick = Array.of();
    this.#byInput = undefined;
  }

  /** Forgets the inputs that were not used since the last call. Returns whether any are left. */
  forgetOlder(): boolean {
    const { size } = this.#recent;
    this.#older = size === 0 ? undefined : this.#recent;
    if (size > 0) this.#recent = new Map();
    return size > 0;
  }

  #keep(input: string | number, made: Made, hash: number): void {
    this.#memos.willKeep(this, hash);
    this.#recent.set(input, made);
  }
}

/** The memos of one cache. Together they hold between one and two times `MAX_INPUTS`. */
export class KeyMemos {
  /** Those that hold anything. */
  readonly #filled = new Set<KeyMemo<unknown>>();
  #kept = 0;
  #count = 0;
  /** The inputs that were used in earlier ticks, and how many they are. */
  readonly #used = new InputSet();
  #usedOnce = 0;
  /** Those that are used in this tick, and the memos that they belong to. */
  readonly #usedInTick = new InputSet();
  readonly #hashesOfTick = new Uint32Array(MAX_IN_TICK);
  #countOfTick = 0;
  readonly #memosOfTick = new Set<KeyMemo<unknown>>();
  #lastOfTick: KeyMemo<unknown> | undefined = undefined;
  /** Those that the memos hold, in their recent and older maps. */
  #recent = new InputSet();
  #older = new InputSet();

  /** Returns a new memo. */
  create<Made>(): KeyMemo<Made> {
    return new KeyMemo(this, this.#count++);
  }

  /** Returns false only if no memo holds the input with this hash for longer than a tick. */
  mayRemember(hash: number): boolean {
    return this.#recent.has(hash) || this.#older.has(hash);
  }

  /** Returns false only if no input with this hash was used in this tick for the first time. */
  isOfTick(hash: number): boolean {
    return this.#usedInTick.has(hash);
  }

  /** Called by a memo before it remembers an input for longer than a tick. */
  willKeep(memo: KeyMemo<unknown>, hash: number): void {
    if (this.#kept >= MAX_INPUTS) {
      this.#kept = 0;
      for (const filled of this.#filled) if (!filled.forgetOlder()) this.#filled.delete(filled);
      [this.#older, this.#recent] = [this.#recent, this.#older];
      this.#recent.clear();
    }
    this.#kept++;
    this.#filled.add(memo);
    this.#recent.add(hash);
  }

  /** Returns whether the input with this hash was used in an earlier tick. */
  isUsedAgain(hash: number): boolean {
    return this.#used.has(hash);
  }

  /** Notes that an input of `memo` is used in this tick, which the memo remembers until the tick ends. */
  useInTick(hash: number, memo: KeyMemo<unknown>): void {
    if (this.#countOfTick === MAX_IN_TICK) this.endTick();
    this.#usedInTick.add(hash);
    this.#hashesOfTick[this.#countOfTick++] = hash;
    if (this.#lastOfTick !== memo) {
      this.#lastOfTick = memo;
      this.#memosOfTick.add(memo);
    }
  }

  /** Ends a tick: what was used in it for the first time is forgotten, but for that it was used. */
  endTick(): void {
    if (this.#lastOfTick === undefined) return;
    for (const memo of this.#memosOfTick) memo.endTick();
    this.#memosOfTick.clear();
    this.#lastOfTick = undefined;
    for (let nth = 0; nth < this.#countOfTick; nth++) {
      const hash = this.#hashesOfTick[nth] as number;
      this.#usedInTick.remove(hash);
      if (this.#usedOnce >= MAX_USED_ONCE) {
        this.#used.clear();
        this.#usedOnce = 0;
      }
      this.#usedOnce++;
      this.#used.add(hash);
    }
    this.#countOfTick = 0;
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

  /** Removes the inputs that share a bit with `hash` as well. */
  remove(hash: number): void {
    const bit = hash % INPUT_BITS;
    const at = bit >> 3;
    if (this.#bits !== undefined) this.#bits[at] = (this.#bits[at] as number) & ~(1 << (bit & 7));
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
