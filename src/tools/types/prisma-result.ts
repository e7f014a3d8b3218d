import { types } from "node:util";
import { builtInOf } from "../../core/base/built-in.js";
import type { ValueType } from "../../core/codec/value-type.js";

/**
 * Returns the value type of records that a Prisma client with `$extends({ result })` returns: proxies
 * that compute the added fields when they are read. They are stored with all fields computed, and
 * come back as plain objects. Other proxies of plain objects are treated alike.
 */
export function prismaResultType(): ValueType {
  return {
    is: (value) => types.isProxy(value) && builtInOf(value) === "Object",
    encode: (record: object) => ({ ...record }),
    decode: (fields: object) => fields,
  };
}
