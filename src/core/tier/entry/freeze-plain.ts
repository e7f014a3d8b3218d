import { isPlainObject } from "../../base/built-in.js";

/**
 * Freezes plain objects and arrays, recursively, and returns `value`. Other objects, such as a Map, would
 * stay mutable and are left as they are.
 */
export function freezePlain(value: unknown): unknown {
  if (Object.isFrozen(value) || !(Array.isArray(value) || isPlainObject(value))) return value;
  Object.freeze(value);
  for (const member of Object.values(value)) freezePlain(member);
  return value;
}

/** Returns whether `freezePlain` freezes all of a value that was decoded: it has no Date, Map or Buffer, for example. */
export function isFreezable(value: unknown, seen: Set<unknown> = new Set()): boolean {
  if (typeof value !== "object" || value === null || seen.has(value)) return true;
  seen.add(value);
  return (
    (Array.isArray(value) || isPlainObject(value)) && Object.values(value).every((member) => isFreezable(member, seen))
  );
}
