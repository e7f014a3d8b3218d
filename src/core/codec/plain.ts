import { types as nodeTypes } from "node:util";
import { type BuiltIn, builtInOf, hasMethod, hasNativeConstructor } from "../base/built-in.js";
import { ignoreRejection, notPromise } from "../base/deferred.js";
import { TooLarge, Unreadable, Unstorable } from "./codec.js";
import { PromiseFound } from "./settled.js";
import { isOfType, type ValueType, type ValueTypes } from "./value-type.js";

/**
 * Expresses a value in strings, finite numbers, booleans, null, arrays and objects. Returns the
 * value itself if it consists of nothing else. Otherwise `{"$gc": [type, content]}` replaces
 * undefined, Date, BigInt, Map, Set, Buffer, Uint8Array, NaN, infinities, -0, instances of value
 * types, objects without a prototype, and objects with properties under registered symbols
 * (`Symbol.for`).
 * Throws `Unstorable` for everything else that could not be restored: other class instances,
 * functions, symbols, promises, proxies, holes in arrays, getters and setters (which are not
 * called), properties that are not enumerable or that belong to other symbols, and properties of
 * an array, a Date, a Map, a Set or bytes that are not part of its content.
 *
 * Throws `TooLarge` once the format needs more than `maxBytes` for what has been visited, so that
 * the work is bounded, also for a value that has the same object in many places.
 */
export function toPlain(
  value: unknown,
  dialect: Dialect,
  types: ValueTypes,
  maxBytes = Number.POSITIVE_INFINITY,
): { plain: unknown; isTagged: boolean } {
  const walk: Walk = { dialect, types: Object.entries(types), steps: [], maxBytes, bytes: 0, isTagged: false };
  const plain = plainOf(value, 0, walk);
  return { plain, isTagged: walk.isTagged };
}

/** Deeper values are rejected: they are cycles, or not the result of a query. */
const MAX_DEPTH = 200;
/** The only field of an object for a value that the format lacks, or with a field of this name. */
const TAG = "$gc";

/** What a format can represent itself. */
export interface Dialect {
  /** Convert bytes to plain data and back. What is returned shares no memory with the content. */
  writeBytes(bytes: Uint8Array): unknown;
  readBytes(written: unknown): Buffer;
  isLossy(text: string): boolean;
  /** Whether the format would misread a field called `name`. */
  isReserved(name: string): boolean;
  /** Whether every object repeats its field names in the format, for sizes. Default: false. */
  readonly repeatsNames?: boolean;
}

interface Walk {
  readonly dialect: Dialect;
  readonly types: readonly (readonly [name: string, type: ValueType])[];
  readonly steps: (string | number)[];
  readonly maxBytes: number;
  /** How many bytes the format needs at least for what has been visited. */
  bytes: number;
  isTagged: boolean;
}

function count(bytes: number, walk: Walk): void {
  walk.bytes += bytes;
  if (walk.bytes > walk.maxBytes) throw new TooLarge(walk.maxBytes);
}

function plainOf(value: unknown, depth: number, walk: Walk): unknown {
  count(1, walk);
  switch (typeof value) {
    case "string":
      // UTF-8 has a byte at least for each UTF-16 code unit.
      count(value.length, walk);
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
  if (nodeTypes.isProxy(value)) return plainOfInstance(value, "a Proxy", depth, walk);
  const type = builtInOf(value);
  if (type === "Object" || type === "Bare") return plainOfFields(value, type, depth, walk);
  if (type === "Array") return plainOfList(value as readonly unknown[], depth, walk);
  if (type === undefined)
    return plainOfInstance(value, `an instance of ${className(Object.getPrototypeOf(value))}`, depth, walk);
  if (nodeTypes.isUint8Array(value)) count(value.byteLength, walk);
  const replaced = plainOfExtended(value, depth, walk);
  if (replaced !== undefined) return replaced;
  const keyOf = (key: unknown): unknown => step(key, ".keys()", depth, walk);
  const memberOf = (member: unknown): unknown => step(member, ".values()", depth, walk);
  if (nodeTypes.isUint8Array(value)) return tagged(type === "Buffer" ? "b" : "y", walk.dialect.writeBytes(value), walk);
  if (nodeTypes.isMap(value))
    return tagged(
      "m",
      Array.from(value, ([key, member]) => [keyOf(key), memberOf(member)]),
      walk,
    );
  return nodeTypes.isSet(value)
    ? tagged("s", Array.from(value, memberOf), walk)
    : tagged("d", String((value as Date).getTime()), walk);
}

/** Converts a value that only a value type can store. If there is none, throws about `what`. */
function plainOfInstance(value: object, what: string, depth: number, walk: Walk, property?: string): unknown {
  const match = walk.types.find(([name, type]) =>
    isOfType(name, type, value, (what) => new Unstorable(what, pathOf(walk, depth), "return true or false")),
  );
  if (match === undefined) {
    if (nodeTypes.isPromise(value)) {
      ignoreRejection(value);
      throw new PromiseFound(
        what,
        pathOf(walk, depth),
        "await it in the resolver, since it was rejected, pending for too long, or outside of arrays and plain objects",
      );
    }
    if (property !== undefined) walk.steps[depth] = property;
    throw new Unstorable(what, pathOf(walk, property === undefined ? depth : depth + 1), remedyFor(value));
  }
  const [name, type] = match;
  return tagged("c", [name, step(type.encode(value as never), ".encode()", depth, walk)], walk);
}

/** Listing the names of larger byte arrays takes longer than storing them. */
const MAX_CHECKED_BYTES = 4096;

/** Undefined if the properties of a Date, Map, Set or byte array are its content only. */
function plainOfExtended(value: object, depth: number, walk: Walk): unknown {
  const length = nodeTypes.isUint8Array(value) ? value.length : 0;
  const nameCount = length + (nodeTypes.isDate(value) && hasNativeConstructor(value) ? 1 : 0);
  if (
    Object.getOwnPropertySymbols(value).length === 0 &&
    (length > MAX_CHECKED_BYTES || Object.getOwnPropertyNames(value).length === nameCount)
  )
    return undefined;
  return plainOfInstance(value, "an extra property of a Date, Map, Set, Buffer or Uint8Array", depth, walk);
}

/** Copies the list only if a member changes, or if it comes from another realm. */
function plainOfList(list: readonly unknown[], depth: number, walk: Walk): unknown {
  // Before they are listed: each member needs a byte at least.
  if (walk.bytes + list.length > walk.maxBytes) throw new TooLarge(walk.maxBytes);
  // One name for each index, and `length`.
  if (Object.getOwnPropertyNames(list).length !== list.length + 1 || Object.getOwnPropertySymbols(list).length > 0)
    return plainOfInstance(list, "an array with holes or extra properties", depth, walk);
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

/** Copies the object only if a field changes, or if it comes from another realm. */
function plainOfFields(value: object, type: BuiltIn, depth: number, walk: Walk): unknown {
  const fields = value as Readonly<Record<string, unknown>>;
  // A spread defines fields, so that `__proto__` is an ordinary one, which an assignment finds.
  let copy = Object.getPrototypeOf(value) === Object.prototype ? undefined : { ...fields };
  let isReserved = false;
  const names = Object.getOwnPropertyNames(value);
  for (const name of names) {
    // The descriptor, since a getter must not be called.
    const own = Object.getOwnPropertyDescriptor(value, name) as PropertyDescriptor;
    if (isAccessor(own)) return plainOfInstance(value, "a getter or setter", depth, walk, name);
    if (own.enumerable !== true) return plainOfInstance(value, "a property that is not enumerable", depth, walk, name);
    const member: unknown = own.value;
    // The name, its quotes and a colon.
    if (walk.dialect.repeatsNames === true) count(name.length + 3, walk);
    const plain = step(member, name, depth, walk);
    if (plain !== member) {
      copy ??= { ...fields };
      copy[name] = plain;
    }
    isReserved ||= name === TAG || walk.dialect.isReserved(name);
  }
  const symbols = Object.getOwnPropertySymbols(value);
  if (!symbols.every((symbol) => isStorableMark(value, symbol)))
    return plainOfInstance(value, "a property under a symbol that is not registered", depth, walk);
  const plain = copy ?? fields;
  const owner = isReserved
    ? tagged(
        "o",
        names.map((name) => [plainOf(name, depth, walk), plain[name]]),
        walk,
      )
    : plain;
  const bare = type === "Bare" ? tagged("z", owner, walk) : owner;
  if (symbols.length === 0) return bare;
  return tagged("p", [bare, symbols.map((symbol) => plainOfMark(value, symbol, depth, walk))], walk);
}

const isAccessor = ({ get, set }: PropertyDescriptor): boolean => get !== undefined || set !== undefined;

const isStorableMark = (value: object, symbol: symbol): boolean =>
  Symbol.keyFor(symbol) !== undefined &&
  !isAccessor(Object.getOwnPropertyDescriptor(value, symbol) as PropertyDescriptor);

/** A registered symbol can be a mark by which a schema finds the type of an object. */
function plainOfMark(value: object, symbol: symbol, depth: number, walk: Walk): unknown {
  const own = Object.getOwnPropertyDescriptor(value, symbol) as PropertyDescriptor;
  const flags = (own.enumerable ? 1 : 0) | (own.writable ? 2 : 0) | (own.configurable ? 4 : 0);
  return [plainOf(Symbol.keyFor(symbol), depth, walk), flags, step(own.value, ".[symbol]", depth, walk)];
}

function step(member: unknown, name: string | number, depth: number, walk: Walk): unknown {
  walk.steps[depth] = name;
  return plainOf(member, depth + 1, walk);
}

function tagged(type: string, content: unknown, walk: Walk): unknown {
  walk.isTagged = true;
  // Not [TAG]: JSON.stringify is three times as slow on objects with computed names (Node.js 24).
  return { $gc: [type, content] };
}

const METHOD_STEPS = [".keys()", ".values()", ".encode()", ".[symbol]"];
/** Names of other forms are keys of a dictionary: user data, which messages must not show. */
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

/** Restores what `toPlain` has tagged, in place. Throws on other data and unknown value types. */
export function fromPlain(plain: unknown, dialect: Dialect, types: ValueTypes): unknown {
  const restore = (member: unknown): unknown => {
    if (typeof member !== "object" || member === null) return member;
    if (Array.isArray(member)) {
      for (let index = 0; index < member.length; index++) member[index] = restore(member[index]);
      return member;
    }
    const object = member as Record<string, unknown>;
    const tag = object[TAG];
    if (Array.isArray(tag)) return restoreTagged(tag[0], tag[1]);
    for (const name of Object.keys(object)) {
      const field = object[name];
      // The field `__proto__` is an own one, which the assignment finds.
      if (typeof field === "object" && field !== null) object[name] = restore(field);
    }
    return object;
  };
  const restoreTagged = (type: unknown, content: unknown): unknown => {
    const text = content as string;
    const list = content as readonly unknown[];
    const pairs = content as readonly (readonly [unknown, unknown])[];
    switch (type) {
      case "u":
        return undefined;
      case "n":
        return Number(text);
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
      case "z":
        return Object.assign(Object.create(null) as object, restore(content));
      case "p": {
        const [owner, marks] = list as readonly [unknown, readonly (readonly [unknown, number, unknown])[]];
        const value = restore(owner) as object;
        for (const [key, flags, member] of marks)
          Object.defineProperty(value, Symbol.for(restore(key) as string), {
            value: restore(member),
            enumerable: (flags & 1) !== 0,
            writable: (flags & 2) !== 0,
            configurable: (flags & 4) !== 0,
          });
        return value;
      }
      case "c": {
        const [name, encoded] = list as readonly [string, unknown];
        const valueType = Object.hasOwn(types, name) ? types[name] : undefined;
        if (valueType === undefined)
          throw new Unreadable("it contains an instance of a class that is not in the `types` of this process");
        return notPromise(
          valueType.decode(restore(encoded) as never),
          () => new Unreadable(`\`types.${name}.decode\` has returned a promise; let it return the instance itself`),
        );
      }
      default:
        throw new SyntaxError("expected a known type tag");
    }
  };
  return restore(plain);
}

/** Returns what to do about an object of a class. Undefined: nothing beyond plain data. */
function remedyFor(value: object): string | undefined {
  if (nodeTypes.isProxy(value)) return "return a copy, such as { ...record }";
  if (isDelegated(value))
    return "cache the schemas, then stitch: pass what applyCached returns to stitchSchemas or delegateToSchema";
  if (isStream(value)) return "a stream can be read once; read it to its end and return the data";
  if (isBody(value)) return "read it, with .json() or .text(), and return the data";
  const { constructor: type, toJSON } = value as { constructor?: { name?: unknown }; toJSON?: unknown };
  const name = type?.name;
  if (typeof name !== "string" || !/^[A-Za-z_]\w{0,63}$/.test(name) || isNative(type)) return undefined;
  if (isOfPlatform(name, type) && typeof toJSON !== "function") return "return plain data made of it";
  if (isMongooseDocument(value)) return "add .lean() to the query, or return document.toObject()";
  if (isSequelizeModel(value)) return "add { raw: true } to the query, or return model.get({ plain: true })";
  return `add \`${name}: { is, encode, decode }\` to createCache({ types }), or return plain data`;
}

/** Whether a class comes with JavaScript. Its instances hold their data outside of properties. */
const isNative = (type: unknown): boolean =>
  typeof type === "function" && /\{\s*\[native code\]\s*\}$/.test(Function.prototype.toString.call(type));

/** Whether a class comes with Node.js, as Headers does. */
const isOfPlatform = (name: string, type: unknown): boolean =>
  (globalThis as Readonly<Record<string, unknown>>)[name] === type;

const isStream = (value: object): boolean =>
  hasMethod(value, "pipe") || hasMethod(value, "getReader") || hasMethod(value, Symbol.asyncIterator);

const isBody = (value: object): boolean => hasMethod(value, "json") && hasMethod(value, "text");

/** Whether it is what delegation returns: a subschema, or an object that refers to one. */
const isDelegated = (value: object): boolean =>
  "transformedSchema" in value ||
  hasMethod(value, "getTypeMap") ||
  Object.getOwnPropertySymbols(value).some(({ description }) => description === "initialSubschema");

const isMongooseDocument = (value: object): boolean => "$__" in value && "$isNew" in value;

const isSequelizeModel = (value: object): boolean => "dataValues" in value && "sequelize" in value;
