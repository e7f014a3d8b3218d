/**
 * Converts the instances of one class to plain data and back. `is` is called only for objects that
 * cannot be stored otherwise, never for plain data, Date, Map, Set or Buffer. `encode` may return
 * anything that can be stored, including instances of other value types.
 */
export interface ValueType {
  is(value: object): boolean;
  encode(value: never): unknown;
  decode(plain: never): unknown;
}

/**
 * Value types by name. The name is stored with each instance. The first type whose `is` returns
 * true encodes it.
 */
export type ValueTypes = Readonly<Record<string, ValueType>>;

/** The names of types that the codecs encode themselves. */
const RESERVED = ["Date", "BigInt", "Map", "Set", "Buffer", "Uint8Array", "Object", "Array"];

/** Returns what was expected in place of `types`, or undefined if they are valid. */
export function expectedOfTypes(types: unknown): string | undefined {
  const shape = "an object of value types by name, each { is, encode, decode }";
  if (typeof types !== "object" || types === null || Array.isArray(types)) return shape;
  const mistakes = Object.entries(types).flatMap(([name, type]: [string, unknown]) => {
    if (RESERVED.includes(name)) return [`\`${name}\` is a reserved name`];
    if (!/^[A-Za-z_][\w.-]{0,63}$/.test(name))
      return [`${JSON.stringify(name)} is not a name of letters, digits and _ . -`];
    const has = (method: string): boolean =>
      typeof type === "object" && type !== null && typeof (type as Record<string, unknown>)[method] === "function";
    const missing = ["is", "encode", "decode"].filter((method) => !has(method));
    return missing.length === 0 ? [] : [`\`${name}\` is missing ${missing.join(" and ")}`];
  });
  return mistakes.length === 0 ? undefined : `${shape} (${mistakes.join("; ")})`;
}
