import { NOTHING } from "../nothing.js";

/** Longer inputs are not remembered. */
export const MAX_MEMO_LENGTH = 256;
/** Few enough for the processor's caches: to find a key in main memory takes nearly as long as to make it. */
const MAX_INPUTS = 2_000;
/** The number of inputs of one tick that are remembered until it ends. */
const MAX_IN_TICK = 1_000;

/** A paused memo looks at one in so many inputs, chosen by hash, to find out whether they are used again. */
const SAMPLE = 16;
/** It resumes when its sample has shown so many more repeated uses than first uses. */
const MAX_REUSES = 16;

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
  #ofTick: (string | number | Made)[] = NOTHING.slice();
  /** The positions of the inputs in it. Undefined until it is searched. */
  #positions: Map<string | number, number> | undefined;
  /** The position after that of the last input that was found in it: several requests may read the same keys in the same order. */
  #next = 0;
  /** Whether the last input was not remembered for longer than the tick, so that the next one may well not be either. */
  #hasMissed = false;
  /** By how much more often inputs were found than used for the first time, before `#hits`. At 0, the memo pauses. */
  #credit: number;
  /** How often inputs were found since the last one that was used for the first time. */
  #hits = 0;
  /** While the memo is paused: how many more inputs of the sample were used again than for the first time. Undefined: it is not. */
  #reuses: number | undefined;

  /** `seed` tells the inputs of this memo from those of others. */
  constructor(memos: KeyMemos, seed: number) {
    this.#memos = memos;
    this.#seed = seed;
    this.#credit = memos.maxCredit;
  }

  /** Short, so that V8 inlines it into the path of hits. */
  get(input: string | number): Made | undefined {
    const made = this.#hasMissed ? undefined : this.#recent.get(input);
    if (made === undefined) return this.#find(input);
    this.#hits++;
    return made;
  }

  #find(input: string | number): Made | undefined {
    if (this.#reuses !== undefined) return undefined;
    if (this.#ofTick[this.#next] === input) return this.#takeInTick(this.#next);
    const hash = hashOf(input, this.#seed);
    const uses = this.#memos.usesOf(hash);
    if ((uses & IN_TICK) !== 0) {
      const position = this.#positionInTick(input);
      if (position !== undefined) return this.#takeInTick(position);
    }
    // To look for an unknown input in maps of thousands would cost most of what the memo saves.
    if (this.#hasMissed && (uses & (RECENT | OLDER)) === 0) return undefined;
    // If the last input was not missed, `get` has just looked there.
    let made = this.#hasMissed ? this.#recent.get(input) : undefined;
    if (made === undefined) {
      made = this.#older?.get(input);
      if (made !== undefined) this.#keep(input, made, hash);
    }
    this.#hasMissed = made === undefined;
    if (made !== undefined) this.#hits++;
    return made;
  }

  #takeInTick(position: number): Made {
    this.#hits++;
    this.#hasMissed = true;
    this.#next = position + 2;
    return this.#ofTick[position + 1] as Made;
  }

  #positionInTick(input: string | number): number | undefined {
    if (this.#ofTick[0] === input) return 0;
    if (this.#positions === undefined) {
      this.#positions = new Map();
      for (let at = 0; at < this.#ofTick.length; at += 2) this.#positions.set(this.#ofTick[at] as string | number, at);
    }
    return this.#positions.get(input);
  }

  /** Remembers what was made from `input` until the tick ends, or for longer if it was used in another tick before. */
  set(input: string | number, made: Made): void {
    const hash = hashOf(input, this.#seed);
    if (this.#reuses !== undefined) {
      if (hash % SAMPLE === 0) this.#observe(hash);
    } else if ((this.#memos.usesOf(hash) & USED) !== 0) {
      this.#hits++;
      this.#keep(input, made, hash);
    } else {
      this.#memos.useInTick(hash, this);
      this.#positions?.set(input, this.#ofTick.length);
      this.#next = this.#ofTick.push(input, made);
      this.#credit = Math.min(this.#credit + this.#hits, this.#memos.maxCredit) - 1;
      this.#hits = 0;
      if (this.#credit === 0) this.#pause();
    }
  }

  /** Most inputs are used once, or not again before they would be forgotten. To remember them costs more than it saves. */
  #pause(): void {
    this.clear();
    this.#hasMissed = true;
    this.#reuses = 0;
  }

  /** Notes that an input of the sample was used, and goes on if most of them were used before. */
  #observe(hash: number): void {
    const reuses = this.#reuses as number;
    const isUsed = (this.#memos.usesOf(hash) & USED) !== 0;
    if (!isUsed) this.#memos.use(hash, SAMPLE);
    this.#reuses = Math.max(reuses + (isUsed ? 1 : -1), 0);
    if (this.#reuses < MAX_REUSES) return;
    this.#reuses = undefined;
    this.#credit = this.#memos.maxCredit;
  }

  clear(): void {
    this.#recent.clear();
    this.#older = undefined;
    this.endTick();
  }

  endTick(): void {
    this.#ofTick = NOTHING.slice();
    this.#positions = undefined;
    this.#next = 0;
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

/** The memos of one cache. Together they hold up to twice `maxInputs`. */
export class KeyMemos {
  /** The number of inputs, each used for the first time, after which a memo is paused that has saved nothing. */
  readonly maxCredit: number;
  readonly #maxInputs: number;
  /** Those that hold anything. */
  readonly #filled = new Set<KeyMemo<unknown>>();
  #kept = 0;
  #count = 0;
  readonly #uses = new InputUses();
  #usedOnce = 0;
  /** The inputs that are used in this tick for the first time, and the memos that they belong to. */
  readonly #hashesOfTick = new Uint32Array(MAX_IN_TICK);
  #countOfTick = 0;
  readonly #memosOfTick = new Set<KeyMemo<unknown>>();
  #lastOfTick: KeyMemo<unknown> | undefined = undefined;

  /** `maxInputs`: the number of inputs used again after which those that were not are forgotten. */
  constructor(maxInputs = MAX_INPUTS) {
    this.#maxInputs = maxInputs;
    this.maxCredit = 2 * maxInputs;
  }

  /** Returns a new memo. */
  create<Made>(): KeyMemo<Made> {
    return new KeyMemo(this, this.#count++);
  }

  /** Returns how the input with this hash was used, or another one that shares its place. */
  usesOf(hash: number): number {
    return this.#uses.of(hash);
  }

  /** Called by a memo before it remembers an input for longer than a tick. */
  willKeep(memo: KeyMemo<unknown>, hash: number): void {
    if (this.#kept >= this.#maxInputs) {
      this.#kept = 0;
      for (const filled of this.#filled) if (!filled.forgetOlder()) this.#filled.delete(filled);
      this.#uses.forgetOlder();
    }
    this.#kept++;
    this.#filled.add(memo);
    this.#uses.add(hash, RECENT);
  }

  /** Notes that an input of `memo` is used in this tick, which the memo remembers until the tick ends. */
  useInTick(hash: number, memo: KeyMemo<unknown>): void {
    if (this.#countOfTick === MAX_IN_TICK) this.endTick();
    this.#uses.add(hash, IN_TICK);
    this.#hashesOfTick[this.#countOfTick++] = hash;
    if (this.#lastOfTick !== memo) {
      this.#lastOfTick = memo;
      this.#memosOfTick.add(memo);
    }
  }

  /** Ends a tick: forgets what was made from inputs that were new in it, and remembers only that they were used. */
  endTick(): void {
    if (this.#lastOfTick === undefined) return;
    for (const memo of this.#memosOfTick) memo.endTick();
    this.#memosOfTick.clear();
    this.#lastOfTick = undefined;
    for (let nth = 0; nth < this.#countOfTick; nth++) {
      const hash = this.#hashesOfTick[nth] as number;
      this.#uses.endTick(hash);
      this.use(hash, 1);
    }
    this.#countOfTick = 0;
  }

  /** Notes that an input was used, which stands for `count` inputs. */
  use(hash: number, count: number): void {
    if (this.#usedOnce >= this.#maxInputs) {
      this.#uses.forgetUsed();
      this.#usedOnce = 0;
    }
    this.#usedOnce += count;
    this.#uses.add(hash, USED);
  }
}

/** In an earlier tick. */
const USED = 1;
/** In this tick, for the first time. */
const IN_TICK = 2;
/** A memo holds the input in its recent map, or in the older one. */
const RECENT = 4;
const OLDER = 8;

/** The number of inputs that are told apart, a power of 2. */
const PLACES = 2 ** 17;
/** Two inputs share a byte, and four bytes a number when all of them change. */
const OF_ALL = 0x1111_1111;

/**
 * How inputs were used, by their hashes, of which some share a place. One place for all that is known of an input: what was not
 * read for a while is not in the caches of the processor.
 */
class InputUses {
  /** 64 KiB, once an input was used. */
  #bytes: Uint8Array | undefined;
  #numbers: Uint32Array | undefined;

  of(hash: number): number {
    if (this.#bytes === undefined) return 0;
    const place = hash % PLACES;
    return ((this.#bytes[place >> 1] as number) >> ((place & 1) << 2)) & 15;
  }

  add(hash: number, use: number): void {
    if (this.#bytes === undefined) {
      this.#numbers = new Uint32Array(PLACES / 8);
      this.#bytes = new Uint8Array(this.#numbers.buffer);
    }
    const place = hash % PLACES;
    const at = place >> 1;
    this.#bytes[at] = (this.#bytes[at] as number) | (use << ((place & 1) << 2));
  }

  /** Also ends the tick for the inputs that share the place. */
  endTick(hash: number): void {
    const place = hash % PLACES;
    const at = place >> 1;
    const shift = (place & 1) << 2;
    const bytes = this.#bytes as Uint8Array;
    bytes[at] = (bytes[at] as number) & ~(IN_TICK << shift);
  }

  forgetUsed(): void {
    const numbers = this.#numbers as Uint32Array;
    for (let nth = 0; nth < numbers.length; nth++) numbers[nth] = (numbers[nth] as number) & ~(OF_ALL * USED);
  }

  /** What was recent is older now. */
  forgetOlder(): void {
    const numbers = this.#numbers as Uint32Array;
    for (let nth = 0; nth < numbers.length; nth++) {
      const uses = numbers[nth] as number;
      numbers[nth] = (uses & (OF_ALL * (USED | IN_TICK))) | ((uses & (OF_ALL * RECENT)) << 1);
    }
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
