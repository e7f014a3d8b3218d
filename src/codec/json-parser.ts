import { endianness } from "node:os";
import { NOTHING } from "../nothing.js";

/** Longer texts are left to `JSON.parse`: a string of a value can keep the text that it is a part of in memory. */
const MAX_LENGTH = 4_096;
/**
 * How many fields are remembered in all, and how many of them in one place. An object with another one is left to `JSON.parse`: it
 * is a dictionary, whose names do not come again.
 */
const MAX_FIELDS = 10_000;
const MAX_CHOICES = 32;
/** So many digits are an integer that a double represents exactly. */
const MAX_DIGITS = 15;
const POWERS_OF_TEN: readonly number[] = Array.from({ length: MAX_DIGITS + 1 }, (_, exponent) => 10 ** exponent);

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const UPPER_E = 0x45;
const LOWER_E = 0x65;
const LETTER_F = 0x66;
const LETTER_N = 0x6e;
const LETTER_T = 0x74;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Scratch space: the character codes of a text that is not ASCII, or whose bytes are not at hand. A 0 follows them. */
const CODES = new Uint16Array(MAX_LENGTH + 1);
const CODE_BYTES = Buffer.from(CODES.buffer);
const CAN_COPY_CODES = endianness() === "LE";
const NO_CODES = new Uint8Array(0);
/** What no text has. */
const NO_CODE = -1;
const NONE_KNOWN = new Int32Array(0);

/** The fields that were found in one place of an object: first in it, or after the same field. */
class Place {
  /** The most recent one. Undefined if none is remembered. */
  last: Field | undefined = undefined;
  fields: Field[] | undefined = undefined;
}

/** A field, its name as it is written, and what was found in its values and after them. */
class Field {
  readonly name: string;
  readonly text: string;
  /** The character codes of `text` if it is ASCII. Otherwise they are not its bytes, and `text` itself is compared. */
  readonly codes: Int32Array;
  readonly inValue = new Place();
  readonly after = new Place();

  /** `name` can be a part of the text that is parsed, which neither string of the field keeps in memory. */
  constructor(name: string) {
    this.text = `"${name}":`;
    this.name = this.text.slice(1, -2);
    this.codes = isAscii(this.text) ? Int32Array.from(Buffer.from(this.text)) : Int32Array.of(NO_CODE);
  }
}

/**
 * Thrown where a text is written in another way than `JSON.stringify` writes it, or would become something else than
 * `JSON.parse` makes of it. No Error, whose stack would take longer than to parse the text.
 */
const UNEXPECTED = Symbol("unexpected");

/**
 * Parses what `JSON.stringify` has written, to exactly what `JSON.parse` returns, in two thirds of the time: the values of a
 * cache have the same fields again and again, so the name that comes next is known, and compared as a whole. All other texts
 * are left to `JSON.parse`, but for unescaped control characters in strings, which are not looked for.
 */
export class JsonParser {
  /** Where all values begin. */
  readonly #root = new Place();
  /** A number without its sign, as JSON writes it. */
  readonly #number = /(?:0|[1-9]\d*)(?:\.\d+)?(?:[Ee][+-]?\d+)?/y;
  #fieldCount = 0;
  #text = "";
  /** The character codes of the text, from `#shift` on: its bytes, or a copy. */
  #codes: Uint8Array | Uint16Array = NO_CODES;
  #shift = 0;
  #at = 0;

  /**
   * Parses what begins at `from`; before it is nothing but space. Throws as `JSON.parse` does. `bytes`: what the text was
   * decoded from, at `bytesAt` to the end, if it is at hand. Bytes are read faster than the characters of a string.
   */
  parse(text: string, from: number, bytes: Uint8Array = NO_CODES, bytesAt = 0): unknown {
    // Only an escape sequence contains this character.
    if (text.length > MAX_LENGTH || text.includes("\\")) return JSON.parse(text);
    // No character takes less than one byte, so each takes exactly one.
    if (bytes.length - bytesAt === text.length) {
      this.#codes = bytes;
      this.#shift = bytesAt;
    } else {
      if (!CAN_COPY_CODES) return JSON.parse(text);
      CODE_BYTES.write(text, "utf16le");
      CODES[text.length] = 0;
      this.#codes = CODES;
      this.#shift = 0;
    }
    this.#text = text;
    this.#at = from;
    try {
      const value = this.#value(this.#root);
      if (this.#at === text.length) return value;
    } catch (error) {
      if (error !== UNEXPECTED) throw error;
    } finally {
      this.#text = "";
      this.#codes = NO_CODES;
    }
    return JSON.parse(text);
  }

  /** One function that calls itself: what it consists of would be called a dozen times for each value. */
  #value(place: Place): unknown {
    const text = this.#text;
    const codes = this.#codes;
    const shift = this.#shift;
    let at = this.#at;
    let code = codes[shift + at] as number;
    if (code === QUOTE) {
      const end = text.indexOf('"', ++at);
      if (end < 0) throw UNEXPECTED;
      this.#at = end + 1;
      return text.substring(at, end);
    }
    if (code === OPEN_OBJECT) {
      const object: Record<string, unknown> = {};
      code = codes[shift + ++at] as number;
      while (code !== CLOSE_OBJECT) {
        let field = place.last;
        let same = 0;
        const known = field === undefined ? NONE_KNOWN : field.codes;
        while (same < known.length && codes[shift + at + same] === known[same]) same++;
        if (field === undefined || same < known.length) field = this.#otherField(place, at);
        this.#at = at + field.text.length;
        object[field.name] = this.#value(field.inValue);
        place = field.after;
        at = this.#at;
        code = codes[shift + at] as number;
        if (code === COMMA) at++;
        else if (code !== CLOSE_OBJECT) throw UNEXPECTED;
      }
      this.#at = at + 1;
      return object;
    }
    if (code === OPEN_LIST) {
      const list: unknown[] = NOTHING.slice();
      code = codes[shift + ++at] as number;
      while (code !== CLOSE_LIST) {
        this.#at = at;
        list.push(this.#value(place));
        at = this.#at;
        code = codes[shift + at] as number;
        if (code === COMMA) at++;
        else if (code !== CLOSE_LIST) throw UNEXPECTED;
      }
      this.#at = at + 1;
      return list;
    }
    return this.#scalar(code);
  }

  /** Reads a number, true, false or null, which begins with the character `code`. */
  #scalar(code: number): number | boolean | null {
    if (code === LETTER_T) return this.#literal("true", true);
    if (code === LETTER_F) return this.#literal("false", false);
    if (code === LETTER_N) return this.#literal("null", null);
    const codes = this.#codes;
    const shift = this.#shift;
    let at = this.#at;
    const isNegative = code === MINUS;
    if (isNegative) code = codes[shift + ++at] as number;
    const from = at;
    let digits = 0;
    for (; code >= ZERO && code <= NINE; code = codes[shift + ++at] as number) digits = digits * 10 + (code - ZERO);
    let length = at - from;
    let decimals = 0;
    // A number begins with 0 only if a point follows.
    if (length === 0 || (length > 1 && codes[shift + from] === ZERO)) throw UNEXPECTED;
    if (code === POINT) {
      const point = at;
      code = codes[shift + ++at] as number;
      for (; code >= ZERO && code <= NINE; code = codes[shift + ++at] as number) digits = digits * 10 + (code - ZERO);
      decimals = at - point - 1;
      length += decimals;
      if (decimals === 0) throw UNEXPECTED;
    }
    if (length > MAX_DIGITS || code === UPPER_E || code === LOWER_E) return this.#longNumber(from, isNegative);
    this.#at = at;
    // Both are exact, so the quotient is the double that is closest to the number, as the text of a number means.
    const number = decimals === 0 ? digits : digits / (POWERS_OF_TEN[decimals] as number);
    return isNegative ? -number : number;
  }

  /** Reads a number with an exponent or many digits. */
  #longNumber(from: number, isNegative: boolean): number {
    this.#number.lastIndex = from;
    const written = this.#number.exec(this.#text)?.[0];
    if (written === undefined) throw UNEXPECTED;
    this.#at = from + written.length;
    return isNegative ? -Number(written) : Number(written);
  }

  #literal<Value>(literal: string, value: Value): Value {
    if (!this.#text.startsWith(literal, this.#at)) throw UNEXPECTED;
    this.#at += literal.length;
    return value;
  }

  /** Returns the field that begins at `at`, if it is not the most recent one of its place. */
  #otherField(place: Place, at: number): Field {
    const text = this.#text;
    for (const field of place.fields ?? [])
      if (text.startsWith(field.text, at)) {
        place.last = field;
        return field;
      }
    const end = text.indexOf('":', at + 1);
    if (text.charCodeAt(at) !== QUOTE || end < 0) throw UNEXPECTED;
    const name = text.slice(at + 1, end);
    place.fields ??= [];
    const isKnowable = place.fields.length < MAX_CHOICES && this.#fieldCount < MAX_FIELDS;
    // Assigning to what the prototype has would do something else than define it.
    if (!isKnowable || name.includes('"') || name in Object.prototype) throw UNEXPECTED;
    const field = new Field(name);
    this.#fieldCount++;
    place.fields.push(field);
    place.last = field;
    return field;
  }
}

const isAscii = (text: string): boolean => Buffer.byteLength(text) === text.length;
