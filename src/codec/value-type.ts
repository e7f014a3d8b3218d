/**
 * How the instances of one class become plain data and return. It is asked only about what could not be stored otherwise, so `is` never sees plain
 * data, a Date, a Map, a Set or a Buffer. What `encode` answers may hold anything that can be stored, instances of other value types among it.
 */
export interface ValueType {
  is(value: object): boolean;
  encode(value: never): unknown;
  decode(plain: never): unknown;
}

/** Value types by name. The name is stored with each instance; the first whose `is` says yes takes it. */
export type ValueTypes = Readonly<Record<string, ValueType>>;

/** Names that would make a reader take a user's type for what the codecs know by themselves. */
const TAKEN = ["Date", "BigInt", "Map", "Set", "Buffer", "Uint8Array", "Object", "Array"];

/** Says what was expected where `types` are no value types; undefined where they fit. */
export function expectedOfTypes(types: unknown): string | undefined {
  const shape = "an object of value types by name, each { is, encode, decode }";
  if (typeof types !== "object" || types === null || Array.isArray(types)) return shape;
  const mistakes = Object.entries(types).flatMap(([name, type]: [string, unknown]) => {
    if (TAKEN.includes(name)) return [`the name \`${name}\` is taken: the codecs store it by themselves`];
    if (!/^[A-Za-z_][\w.-]{0,63}$/.test(name))
      return [`${JSON.stringify(name)} is no name of letters, digits and _ . -`];
    const has = (method: string): boolean =>
      typeof type === "object" && type !== null && typeof (type as Record<string, unknown>)[method] === "function";
    const lacking = ["is", "encode", "decode"].filter((method) => !has(method));
    return lacking.length === 0 ? [] : [`\`${name}\` lacks the function ${lacking.join(" and the function ")}`];
  });
  return mistakes.length === 0 ? undefined : `${shape} (${mistakes.join(", ")})`;
}
