import { attempt, isObject, isObjectPrototype } from "../base/built-in.js";
import { JOINED } from "./request-states.js";

/**
 * Collects the names of the properties of `object` that are read from now on. Returns what ends
 * that when first called, and returns the names, with dots for nested ones. `paths`: the steps of
 * what is in the key, whose reads do not count; of an object on the way to one, each property
 * counts by itself. `watch`: watches an object, and returns where its reads are noted. What cannot
 * be watched counts as read.
 */
export function collectReads(
  object: object,
  paths: readonly (readonly string[])[],
  watch: (object: object) => Set<Set<string>>,
): () => readonly string[] {
  const heads = new Set(paths.map(([head = ""]) => head));
  const within = new Map<string, () => readonly string[]>();
  for (const head of heads) {
    const rests = paths.flatMap(([first, ...rest]) => (first === head ? [rest] : []));
    // A getter that throws will do so again.
    const propertyOf = () => (object as Readonly<Record<string, unknown>>)[head];
    const value = rests.some(({ length }) => length === 0) ? undefined : attempt(propertyOf);
    if (isObject(value)) within.set(head, collectReads(value, rests, watch));
  }
  const collections = watch(object);
  const before = new Set(namesOf(object));
  const names = new Set(unwatchedIn(object));
  collections.add(names);
  const inKey = new Set(paths.flatMap(([head = "", ...rest]) => (rest.length === 0 || within.has(head) ? [head] : [])));
  const end = (): readonly string[] => {
    collections.delete(names);
    const after = namesOf(object);
    // What came or went was read or written by means that nobody sees.
    for (const name of [...unwatchedIn(object), ...after.filter((name) => !before.has(name))]) names.add(name);
    for (const name of before) if (!after.includes(name)) names.add(name);
    const ofObjects = [...within].flatMap(([head, endOf]) => endOf().map((name) => `${head}.${name}`));
    return [...[...names].filter((name) => !inKey.has(name)), ...ofObjects];
  };
  let read: readonly string[] | undefined;
  return () => {
    read ??= end();
    return read;
  };
}

/** Returns the sorted names of the own properties of a context. */
export function namesOf(object: object): readonly string[] {
  try {
    const prototype = Object.getPrototypeOf(object) as object | null;
    // The watch adds those of classes.
    const isOwn = (name: PropertyKey): boolean =>
      Object.prototype.propertyIsEnumerable.call(object, name) || prototype === null || !(name in prototype);
    return Reflect.ownKeys(object)
      .filter((name) => isOwn(name) && !isOfLibrary(object, name))
      .map(String)
      .sort((a, b) => (a < b ? -1 : 1));
  } catch {
    return [EXOTIC];
  }
}

/** Servers keep state of their own on contexts, under symbols that are not enumerable. */
export const isOfLibrary = (context: object, property: PropertyKey): boolean =>
  property === JOINED ||
  (typeof property === "symbol" && Object.getOwnPropertyDescriptor(context, property)?.enumerable !== true);

/** Returns the properties of a watched object whose reads are not seen. */
function unwatchedIn(object: object): readonly string[] {
  const isUnwatched = (name: PropertyKey): boolean => {
    const own = Object.getOwnPropertyDescriptor(object, name);
    return own !== undefined && !isOfLibrary(object, name) && ("value" in own || own.configurable !== true);
  };
  try {
    const inherited = Object.isExtensible(object) ? [] : inheritedNames(object);
    return [...Reflect.ownKeys(object).filter(isUnwatched), ...inherited].map(String);
  } catch {
    return [EXOTIC];
  }
}

/** Stands for the properties of an exotic object, of which nothing is known. */
const EXOTIC = "*";

export function inheritedNames(object: object): Set<PropertyKey> {
  const names = new Set<PropertyKey>();
  let prototype: unknown = Object.getPrototypeOf(object);
  while (isObject(prototype) && !isObjectPrototype(prototype)) {
    for (const name of Reflect.ownKeys(prototype))
      if (name !== "constructor" && name !== Symbol.toStringTag && !Object.hasOwn(object, name)) names.add(name);
    prototype = Object.getPrototypeOf(prototype);
  }
  return names;
}
