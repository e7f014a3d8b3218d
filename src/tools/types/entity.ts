import type { ValueType } from "../../core/codec/value-type.js";
import { type ClassOf, instanceOf } from "./instance.js";

/**
 * Returns the value type of a class whose instances consist of their own properties, such as the
 * entities of TypeORM: these are stored and restored, and the constructor is not called. Methods and
 * getters of the class work as before. Properties with getters, such as lazy relations, cannot be stored.
 *
 * Throws a TypeError if `Entity` is not a class, or if it uses private `#` members, which exist only in
 * objects that its constructor has made. Those of base classes are not looked for.
 */
export function entityType<Entity extends object>(Entity: ClassOf<Entity>): ValueType {
  const is = instanceOf(Entity, "entityType");
  if (USES_PRIVATE_MEMBER.test(Function.prototype.toString.call(Entity)))
    throw new TypeError(
      `entityType: expected a class without private # members, got ${Entity.name}; write an entry with is, encode and decode for it`,
    );
  return {
    is,
    // The descriptors, since a getter must not be called, and what is not plain must be reported.
    encode: (value: Entity) => Object.defineProperties({}, Object.getOwnPropertyDescriptors(value)),
    decode: (fields: object) =>
      Object.create(Entity.prototype as object, Object.getOwnPropertyDescriptors(fields)) as unknown,
  };
}

const USES_PRIVATE_MEMBER = /\.#[\w$]/;
