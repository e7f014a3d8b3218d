import { Unreadable, Unstorable } from "./codec.js";
import type { ValueType, ValueTypes } from "./value-type.js";

/** Deeper values are rejected: they are cycles, or not the result of a query. */
const MAX_DEPTH = 200;
/**
 * The only field of an object that represents a value the format lacks. A user field of this name
 * is wrapped as well.
 */
const TAG = "$gc";

/** What a format can represent itself. */
export interface Dialect {
  /**
   * Convert bytes to plain data and back. The bytes returned share no memory with the content that
   * was read.
   */
  writeBytes(bytes: Uint8Array): unknown;
  readBytes(written: unknown): Buffer;
  /** Whether the format cannot represent `text` exactly. */
  isLossy(text: string): boolean;
  /** Whether the format would misread a field called `name`. */
  isReserved(name: string): boolean;
}

/** The state of one traversal of a value. `steps` is the path to the current member. */
interface Walk {
  readonly dialect: Dialect;
  readonly types: readonly (readonly [name: string, type: ValueType])[];
  readonly steps: (string | number)[];
  isTagged: boolean;
}

/**
 * Expresses a value in strings, finite numbers, booleans, null, arrays and objects. Returns the
 * value itself if it consists of nothing else. Otherwise `{"$gc": [type, content]}` replaces
 * undefined, Date, BigInt, Map, Set, Buffer, Uint8Array, NaN, infinities, -0 and instances of value
 * types.
 * Throws `Unstorable` for other class instances, functions, symbols and promises, which could not
 * be restored.
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
  if (depth >= MAX_DEPTH) throw new Unstorable(`more than ${MAX_DEPTH} levels of nesting, or a cycle,`, "");
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
  const match = walk.types.find(([, type]) => type.is(value));
  if (match === undefined) throw new Unstorable(`an instance of ${className(prototype)}`, pathOf(walk, depth));
  const [name, type] = match;
  return tagged("c", [name, step(type.encode(value as never), ".encode()", depth, walk)], walk);
}

/** Copies the list only if a member changes, or if it has holes or comes from another realm. */
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
  // Object.fromEntries defines fields and does not assign them, so `__proto__` is an ordinary
  // field.
  return isChanged || Object.getPrototypeOf(value) === null ? Object.fromEntries(fields) : value;
}

function step(member: unknown, name: string | number, depth: number, walk: Walk): unknown {
  walk.steps[depth] = name;
  return plainOf(member, depth + 1, walk);
}

function tagged(type: string, content: unknown, walk: Walk): unknown {
  walk.isTagged = true;
  return { [TAG]: [type, content] };
}

const METHOD_STEPS = [".keys()", ".values()", ".encode()"];
/**
 * Names of other forms are not fields of a schema but keys of a dictionary: user data, which
 * messages must not show.
 */
const FIELD_NAME = /^[A-Za-z_]\w{0,63}$/;

function pathOf({ steps }: Walk, depth: number): string {
  const textOf = (name: string | number): string => {
    if (typeof name === "number") return `[${name}]`;
    if (METHOD_STEPS.includes(name)) return name;
    return FIELD_NAME.test(name) ? `.${name}` : "[…]";
  };
  return steps.slice(0, depth).map(textOf).join("");
}

function className(prototype: unknown): string {
  const name = (prototype as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof name === "string" && name !== "" ? name : "a class";
}

/**
 * Restores the value from which `toPlain` made `plain`. Needed only if `isTagged` was true. Throws
 * on other data and on unknown value types.
 */
export function fromPlain(plain: unknown, dialect: Dialect, types: ValueTypes): unknown {
  const restore = (member: unknown): unknown => {
    if (typeof member !== "object" || member === null) return member;
    if (Array.isArray(member)) return member.map(restore);
    const tag = (member as Record<string, unknown>)[TAG];
    if (Array.isArray(tag)) return restoreTagged(tag[0], tag[1], { dialect, types, restore });
    return Object.fromEntries(Object.entries(member).map(([name, field]) => [name, restore(field)]));
  };
  return restore(plain);
}

interface Restoration {
  readonly dialect: Dialect;
  readonly types: ValueTypes;
  restore(plain: unknown): unknown;
}

function restoreTagged(type: unknown, content: unknown, { dialect, types, restore }: Restoration): unknown {
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
      return new Map(pairs.map(([key, member]) => [restore(key), restore(member)]));
    case "s":
      return new Set(list.map(restore));
    case "o":
      return Object.fromEntries(pairs.map(([name, member]) => [restore(name) as string, restore(member)]));
    case "c": {
      const [name, encoded] = list as readonly [string, unknown];
      const valueType = Object.hasOwn(types, name) ? types[name] : undefined;
      if (valueType === undefined)
        throw new Unreadable("it contains an instance of a class that is not in the `types` of this process");
      return valueType.decode(restore(encoded) as never);
    }
    default:
      throw new SyntaxError("expected a known type tag");
  }
}
