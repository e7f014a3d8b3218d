import { isPlainObject } from "../../base/built-in.js";

/**
 * Freezes plain objects and arrays, recursively, and returns `value`. Other objects, such as a Map,
 * would stay mutable and are left as they are.
 */
export function freezePlain(value: unknown): unknown {
  if (Object.isFrozen(value) || !(Array.isArray(value) || isPlainObject(value))) return value;
  Object.freeze(value);
  for (const member of Object.values(value)) freezePlain(member);
  return value;
}
