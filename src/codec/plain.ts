import { Unreadable, Unstorable } from "./codec.js";
import type { ValueType, ValueTypes } from "./value-type.js";

/** Deeper values are refused: they are cycles, or no answers to a query. */
const MAX_DEPTH = 200;
/** The only field of an object that stands for a value a format does not know. A user's own field of this name is wrapped too. */
const TAG = "$gc";

/** What a format is able to write by itself. */
export interface Dialect {
  /** How bytes stand in plain data, and back; what comes back shares no memory with what was read. */
  writeBytes(bytes: Uint8Array): unknown;
  readBytes(written: unknown): Buffer;
  /** Whether the format would change this text. */
  isLossy(text: string): boolean;
  /** Whether the format would misread a field of this name. */
  isReserved(name: string): boolean;
}

/** One walk through a value: `steps` says how it came to where it is. */
interface Walk {
  readonly dialect: Dialect;
  readonly types: readonly (readonly [name: string, type: ValueType])[];
  readonly steps: (string | number)[];
  isTagged: boolean;
}

/**
 * What a value is in strings, finite numbers, booleans, null, lists and objects: the value itself where it is nothing else, and otherwise with
 * `{"$gc": [type, content]}` in the places of undefined, Date, BigInt, Map, Set, Buffer, Uint8Array, NaN, infinities, -0 and value types.
 * Errors: `Unstorable` for class instances, functions, symbols and promises, since what came back would be something else.
 */
export function toPlain(value: unknown, dialect: Dialect, types: ValueTypes): { plain: unknown; isTagged: boolean } {
  const walk: Walk = { dialect, types: Object.entries(types), steps: [], isTagged: false };
  const plain = plainOf(value, 0, walk);
  return { plain, isTagged: walk.isTagged };
}

function plainOf(value: unknown, depth: number, walk: Walk): unknown {
  switch (typeof value) {
    case "string":
      return walk.dialect.isLossy(value) ? tagged("w", JSON.stringify(value), walk) : value;
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value) && !Object.is(value, -0)) return value;
      return tagged("n", Object.is(value, -0) ? "-0" : String(value), walk);
    case "undefined":
      return tagged("u", 0, walk);
    case "bigint":
      return tagged("i", String(value), walk);
    case "object":
      return value === null ? null : plainOfObject(value, depth, walk);
    default:
      throw new Unstorable(`a ${typeof value}`, pathOf(walk, depth));
  }
}

function plainOfObject(value: object, depth: number, walk: Walk): unknown {
  if (depth >= MAX_DEPTH) throw new Unstorable(`more than ${MAX_DEPTH} levels, or a cycle,`, "");
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return plainOfFields(value, depth, walk);
  if (Array.isArray(value) && className(prototype) === "Array") return plainOfList(value, depth, walk);
  const { writeBytes } = walk.dialect;
  switch (prototype) {
    case Date.prototype:
      return tagged("d", String((value as Date).getTime()), walk);
    case Buffer.prototype:
      return tagged("b", writeBytes(value as Buffer), walk);
    case Uint8Array.prototype:
      return tagged("y", writeBytes(value as Uint8Array), walk);
    case Map.prototype: {
      const pairs = [...(value as Map<unknown, unknown>)].map(([key, member]) => [
        step(key, ".keys()", depth, walk),
        step(member, ".values()", depth, walk),
      ]);
      return tagged("m", pairs, walk);
    }
    case Set.prototype: {
      const members = [...(value as Set<unknown>)].map((member) => step(member, ".values()", depth, walk));
      return tagged("s", members, walk);
    }
    default:
      return plainOfInstance(value, prototype, depth, walk);
  }
}

function plainOfInstance(value: object, prototype: unknown, depth: number, walk: Walk): unknown {
  const found = walk.types.find(([, type]) => type.is(value));
  if (found === undefined) throw new Unstorable(`an instance of ${className(prototype)}`, pathOf(walk, depth));
  const [name, type] = found;
  return tagged("c", [name, step(type.encode(value as never), ".encode()", depth, walk)], walk);
}

/** Copied only where a member changes, or the list is not quite one of ours: with holes, or from another realm. */
function plainOfList(list: readonly unknown[], depth: number, walk: Walk): unknown {
  let copy = Object.getPrototypeOf(list) === Array.prototype ? undefined : Array.from(list);
  for (let index = 0; index < list.length; index++) {
    const member = list[index];
    const plain = step(member, index, depth, walk);
    if (plain === member && copy === undefined) continue;
    copy ??= Array.from(list);
    copy[index] = plain;
  }
  return copy ?? list;
}

function plainOfFields(value: object, depth: number, walk: Walk): unknown {
  let isChanged = false;
  let isReserved = false;
  const fields = Object.entries(value) as [string, unknown][];
  for (const field of fields) {
    const [name, member] = field;
    isReserved ||= name === TAG || walk.dialect.isReserved(name);
    const plain = step(member, name, depth, walk);
    if (plain === member) continue;
    isChanged = true;
    field[1] = plain;
  }
  if (isReserved)
    return tagged(
      "o",
      fields.map(([name, member]) => [plainOf(name, depth, walk), member]),
      walk,
    );
  // Defined, never assigned: a field named __proto__ is one like any other.
  return isChanged || Object.getPrototypeOf(value) === null ? Object.fromEntries(fields) : value;
}

function step(member: unknown, by: string | number, depth: number, walk: Walk): unknown {
  walk.steps[depth] = by;
  return plainOf(member, depth + 1, walk);
}

function tagged(type: string, content: unknown, walk: Walk): unknown {
  walk.isTagged = true;
  return { [TAG]: [type, content] };
}

const MEMBERS = [".keys()", ".values()", ".encode()"];
/** Other names are no field's of a schema: users' data, where an object is used as a dictionary. */
const FIELD_NAME = /^[A-Za-z_]\w{0,63}$/;

function pathOf({ steps }: Walk, depth: number): string {
  const written = (by: string | number): string =>
    typeof by === "number" ? `[${by}]` : MEMBERS.includes(by) ? by : FIELD_NAME.test(by) ? `.${by}` : "[…]";
  return steps.slice(0, depth).map(written).join("");
}

function className(prototype: unknown): string {
  const maker = (prototype as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof maker === "string" && maker !== "" ? maker : "a class";
}

/** The value that `toPlain` made `plain` of; for tagged ones only. Errors: throws on what `toPlain` did not make, and on unknown value types. */
export function fromPlain(plain: unknown, dialect: Dialect, types: ValueTypes): unknown {
  const restored = (member: unknown): unknown => {
    if (typeof member !== "object" || member === null) return member;
    if (Array.isArray(member)) return member.map(restored);
    const tag = (member as Record<string, unknown>)[TAG];
    if (Array.isArray(tag)) return restoreTagged(tag[0], tag[1], { dialect, types, restored });
    return Object.fromEntries(Object.entries(member).map(([name, field]) => [name, restored(field)]));
  };
  return restored(plain);
}

interface Return {
  readonly dialect: Dialect;
  readonly types: ValueTypes;
  restored(plain: unknown): unknown;
}

function restoreTagged(type: unknown, content: unknown, { dialect, types, restored }: Return): unknown {
  const text = content as string;
  const list = content as readonly unknown[];
  const pairs = content as readonly (readonly [unknown, unknown])[];
  switch (type) {
    case "n":
      return Number(text);
    case "u":
      return undefined;
    case "i":
      return BigInt(text);
    case "w":
      return JSON.parse(text) as unknown;
    case "d":
      return new Date(Number(text));
    case "b":
      return dialect.readBytes(content);
    case "y":
      return new Uint8Array(dialect.readBytes(content));
    case "m":
      return new Map(pairs.map(([key, member]) => [restored(key), restored(member)]));
    case "s":
      return new Set(list.map(restored));
    case "o":
      return Object.fromEntries(pairs.map(([name, member]) => [restored(name) as string, restored(member)]));
    case "c": {
      const [name, encoded] = list as readonly [string, unknown];
      const known = Object.hasOwn(types, name) ? types[name] : undefined;
      if (known === undefined)
        throw new Unreadable("it holds an instance of a class that this process's `types` do not name");
      return known.decode(restored(encoded) as never);
    }
    default:
      throw new SyntaxError("an unknown type was stored");
  }
}
