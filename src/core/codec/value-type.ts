import { builtInOf, hasMethod } from "../base/built-in.js";
import { ignoreRejection, notPromise } from "../base/deferred.js";
import { CachedError, describeSetting } from "../base/errors.js";

/**
 * Converts the instances of one class to plain data and back. `is` is called only for objects that
 * cannot be stored otherwise, never for plain data, Date, Map, Set or Buffer. `encode` may return
 * anything that can be stored, including instances of other value types.
 */
export interface ValueType {
  is(value: object): boolean;
  encode(value: never): unknown;
  decode(plain: never): unknown;
  /**
   * Returns the key form of an instance: a text that is the same for two instances exactly if no
   * resolver could tell them apart, in every process and release. Arguments, properties of parents,
   * and ids of loaders that are instances are written into keys and tags as this text. Default:
   * such a value makes its key unusable, so its field is resolved without the cache.
   */
  keyOf?(value: never): string;
}

/**
 * By name, which is stored with each instance. The first type whose `is` returns true encodes it.
 */
export type ValueTypes = Readonly<Record<string, ValueType>>;

const RESERVED = ["Date", "BigInt", "Map", "Set", "Buffer", "Uint8Array", "Object", "Array"];

/** Returns what was expected in place of `types`. Undefined: they are valid. */
export function expectedOfTypes(types: unknown): string | undefined {
  const shape = "an object of value types by name, each { is, encode, decode } and optionally keyOf";
  if (typeof types !== "object" || types === null || Array.isArray(types)) return shape;
  const mistakes = Object.entries(types).flatMap(([name, type]: [string, unknown]) => {
    if (RESERVED.includes(name)) return [`\`${name}\` is a reserved name`];
    if (!/^[A-Za-z_][\w.-]{0,63}$/.test(name))
      return [`${JSON.stringify(name)} is not a name of letters, digits and _ . -`];
    const missing = ["is", "encode", "decode"].filter((method) => typeof type !== "object" || !hasMethod(type, method));
    if (missing.length > 0) return [`\`${name}\` is missing ${missing.join(" and ")}`];
    const { keyOf } = type as { keyOf?: unknown };
    return keyOf === undefined || typeof keyOf === "function" ? [] : [`the \`keyOf\` of \`${name}\` is not a function`];
  });
  return mistakes.length === 0 ? undefined : `${shape} (${mistakes.join("; ")})`;
}

/**
 * Returns a function that returns the key form of a class instance, with the name of its type. It
 * throws `CACHED_KEY_UNSERIALIZABLE` if `keyOf` throws or returns something other than a string.
 */
export function keyFormsOf(
  types: ValueTypes | undefined,
): (value: object) => { readonly type: string; readonly text: string } | undefined {
  const entries = Object.entries(types ?? {});
  return (value) => {
    if (entries.length === 0 || builtInOf(value) !== undefined) return undefined;
    const match = entries.find(([name, type]) =>
      isOfType(name, type, value, (what) => unusable(`expected plain data, got ${what}`)),
    );
    if (match?.[1].keyOf === undefined) return undefined;
    const [type, valueType] = match;
    return { type, text: keyText(type, valueType, value) };
  };
}

/** Throws what `fail` makes of a promise, which would be true whatever it resolves to. */
export function isOfType(name: string, type: ValueType, value: object, fail: (what: string) => Error): boolean {
  const answer: unknown = type.is(value);
  return Boolean(notPromise(answer, () => fail(`an instance for which \`types.${name}.is\` returns a promise`)));
}

function keyText(name: string, type: ValueType, value: object): string {
  let text: unknown;
  try {
    text = type.keyOf?.(value as never);
  } catch (cause) {
    throw unusable(`\`types.${name}.keyOf\` threw an exception, the cause of this error`, cause);
  }
  if (typeof text === "string") return text;
  ignoreRejection(text);
  // Any other value is user data, so only its type is named.
  const got = typeof text === "object" ? describeSetting(text) : typeof text;
  throw unusable(`expected \`types.${name}.keyOf\` to return a string, got ${got}`);
}

const unusable = (mistake: string, cause?: unknown): CachedError =>
  new CachedError("CACHED_KEY_UNSERIALIZABLE", `key input: ${mistake}`, { cause });
