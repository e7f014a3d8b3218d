import type { ValueType } from "../../core/codec/value-type.js";
import { instanceOf } from "./instance.js";

/** What `objectIdType` uses of the class. */
export type ObjectIdClass<ObjectId extends { toHexString(): string }> = new (hex: string) => ObjectId;

/**
 * Returns the value type of MongoDB's `ObjectId`, which `bson`, `mongodb` and Mongoose (`Types.ObjectId`)
 * export. Throws a TypeError if `ObjectId` is not a class.
 */
export function objectIdType<ObjectId extends { toHexString(): string }>(
  ObjectId: ObjectIdClass<ObjectId>,
): Required<ValueType> {
  const hexOf = (value: ObjectId): string => value.toHexString();
  return {
    is: instanceOf(ObjectId, "objectIdType"),
    encode: hexOf,
    decode: (hex: string) => new ObjectId(hex),
    keyOf: hexOf,
  };
}
