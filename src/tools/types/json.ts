import type { ValueType } from "../../core/codec/value-type.js";
import { type ClassOf, instanceOf } from "./instance.js";

/**
 * Returns the value type of a class whose `toJSON` returns all that an instance consists of, with
 * `fromJSON` to make an instance of that again: `jsonType(URL, (text: string) => new URL(text))`. If
 * `toJSON` returns a string, instances can be part of keys. Throws a TypeError if `type` is not a
 * class or `fromJSON` is not a function.
 */
export function jsonType<Instance extends { toJSON(): unknown }>(
  type: ClassOf<Instance>,
  fromJSON: (json: ReturnType<Instance["toJSON"]>) => Instance,
): Required<ValueType> {
  const is = instanceOf(type, "jsonType");
  if (typeof fromJSON !== "function")
    throw new TypeError(
      `jsonType: expected a function that makes an instance of what toJSON returns, got ${typeof fromJSON}`,
    );
  const jsonOf = (value: Instance): unknown => value.toJSON();
  return {
    is,
    encode: jsonOf,
    decode: fromJSON as (json: never) => unknown,
    keyOf: jsonOf as (value: never) => string,
  };
}
