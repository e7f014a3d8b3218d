import { CachedError } from "../errors.js";

/** Deeper input is rejected: it is an attack or a cycle. */
const MAX_DEPTH = 64;
/** Longer text is rejected: keys are not meant to hold documents. */
const MAX_LENGTH = 65_536;

/**
 * Returns `input` as text. Two inputs have the same text exactly if a resolver could not tell them
 * apart: every type has its own marker (1 differs from "1"), object fields and the members of maps
 * and sets are sorted, and an object field that is undefined counts as absent.
 *
 * Throws `CACHED_KEY_UNSERIALIZABLE` for functions, symbols, promises, class instances, cycles, and
 * input of more than 64 levels or 65,536 characters.
 */
export function canonicalize(input: unknown): string {
  const text = write(input, 0);
  if (text.length > MAX_LENGTH) throw unserializable(`expected at most ${MAX_LENGTH} characters, got ${text.length}`);
  return text;
}

function write(input: unknown, depth: number): string {
  if (depth > MAX_DEPTH) throw unserializable(`expected at most ${MAX_DEPTH} levels of nesting, got more`);
  switch (typeof input) {
    case "string":
      return JSON.stringify(input);
    case "number":
      return Object.is(input, -0) ? "n-0" : `n${input}`;
    case "boolean":
      return input ? "T" : "F";
    case "bigint":
      return `i${input}`;
    case "undefined":
      return "U";
    case "object":
      return input === null ? "N" : writeObject(input, depth);
    default:
      throw unserializable(`expected plain data, got a ${typeof input}`);
  }
}

function writeObject(input: object, depth: number): string {
  if (Array.isArray(input)) return `[${input.map((member) => write(member, depth + 1)).join(",")}]`;
  if (input instanceof Date) return `d${input.getTime()}`;
  if (input instanceof Uint8Array) return `b${Buffer.from(input).toString("base64")};`;
  if (input instanceof Map) {
    const members = [...input].map(([key, value]) => `${write(key, depth + 1)}:${write(value, depth + 1)}`);
    return `m{${members.sort(byCodeUnits).join(",")}}`;
  }
  if (input instanceof Set)
    return `s{${[...input]
      .map((member) => write(member, depth + 1))
      .sort(byCodeUnits)
      .join(",")}}`;
  const prototype: unknown = Object.getPrototypeOf(input);
  if (prototype !== Object.prototype && prototype !== null)
    throw unserializable("expected plain data, got an instance of a class");
  const fields: string[] = [];
  for (const name of Object.keys(input).sort(byCodeUnits)) {
    const value: unknown = (input as Record<string, unknown>)[name];
    if (value !== undefined) fields.push(`${JSON.stringify(name)}:${write(value, depth + 1)}`);
  }
  return `{${fields.join(",")}}`;
}

/** The caller adds where, and how to fix it. */
const unserializable = (mistake: string): CachedError =>
  new CachedError("CACHED_KEY_UNSERIALIZABLE", `key input: ${mistake}`);

/** Locale-independent, so every machine sorts alike. */
const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : Number(a > b));
