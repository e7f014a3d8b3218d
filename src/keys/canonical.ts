import { CachedError } from "../errors.js";

/** Deeper input is refused: it is an attack or a cycle. */
const MAX_DEPTH = 64;
/** Longer text is refused: a key is not a place for documents. */
const MAX_LENGTH = 65_536;

/**
 * Writes `input` as text so that two inputs have the same text exactly when a resolver could not tell them apart:
 * every type has a tag of its own (1 is not "1", null is not absent), the fields of objects and the members of maps and sets are sorted,
 * and an object's field that is undefined counts as absent.
 *
 * Errors: `CACHED_KEY_UNSERIALIZABLE` for functions, symbols, promises, class instances, cycles, more than 64 levels or 65,536 characters.
 */
export function canonical(input: unknown): string {
  const text = write(input, 0);
  if (text.length > MAX_LENGTH)
    throw refusal(
      `at most ${MAX_LENGTH} characters were expected, ${text.length} came`,
      "name the arguments that matter in `key`",
    );
  return text;
}

function write(input: unknown, depth: number): string {
  if (depth > MAX_DEPTH)
    throw refusal(`at most ${MAX_DEPTH} levels were expected`, "name the arguments that matter in `key`");
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
      throw refusal(`plain data was expected, a ${typeof input} came`, "name the parts that matter in `key`");
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
    throw refusal("plain data was expected, an instance of a class came", "name the parts that matter in `key`");
  const fields: string[] = [];
  for (const name of Object.keys(input).sort(byCodeUnits)) {
    const value: unknown = (input as Record<string, unknown>)[name];
    if (value !== undefined) fields.push(`${JSON.stringify(name)}:${write(value, depth + 1)}`);
  }
  return `{${fields.join(",")}}`;
}

const refusal = (what: string, remedy: string): CachedError =>
  new CachedError("CACHED_KEY_UNSERIALIZABLE", `an input of the key cannot be written: ${what}; ${remedy}`);

/** The same order on every machine, whatever its language. */
const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : Number(a > b));
