import type { GraphQLError } from "graphql";
import { getOrMake } from "../base/multimap.js";
import { idKey, isHiddenKey, TYPE } from "./nested-document.js";

/** Thrown if the objects of an entry are others than those that its holes were executed for. */
export class OtherObjects extends Error {}

type Json = unknown;
type JsonObject = Readonly<Record<string, Json>>;
type Path = readonly (string | number)[];

const isObject = (value: Json): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function idOf(object: JsonObject): Json[] {
  const id: Json[] = [];
  for (let key = idKey(0); object[key] !== undefined; key = idKey(id.length)) id.push(object[key]);
  return id;
}

/**
 * Returns a copy of a stored value with what was executed for one request in the place of its holes, and without hidden ids.
 * Throws `OtherObjects` if the two are not about the same objects. `errors`: those of both. `path`: that of the value.
 */
export function filled(stored: Json, executed: Json, errors: readonly GraphQLError[], path: Path): Json {
  // An error in a hole that cannot be null has reached this place.
  if (executed === null && errors.some((error) => path.every((step, nth) => step === error.path?.[nth]))) return null;
  if (Array.isArray(stored)) {
    if (!Array.isArray(executed) || executed.length !== stored.length) throw new OtherObjects();
    return stored.map((item, nth) => {
      // Nothing says which is which.
      if (isObject(item) && idOf(item).includes(null)) throw new OtherObjects();
      return filled(item, executed[nth], errors, [...path, nth]);
    });
  }
  if (!isObject(stored)) {
    if (stored !== executed) throw new OtherObjects();
    return stored;
  }
  if (!isObject(executed) || executed[TYPE] !== stored[TYPE]) throw new OtherObjects();
  const [id, storedId] = [idOf(executed), idOf(stored)];
  if (id.length !== storedId.length || id.some((one, nth) => one !== storedId[nth])) throw new OtherObjects();
  const own: Record<string, Json> = {};
  for (const name of Object.keys(stored)) {
    if (isHiddenKey(name)) continue;
    const value = stored[name];
    if (!(name in executed)) define(own, name, withoutIds(value));
    // In the place of a hole is the name of a type: what leads to one is an object, a list or null.
    else if (typeof value === "string") define(own, name, executed[name]);
    else define(own, name, filled(value, executed[name], errors, [...path, name]));
  }
  return own;
}

export function withoutIds(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutIds);
  if (!isObject(value) || !(TYPE in value)) return value;
  const own: Record<string, Json> = {};
  for (const name of Object.keys(value)) if (!isHiddenKey(name)) define(own, name, withoutIds(value[name]));
  return own;
}

/** Response keys can be names that objects treat in a special way. */
function define(object: Record<string, Json>, name: string, value: Json): void {
  if (name === "__proto__")
    Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
  else object[name] = value;
}

/** Thrown if the value of a scalar has a name that stands for hidden ids, which it would lose. */
export class HiddenName extends Error {}

/**
 * Returns what is stored of a value that was just completed: ordinary objects, as JSON has them, in the place of those that the
 * executor makes, which have no prototype. Values of scalars stay as they are. Adds the ids of all objects to `ids`, by the names of their
 * types; undefined: they were not asked for. `keepsIds`: whether they stay in the value.
 */
export function storedOf(value: Json, keepsIds: boolean, ids: Map<string, Set<string>> | undefined): Json {
  if (Array.isArray(value)) return value.map((item) => storedOf(item, keepsIds, ids));
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== null || (ids !== undefined && !(TYPE in value))) {
    if (keepsIds && TYPE in value) throw new HiddenName();
    return value;
  }
  if (ids !== undefined) {
    const id = idOf(value as JsonObject);
    const typeName = (value as JsonObject)[TYPE] as string;
    if (id.length > 0 && !id.includes(null)) getOrMake(ids, typeName, () => new Set()).add(id.join(":"));
  }
  const own: Record<string, Json> = {};
  for (const [name, member] of Object.entries(value))
    if (keepsIds || !isHiddenKey(name)) define(own, name, storedOf(member, keepsIds, ids));
  return own;
}
