import { attempt, builtInOf, isPlainObject } from "../base/built-in.js";
import { ignoreRejection } from "../base/deferred.js";
import { CachedError } from "../base/errors.js";

/**
 * Returns `input` as text. Two inputs have the same text exactly if a resolver could not tell them
 * apart: every type has its own marker (1 differs from "1"), the order of object fields and of the
 * members of maps and sets counts, and an object field that is undefined counts as absent. Not part
 * of the text: symbols as names, properties that are not enumerable, and those that were added to a
 * Date, a Map, a Set or a byte array.
 *
 * Throws `CACHED_KEY_UNSERIALIZABLE` for functions, symbols, promises, class instances without a
 * key form, subclasses of the built-in types, arrays with properties of their own, cycles, and
 * input of more than 64 levels or 65,536 characters.
 */
export const canonicalize = (input: unknown, write: ValueWriter = writeValue): string => checkLength(write(input, 0));

/** Deeper input is rejected: it is an attack or a cycle. */
const MAX_DEPTH = 64;
/** Longer text is rejected: keys are not meant to hold documents. */
export const MAX_LENGTH = 65_536;

export type ValueWriter = (value: unknown, depth: number) => string;

/** How an instance of a class is part of a key: the name of its type in `types`, and its text. */
export interface KeyForm {
  readonly type: string;
  readonly text: string;
}

/** Undefined: the class has none. Throws `CACHED_KEY_UNSERIALIZABLE` if it cannot be made. */
export type KeyFormOf = (instance: object) => KeyForm | undefined;

/**
 * The writers of key inputs of which no schema says more. `exact` distinguishes an instance of a
 * class from the text of its key form: for arguments, which the schema parses. `byText` does not,
 * so that JSON can name an instance: in parents, contexts and ids of loaders.
 */
export const createKeyWriters = (keyFormOf: KeyFormOf) => ({
  exact: createValueWriter(keyFormOf, ({ type, text }) => `c${JSON.stringify(type)}:${JSON.stringify(text)}`),
  byText: createValueWriter(keyFormOf, ({ text }) => JSON.stringify(text), checkExact),
});

/** Whether it may stand for several ids: integers above 2^53 are rounded when they are read. */
export const isRounded = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);

export const ROUNDED =
  "expected an id that is exact, got a number above Number.MAX_SAFE_INTEGER, which may be rounded; pass ids of this size as strings or bigints";

function checkExact(value: number): void {
  if (isRounded(value)) throw unserializable(ROUNDED);
}

export function checkLength(text: string): string {
  if (text.length > MAX_LENGTH) throw tooLong();
  return text;
}

const tooLong = (): CachedError => unserializable(`expected at most ${MAX_LENGTH} characters, got more`);

function createValueWriter(
  keyFormOf: KeyFormOf,
  writeForm: (form: KeyForm) => string,
  checkNumber: (value: number) => void = () => undefined,
): ValueWriter {
  const write: ValueWriter = (input, depth) => {
    switch (typeof input) {
      case "string":
        return JSON.stringify(input);
      case "number":
        checkNumber(input);
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
  };
  /** Not of subclasses, whose instances can carry more than their text would say. */
  const writeObject = (input: object, depth: number): string => {
    checkDepth(depth);
    const member = (value: unknown): string => write(value, depth + 1);
    switch (builtInOf(input)) {
      case "Object":
      case "Bare":
        return writeFields(input, Object.keys(input), depth, () => write);
      case "Array":
        checkMembersOnly(input as readonly unknown[]);
        return writeList(input as readonly unknown[], depth, write);
      case "Date":
        return `d${(input as Date).getTime()}`;
      case "Buffer":
        return `B${(input as Buffer).toString("base64")};`;
      case "Uint8Array":
        return `b${Buffer.from(input as Uint8Array).toString("base64")};`;
      case "Map":
        return `m{${writeEach(input as Map<unknown, unknown>, ([key, value]) => `${member(key)}:${member(value)}`)}}`;
      case "Set":
        return `s{${writeEach(input as Set<unknown>, member)}}`;
      default: {
        const form = keyFormOf(input);
        ignoreRejection(input);
        if (form === undefined) throw unserializable(`expected plain data, got ${describeInstance(input)}`);
        return writeForm(form);
      }
    }
  };
  return write;
}

/** Writes a value of which no schema says more. Class instances have no text. */
export const writeValue: ValueWriter = createKeyWriters(() => undefined).exact;

/**
 * Copies the plain data that a key is made of, since the caller may go on to change it: none of it
 * if it is deep or large, as a part that leads back to the whole, or cannot be read.
 */
export function copyOfInput(input: unknown): unknown {
  let left = MAX_COPIED;
  const copyOf = (value: unknown, depth: number): unknown => {
    if (typeof value !== "object" || value === null) return value;
    checkDepth(depth);
    if (left-- === 0) throw tooLong();
    const copy = (member: unknown): unknown => copyOf(member, depth + 1);
    switch (builtInOf(value)) {
      case "Object":
      case "Bare": {
        const names = Object.keys(value);
        if (Reflect.ownKeys(value).length !== names.length) return value;
        // Defines fields and does not assign them, so `__proto__` is an ordinary one.
        const fields = names.map((name) => [name, copy((value as Record<string, unknown>)[name])]);
        return Object.setPrototypeOf(
          Object.fromEntries(fields),
          Object.getPrototypeOf(value) as object | null,
        ) as object;
      }
      case "Array": {
        if (propertyOf(value as readonly unknown[]) !== undefined) return value;
        const members: unknown[] = [];
        // A loop: Array.from takes ten times as long.
        for (const member of value as readonly unknown[]) members.push(copy(member));
        return members;
      }
      case "Date":
        return new Date(value as Date);
      case "Buffer":
        return Buffer.from(value as Buffer);
      case "Uint8Array":
        return Uint8Array.from(value as Uint8Array);
      case "Map":
        return new Map(Array.from(value as Map<unknown, unknown>, ([key, member]) => [copy(key), copy(member)]));
      case "Set":
        return new Set(Array.from(value as Set<unknown>, copy));
      default:
        return value;
    }
  };
  return attempt(() => copyOf(input, 0)) ?? input;
}

/** How many objects are copied. */
const MAX_COPIED = 1_000;

/** Throws for an array with other properties, which come after its members, as that of `match`. */
function checkMembersOnly(list: readonly unknown[]): void {
  const property = propertyOf(list);
  if (property !== undefined)
    throw unserializable(`expected plain data, got an array with the property \`${String(property)}\``);
}

/**
 * Returns a property of an array that is none of its members: the last key, but for these. One that
 * is not enumerable, as `raw` of a tagged template, only of a frozen array: it takes five times as
 * long.
 */
function propertyOf(list: readonly unknown[]): PropertyKey | undefined {
  const last = (Object.isFrozen(list) ? Reflect.ownKeys(list) : Object.keys(list)).at(-1);
  return last === "length" || (typeof last === "string" && /^\d+$/.test(last)) ? undefined : last;
}

function describeInstance(input: object): string {
  const base = [Array, Date, Map, Set, Uint8Array].find((type) => input instanceof type);
  if (base !== undefined) return `an instance of a subclass of ${base.name}`;
  const name = (input as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof name === "string" && /^\w+$/.test(name)
    ? `an instance of ${name}, which needs an entry with \`keyOf\` in createCache({ types }) to be part of a key`
    : "an instance of a class";
}

export function writeList(input: readonly unknown[], depth: number, write: ValueWriter): string {
  checkDepth(depth);
  return `[${writeEach(input, (member) => write(member, depth + 1))}]`;
}

/**
 * Stops at the longest text: a client can name a long variable in many aliases, and the parts of an
 * object can be shared. Visits the holes of a list, so that [undefined] differs from [].
 */
function writeEach<Member>(members: Iterable<Member>, write: (member: Member) => string | undefined): string {
  let text = "";
  for (const member of members) {
    const part = write(member);
    if (part === undefined) continue;
    text += text === "" ? part : `,${part}`;
    if (text.length >= MAX_LENGTH) throw tooLong();
  }
  return text;
}

function writeFields(
  input: object,
  names: readonly string[],
  depth: number,
  writerOf: (name: string) => ValueWriter,
): string {
  const fields = input as Readonly<Record<string, unknown>>;
  const writeField = (name: string): string | undefined => {
    const value = fields[name];
    return value === undefined ? undefined : `${JSON.stringify(name)}:${writerOf(name)(value, depth + 1)}`;
  };
  return `{${writeEach(names, writeField)}}`;
}

/** Writes plain objects whose fields a schema fixes, in any order; all else by `write`. */
export function recordWriter(fields: ReadonlyMap<string, ValueWriter>, write: ValueWriter): ValueWriter {
  return (input, depth) => {
    if (!isPlainObject(input)) return write(input, depth);
    checkDepth(depth);
    return writeFields(input, Object.keys(input).sort(byCodeUnits), depth, (name) => fields.get(name) ?? write);
  };
}

/** Writes ids as GraphQL serialises them, so that 7 and "7" are one; other values with `write`. */
export const idWriter =
  (write: ValueWriter): ValueWriter =>
  (value, depth) => {
    const text = idText(value);
    return text === undefined ? write(value, depth) : JSON.stringify(text);
  };

/**
 * Returns a value of the type `ID` as GraphQL serialises it, or undefined if it cannot be an id:
 * strings, integers up to 2^53, bigints, and objects that stand for one of these by `valueOf` or
 * `toJSON`, as MongoDB's `ObjectId` does.
 */
export function idText(value: unknown): string | undefined {
  const primitive = typeof value === "object" && value !== null ? primitiveOf(value) : value;
  if (typeof primitive === "string") return primitive;
  return Number.isSafeInteger(primitive) || typeof primitive === "bigint" ? String(primitive) : undefined;
}

/** What graphql-js serialises in the place of an object. */
function primitiveOf(value: object): unknown {
  const object = value as { valueOf?: unknown; toJSON?: unknown };
  if (typeof object.valueOf === "function") {
    const primitive: unknown = object.valueOf();
    if (typeof primitive !== "object" || primitive === null) return primitive;
  }
  return typeof object.toJSON === "function" ? object.toJSON() : undefined;
}

function checkDepth(depth: number): void {
  if (depth > MAX_DEPTH) throw unserializable(`expected at most ${MAX_DEPTH} levels of nesting, got more`);
}

/** The caller adds where, and how to fix it. */
export const unserializable = (mistake: string): CachedError =>
  new CachedError("CACHED_KEY_UNSERIALIZABLE", `key input: ${mistake}`);

/** Locale-independent, so every machine sorts alike. */
export const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : Number(a > b));
