import type { Path } from "./path.js";

/**
 * Returns the value that a canonical text was written from, as JSON would have it: dates as ISO strings, other
 * numbers as strings if JSON has none like them, maps as lists of pairs, bytes in base64.
 * Throws `SyntaxError` for any other text.
 */
export function readValue(text: string): unknown {
  const reader = new Reader(text);
  const value = reader.value();
  reader.end();
  return value;
}

/** A part of a key with the value that it was written from. */
export interface ReadPart extends Pick<Path, "root" | "steps"> {
  readonly value: unknown;
}

/**
 * Returns the parts of a field's key, in the order of `paths`. Arguments that were absent are left out, and everything from the
 * selection on, which is no value. Throws `SyntaxError` for any other text.
 */
export function readParts(text: string, paths: readonly Path[]): ReadPart[] {
  const reader = new Reader(text);
  const parts: ReadPart[] = [];
  for (const { text: name, root, steps } of paths) {
    if (root === "selection") return parts;
    reader.take(`${name}:`);
    const part = root === "args" && steps.length > 0 ? reader.argument() : { value: reader.value() };
    reader.take(",");
    if (part !== undefined) parts.push({ root, steps, value: part.value });
  }
  return parts;
}

/** Reads what the writers in `canonical.ts` and the enum writer of the schema write. */
class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  end(): void {
    if (this.#at !== this.#text.length) throw new SyntaxError("expected the end of the text");
  }

  take(expected: string): void {
    if (!this.#text.startsWith(expected, this.#at)) throw new SyntaxError(`expected ${expected}`);
    this.#at += expected.length;
  }

  /** Returns undefined for an argument that was absent. */
  argument(): { readonly value: unknown } | undefined {
    const missing = this.#match(/(null|absent) at \d+/y);
    if (missing !== undefined) return missing.startsWith("null") ? { value: null } : undefined;
    this.take("[");
    const value = this.value();
    this.take("]");
    return { value };
  }

  value(): unknown {
    const mark = this.#text.charAt(this.#at);
    if (mark === '"') return JSON.parse(this.#expect(/"(?:[^"\\]|\\.)*"/y));
    this.#at++;
    switch (mark) {
      case "{":
        return Object.fromEntries(this.#members("}", () => this.#pair()));
      case "[":
        return this.#members("]", () => this.value());
      case "n": {
        const text = this.#expect(/-?(?:\d[\d.e+-]*|Infinity)|NaN/y);
        return Number.isFinite(Number(text)) ? Number(text) : text;
      }
      case "i":
        return this.#expect(/-?\d+/y);
      case "d": {
        const time = Number(this.#expect(/-?\d+|NaN/y));
        return Number.isNaN(time) ? "Invalid Date" : new Date(time).toISOString();
      }
      case "e":
        return this.#expect(/\w+/y);
      case "T":
        return true;
      case "F":
        return false;
      case "N":
      case "U":
        return null;
      case "B":
      case "b":
        return this.#expect(/[^;]*;/y).slice(0, -1);
      case "c":
        this.#expect(/"(?:[^"\\]|\\.)*":/y);
        return this.value();
      case "m":
        this.take("{");
        return this.#members("}", () => this.#pair());
      case "s":
        this.take("{");
        return this.#members("}", () => this.value());
      default:
        throw new SyntaxError("expected a value");
    }
  }

  #pair(): [unknown, unknown] {
    const name = this.value();
    this.take(":");
    return [name, this.value()];
  }

  #members<Member>(end: string, read: () => Member): Member[] {
    const members: Member[] = [];
    while (!this.#text.startsWith(end, this.#at)) {
      if (members.length > 0) this.take(",");
      members.push(read());
    }
    this.take(end);
    return members;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [text] = pattern.exec(this.#text) ?? [];
    if (text !== undefined) this.#at += text.length;
    return text;
  }

  #expect(pattern: RegExp): string {
    const text = this.#match(pattern);
    if (text === undefined) throw new SyntaxError("expected the rest of a value");
    return text;
  }
}
