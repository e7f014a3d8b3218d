import { types } from "node:util";
import { isNativeClass } from "../base/built-in.js";
import { CachedError } from "../base/errors.js";
import { GraphQLError } from "../base/graphql-version.js";
import type { ValueType } from "./value-type.js";

/**
 * The errors of JavaScript, of GraphQL and of this library, with all of their own properties but
 * the stack. A class that is derived from one of them is not kept: to code that asks for it with
 * `instanceof`, the copy would be another error.
 */
export const ERROR_TYPE: ValueType = {
  is: (value) => classOf(value) !== undefined,
  encode(error: Error) {
    const properties = Object.entries(Object.getOwnPropertyDescriptors(error))
      // A getter cannot be encoded, nor can the error then.
      .map(([name, { value, get, enumerable }]) => [name, get ?? value, enumerable === true] as const)
      .filter(([name, value]) => name !== "stack" && value !== undefined);
    const isOfPlatform = error instanceof DOMException;
    return [classOf(error), isOfPlatform ? [error.message, error.name] : [], properties];
  },
  decode([name, given, properties]: [string, string[], [string, unknown, boolean][]]) {
    const made = CLASSES[name] as object;
    const error = Reflect.construct(
      made as new () => Error,
      made === AggregateError ? [[]] : [...given, ""].slice(0, 2),
    ) as Error;
    for (const [property, value, enumerable] of properties)
      Object.defineProperty(error, property, { value, enumerable, configurable: true, writable: true });
    return error;
  },
};

/** Headers in an error, in their forms: servers and clients read names and values of them. */
export const HEADERS_TYPE: ValueType = {
  is: (value) => value instanceof Headers || types.isMap(value),
  encode: (headers: Iterable<unknown>) => [headers instanceof Headers, [...headers]],
  decode: ([isOfFetch, entries]: [boolean, [string, string][]]) =>
    isOfFetch ? new Headers(entries) : new Map(entries),
};

const CLASSES: Readonly<Record<string, unknown>> = {
  Error,
  TypeError,
  RangeError,
  SyntaxError,
  ReferenceError,
  EvalError,
  URIError,
  AggregateError,
  DOMException,
  GraphQLError,
  CachedError,
};

/** Classes of Node.js or another realm count as what their prototype says that made them. */
function classOf(error: object): string | undefined {
  const prototype = Object.getPrototypeOf(error) as object | null;
  const made = prototype !== null && Object.hasOwn(prototype, "constructor") ? prototype.constructor : undefined;
  const name = made?.name ?? "";
  const known = Object.hasOwn(CLASSES, name) ? CLASSES[name] : undefined;
  return known !== undefined && (made === known || isNativeClass(made, name)) ? name : undefined;
}
