import { isPlainObject } from "../../base/built-in.js";
import { StoredText } from "../../codec/packing.js";

export class ValueSize {
  /** The names of properties that other values have as well: they take no memory of their own. */
  readonly #names = new Set<string>();

  /**
   * Returns about how many bytes a value takes. What is in it twice counts once. Instances of
   * classes, which can refer to anything, are taken to be as large as `encodedBytes`, the size of
   * the whole value in the store.
   */
  of(value: unknown, encodedBytes: number): number {
    const seen = new Set<object>();
    const bytes = this.#of(value, seen);
    return seen.has(INSTANCE) ? Math.max(bytes, encodedBytes) : bytes;
  }

  #of(value: unknown, seen: Set<object>): number {
    if (typeof value === "string") return bytesOfText(value);
    if (typeof value === "number") return (value | 0) === value ? 0 : NUMBER_BYTES;
    if (typeof value === "bigint") return BIGINT_BYTES;
    if (value instanceof StoredText) return bytesOfText(value.text) * (1 + PARSED_RATIO);
    if (typeof value !== "object" || value === null || seen.has(value)) return 0;
    seen.add(value);
    if (value instanceof Date) return DATE_BYTES;
    if (ArrayBuffer.isView(value)) return BUFFER_BYTES + value.byteLength;
    let bytes = 0;
    if (Array.isArray(value)) {
      for (const element of value) bytes += this.#of(element, seen);
      return ARRAY_BYTES + value.length * WORD_BYTES + bytes;
    }
    if (value instanceof Map || value instanceof Set) {
      for (const member of value.values()) bytes += this.#of(member, seen);
      if (value instanceof Map) for (const key of value.keys()) bytes += this.#of(key, seen);
      return COLLECTION_BYTES + value.size * COLLECTION_ENTRY_BYTES + bytes;
    }
    if (!isPlainObject(value)) {
      seen.add(INSTANCE);
      return OBJECT_BYTES;
    }
    const names = Object.keys(value);
    const isTable = names.length > MAX_SHARED_NAMES;
    for (const name of names) {
      bytes += isTable ? TABLE_ENTRY_BYTES + bytesOfText(name) : WORD_BYTES + this.#ofName(name);
      bytes += this.#of((value as Readonly<Record<string, unknown>>)[name], seen);
    }
    return OBJECT_BYTES + bytes;
  }

  #ofName(name: string): number {
    if (this.#names.has(name)) return 0;
    if (this.#names.size === MAX_KNOWN_NAMES) this.#names.clear();
    if (name.length <= MAX_KNOWN_NAME_LENGTH) this.#names.add(name);
    return NEW_NAME_BYTES + bytesOfText(name);
  }
}

/** Bytes of V8 in Node.js with words of 8, by `heapUsed` after `gc` for many values of a shape. */
const WORD_BYTES = 8;
const HEADER_BYTES = 16;
const OBJECT_BYTES = 24;
const ARRAY_BYTES = 48;
/** A number that is no small integer. */
const NUMBER_BYTES = 16;
const BIGINT_BYTES = 32;
const DATE_BYTES = 96;
const BUFFER_BYTES = 240;
const COLLECTION_BYTES = 150;
const COLLECTION_ENTRY_BYTES = 32;
/** An object with more properties is a hash table. Others share what describes their properties. */
const MAX_SHARED_NAMES = 128;
const TABLE_ENTRY_BYTES = 48;
/** What the name of a property takes besides its text, if no other object describes it. */
const NEW_NAME_BYTES = 80;
const MAX_KNOWN_NAMES = 5_000;
const MAX_KNOWN_NAME_LENGTH = 100;
/** Stands for all instances of classes that were seen. */
const INSTANCE = {};
/** The memory of the data of a response, by that of its text: both are kept. */
const PARSED_RATIO = 2;
const NOT_LATIN_1 = /[^\0-\xff]/;

/** Two bytes a character if one is not in Latin-1. V8 has each text of one character once. */
function bytesOfText(text: string): number {
  if (text.length <= 1) return 0;
  const bytes = HEADER_BYTES + text.length * (NOT_LATIN_1.test(text) ? 2 : 1);
  return Math.ceil(bytes / WORD_BYTES) * WORD_BYTES;
}
