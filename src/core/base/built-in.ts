import { types } from "node:util";

/** What values and keys can contain without a value type. `Bare`: an object without a prototype. */
export type BuiltIn = "Object" | "Bare" | "Array" | "Date" | "Map" | "Set" | "Buffer" | "Uint8Array";

/**
 * Returns which of the built-in types an object is an instance of, in any realm: in Jest and in
 * `vm` contexts, what Node creates is of another one. Undefined for everything else, subclasses of
 * the built-in types included.
 */
export function builtInOf(value: object): BuiltIn | undefined {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype) return "Object";
  if (prototype === null) return "Bare";
  if (prototype === Array.prototype && Array.isArray(value)) return "Array";
  if (prototype === Buffer.prototype && types.isUint8Array(value)) return "Buffer";
  const type = typeBySlots(value);
  if (type === "Date" && hasNativeConstructor(value)) return type;
  return isOwnPrototype(prototype as object, type) ? type : undefined;
}

/** Whether a value is an object without a class, of any realm. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || builtInOf(value) === "Object";
}

/** Whether an object is the `Object.prototype` of this realm or another. */
export const isObjectPrototype = (value: object): boolean =>
  value === Object.prototype || (Object.getPrototypeOf(value) === null && isOwnPrototype(value, "Object"));

/** Of any realm. A DOMException, such as an AbortError, is an error without being native. */
export const isError = (value: unknown): value is Error =>
  value instanceof Error || types.isNativeError(value) || value instanceof DOMException;

/** Fake timers replace Date by a subclass, with the original class as own `constructor`. */
export const hasNativeConstructor = (date: object): boolean =>
  isNativeClass(Object.getOwnPropertyDescriptor(date, "constructor")?.value, "Date");

/** Returns the type of an object or of its superclass, by what only the constructor can make. */
function typeBySlots(value: object): BuiltIn {
  if (Array.isArray(value)) return "Array";
  if (types.isDate(value)) return "Date";
  if (types.isMap(value)) return "Map";
  if (types.isSet(value)) return "Set";
  return types.isUint8Array(value) ? "Uint8Array" : "Object";
}

function isOwnPrototype(prototype: object, type: BuiltIn): boolean {
  const made: unknown = Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  return isNativeClass(made, type) && (made as { readonly prototype: unknown }).prototype === prototype;
}

/** No function of a user has this source text and a prototype. */
const NATIVE = /^function (\w+)\(\) \{\s*\[native code\]\s*\}$/;

/** Whether a function is the class of JavaScript of this name, of any realm. */
export const isNativeClass = (value: unknown, name: string): boolean =>
  typeof value === "function" && NATIVE.exec(Function.prototype.toString.call(value))?.[1] === name;

/** Returns what `make` returns. Undefined if it throws, as code and objects of users may. */
export function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

export const hasMethod = (value: unknown, name: PropertyKey): boolean =>
  typeof (value as Readonly<Record<PropertyKey, unknown>> | null | undefined)?.[name] === "function";

/** Whether a value has others that GraphQL gets: a promise, an iterable or a plain object. */
export const isContainer = (value: unknown): boolean =>
  types.isPromise(value) ||
  Array.isArray(value) ||
  value instanceof Map ||
  value instanceof Set ||
  isPlainObject(value);
