import type { ValueType } from "../../core/codec/value-type.js";
import { instanceOf } from "./instance.js";

/** What `decimalType` uses of a class of decimal numbers. */
export type DecimalClass<Decimal extends { valueOf(): string | number }> = new (text: string) => Decimal;

/**
 * Returns the value type of a class of decimal numbers: decimal.js, `Prisma.Decimal`, big.js or
 * bignumber.js. 1.0 and 1.00 are one key. Throws a TypeError if `Decimal` is not a class.
 */
export function decimalType<Decimal extends { valueOf(): string | number }>(
  Decimal: DecimalClass<Decimal>,
): Required<ValueType> {
  // Unlike toString, valueOf has the sign of zero.
  const textOf = (value: Decimal): string => String(value.valueOf());
  return {
    is: instanceOf(Decimal, "decimalType"),
    encode: textOf,
    decode: (text: string) => new Decimal(text),
    keyOf: textOf,
  };
}
