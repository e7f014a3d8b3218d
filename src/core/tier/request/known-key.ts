import { getOrMake } from "../../base/multimap.js";
import type { Key, Subject } from "../../keys/key.js";
import type { ResponseHint } from "../../store/entry-layout.js";
import type { RequestTags } from "./tags.js";

/**
 * One key, as long as it is remembered. There is one object for a key, so that what a process knows
 * of it, such as its value in memory and its place in the read of the tick, is a property of the
 * key and not a lookup.
 */
export class KnownKey {
  /**
   * Until when its value in memory is fresh and not due for an early refresh, on the clock of this
   * process: a whole number. 0: there is none.
   */
  until = 0;
  /** The `changes` of the invalidation clock up to which the value in memory has been compared. */
  comparedAt = 0;
  copies: Copies = "shared";
  value: unknown = undefined;
  kept: Kept | undefined = undefined;
  /** What the tick that collects reads now knows of it. */
  cell: object | undefined = undefined;

  /** `tags`: those that are known before a load. */
  constructor(
    readonly key: Key,
    readonly tags: RequestTags,
    public row: Row = UNREMEMBERED,
  ) {}
}

/** How readers get a value. `flat`: copies of an object without objects in it. */
export type Copies = "shared" | "flat" | "plain" | "decoded";

/** What is known of a value in memory besides. Instants are on the clock of this process. */
export interface Kept {
  readonly position: number;
  readonly subjects: readonly Subject[];
  /** When what has shown the value was sent to the store. */
  readonly readAt: number;
  readonly freshUntilAt: number;
  readonly grantedAt: number;
  readonly hint: ResponseHint | undefined;
  readonly bytes: number;
  /** What makes the value for a reader, if `copies` is "decoded". */
  readonly decode: (() => unknown) | undefined;
  /** The last check that the value has passed, which further hits do not repeat. */
  passed: unknown;
}

export function forget(known: KnownKey): void {
  known.until = 0;
  known.value = undefined;
  known.kept = undefined;
}

/** The keys that fields make of one input in the same way: those of one parent, for example. */
export interface Row {
  readonly keys: (KnownKey | undefined)[];
  /** In which it was last used. */
  generation: number;
}

const NO_GENERATION = 0;

const UNREMEMBERED: Row = { keys: [], generation: NO_GENERATION };

export const isRemembered = ({ row }: KnownKey): boolean => row.generation !== NO_GENERATION;

/** Whether a value may be kept. If the key does not decide about tags, others may know better. */
export const canBeKept = ({ row, tags }: KnownKey): boolean => row.generation !== NO_GENERATION && !tags.isOwn;

/**
 * All memos of a cache. Bounds by bytes what they remember, values included, in two generations:
 * what was not used while one of them filled up is forgotten when the next one begins.
 */
export class Memos {
  nth = NO_GENERATION + 1;
  readonly #byGroup = new Map<string, Memo>();
  #bytes = 0;
  #oldBytes = 0;

  constructor(private readonly maxBytes: number) {}

  /** `group`: the same for fields that make their keys from the same value. */
  of(group: string): Memo {
    return getOrMake(this.#byGroup, group, () => new Memo(this));
  }

  /** About how much memory they take. */
  get bytes(): number {
    return this.#bytes + this.#oldBytes;
  }

  /** Counts what a row grows by. One of the old generation may be forgotten then. */
  grow(bytes: number, row: Row): void {
    if (row.generation === this.nth) this.#bytes += bytes;
    else this.#oldBytes += bytes;
    if (this.#bytes > this.maxBytes / 2 || this.bytes > this.maxBytes) this.#rotate();
  }

  /** Moves a row to the young generation. */
  renew(bytes: number, row: Row): void {
    this.#oldBytes -= bytes;
    row.generation = this.nth;
    this.grow(bytes, row);
  }

  #rotate(): void {
    this.nth++;
    this.#oldBytes = this.#bytes;
    this.#bytes = 0;
    for (const memo of this.#byGroup.values()) memo.rotate();
  }
}

/** The keys of fields that make their keys in the same way, by the texts of their inputs. */
export class Memo {
  #young = new Map<string, Row>();
  #old = new Map<string, Row>();
  #lastInput: string | undefined = undefined;
  #last: Row = UNREMEMBERED;
  readonly #slots = new Map<string, number>();

  constructor(private readonly memos: Memos) {}

  /**
   * Returns the place in the rows for what makes the same keys, and reads them by the same policy:
   * a schema can be applied, and a loader created, for every request.
   */
  slotOf(name: string): number {
    return getOrMake(this.#slots, name, () => this.#slots.size);
  }

  /** The fields of one parent are asked one after the other, with the same string. */
  row(input: string): Row {
    if (input === this.#lastInput) return this.#last;
    const row = this.#young.get(input) ?? this.#find(input);
    this.#lastInput = input;
    this.#last = row;
    return row;
  }

  remember(known: KnownKey, slot: number): void {
    const { row } = known;
    while (row.keys.length <= slot) row.keys.push(undefined);
    const earlier = row.keys[slot];
    if (earlier !== undefined) {
      if (isRemembered(earlier)) this.memos.grow(-KEY_BYTES - (earlier.kept?.bytes ?? 0), row);
      forget(earlier);
      earlier.row = UNREMEMBERED;
    }
    row.keys[slot] = known;
    if (isRemembered(known)) this.memos.grow(KEY_BYTES, row);
  }

  #find(input: string): Row {
    const known = this.#old.get(input);
    const row: Row = known ?? { keys: [], generation: NO_GENERATION };
    if (input.length > MAX_INPUT_LENGTH) return row;
    this.#young.set(input, row);
    if (known === undefined) {
      row.generation = this.memos.nth;
      this.memos.grow(ROW_BYTES + 2 * input.length, row);
    } else {
      this.#old.delete(input);
      this.memos.renew(bytesOf(input, row), row);
    }
    return row;
  }

  rotate(): void {
    for (const row of this.#old.values()) {
      row.generation = NO_GENERATION;
      for (const known of row.keys) if (known !== undefined) forget(known);
    }
    this.#old = this.#young;
    this.#young = new Map();
    this.#lastInput = undefined;
  }
}

function bytesOf(input: string, { keys }: Row): number {
  let bytes = ROW_BYTES + 2 * input.length;
  for (const known of keys) if (known !== undefined) bytes += KEY_BYTES + (known.kept?.bytes ?? 0);
  return bytes;
}

/** Longer inputs are not remembered. */
const MAX_INPUT_LENGTH = 512;
/** What a row and a key take besides, about. */
const ROW_BYTES = 120;
const KEY_BYTES = 480;
