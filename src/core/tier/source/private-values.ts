import { types } from "node:util";
import { attempt, isContainer, isObject, isPlainObject } from "../../base/built-in.js";
import { asPromise } from "../../base/deferred.js";
import type { Place, ReadRequest } from "../request/request.js";

/**
 * The places of PRIVATE fields in their executions, and what PRIVATE reads have returned, object by
 * object. A PUBLIC load below such a place, or whose source is such an object or holds the context
 * of the request, is its caller's own: its key says which object the source is, not whose. Reads of
 * PRIVATE values pay for it, and loads ask; hits do neither. (P8)
 */
export class PrivateValues {
  /**
   * By object, and by the path of a field, which the paths of all fields below it lead to: what is
   * PRIVATE. Empty for fields that say PUBLIC themselves.
   */
  readonly #coordinates = new WeakMap<object, string>();
  #hasNoted = false;
  /** Whether any load can ask. */
  isAsked = false;
  /** Whether a loader or function can, which knows its ids, but not for which field it is asked. */
  isAskedOfIds = false;
  /** The PRIVATE loader that was read last, and how often any was. */
  lastLoader = "";
  loaderReads = 0;

  /** Notes a value of a PRIVATE read with all in it except `context`. */
  note(value: unknown, coordinate: string, context: unknown): void {
    if (this.isAsked) this.#noteAll(value, coordinate, context);
  }

  /** The same of a value or promise. Makes promises of thenables. */
  noteSettled<Value>(value: Value, coordinate: string, context: unknown): Value {
    return this.isAsked ? whenSettled(value, (settled) => this.#noteAll(settled, coordinate, context)) : value;
  }

  /** Notes a PRIVATE field, so that all below it is PRIVATE, and what it returns. */
  noteField<Value>(value: Value, coordinate: string, context: unknown, path: Place | undefined): Value {
    // graphql-jit makes other paths for each field, and names no types in them.
    if (path?.typename !== undefined && this.isAsked) this.#coordinates.set(path, coordinate);
    // Loaders and other executions get the objects, not the path.
    return this.noteSettled(value, coordinate, context);
  }

  /** Notes a field that says PUBLIC itself: what is below it is made from what all can get. */
  notePublic(path: Place | undefined): void {
    if (path !== undefined && this.coordinateAbove(path) !== undefined) this.#coordinates.set(path, "");
  }

  /** Returns the PRIVATE field or loader that an object came from. */
  coordinateOf(value: unknown): string | undefined {
    return isObject(value) ? this.#coordinates.get(value) : undefined;
  }

  /** Returns the nearest PRIVATE field that a field is below. */
  coordinateAbove(path: Place | undefined): string | undefined {
    for (let place = path?.prev; place !== undefined; place = place.prev) {
      const coordinate = this.#coordinates.get(place);
      if (coordinate !== undefined) return coordinate === "" ? undefined : coordinate;
    }
    return undefined;
  }

  /** Returns the PRIVATE field or loader that a part of an id, or of arguments, came from. */
  coordinateIn(source: unknown, context: unknown): string | undefined {
    return this.#hasNoted && this.isAskedOfIds ? this.#coordinateOfAny(objectsIn(source, context)) : undefined;
  }

  #coordinateOfAny(objects: Iterable<object>): string | undefined {
    for (const one of objects) if (this.#coordinates.has(one)) return this.#coordinates.get(one);
    return undefined;
  }

  /** Returns in words what makes the source of a PUBLIC load one caller's, if that is a mistake. */
  originOf({ policy, source, context, call }: ReadRequest): string | undefined {
    if (policy.scope === "PRIVATE" || policy.isDeclaredPublic === true) return undefined;
    const mayFind = this.#hasNoted || isObject(context);
    const objects = call === undefined && mayFind ? objectsIn(source, context) : [];
    const coordinate =
      call === undefined
        ? this.#coordinateOfAny(objects)
        : (this.coordinateAbove(call.path) ?? this.coordinateOf(source));
    if (coordinate !== undefined) return `one from \`${coordinate}\`, which is PRIVATE`;
    const holders = call === undefined ? [...objects] : [source];
    return holders.some((one) => holds(one, context)) ? "one that holds the context of the request" : undefined;
  }

  #noteAll(value: unknown, coordinate: string, context: unknown): void {
    if (!isObject(value)) return;
    this.#hasNoted = true;
    const pending: unknown[] = [value];
    // Those in instances of classes, which lead to clients and connections.
    const held: unknown[] = [];
    for (let seen = 0; pending.length > 0 || (held.length > 0 && seen < MAX_HELD); ) {
      const list = pending.length > 0 ? pending : held;
      const one = list.pop();
      if (!isObject(one) || one === context || this.#coordinates.has(one)) continue;
      if (list === held) seen++;
      this.#coordinates.set(one, coordinate);
      const members = membersOf(one);
      if (types.isPromise(one)) this.noteSettled(one, coordinate, context);
      else if (members !== undefined) for (const member of members) list.push(member);
      else if (!ArrayBuffer.isView(one))
        for (const member of attempt(() => Object.values(one)) ?? [])
          if (isContainer(member)) held.push(member);
          else if (isObject(member) && member !== context) this.#coordinates.set(member, coordinate);
    }
  }
}

/** Calls `note` with a value, or that of a promise, before those who get the promise go on. */
export function whenSettled<Value>(given: Value, note: (settled: unknown) => void): Value {
  const value = asPromise(given) as Value;
  if (value instanceof Promise) void value.then(note, () => undefined);
  else note(value);
  return value;
}

/** Bounds the work for what instances hold. Plain data was copied, or decoded, in as much time. */
const MAX_HELD = 10_000;
/** Bound the work for one source, whose largest part need not be a part of the key. (P13) */
const MAX_OBJECTS = 1_000;
const MAX_PROPERTIES = 100;

/** Returns what plain data contains, unless a Proxy or a getter throws. Undefined for instances. */
const membersOf = (one: object): readonly unknown[] | undefined =>
  attempt(() => {
    if (isCollection(one)) return [...one.values()];
    return isPlainObject(one) ? Object.values(one) : undefined;
  });

const isCollection = (one: object): one is unknown[] | Map<unknown, unknown> | Set<unknown> =>
  Array.isArray(one) || one instanceof Map || one instanceof Set;

/** Without what getters return, which may do anything: a key is made of what it needs. */
function* dataIn(one: object): Iterable<unknown> {
  if (isCollection(one)) yield* one.values();
  else if (isPlainObject(one))
    for (const name of Object.getOwnPropertyNames(one)) yield Object.getOwnPropertyDescriptor(one, name)?.value;
}

/** Returns the objects in plain data, where a caller may have put what it was given. */
function objectsIn(source: unknown, context: unknown): ReadonlySet<object> {
  const found = new Set<object>();
  const addAll = (members: Iterable<unknown>): void => {
    for (const one of members) {
      if (found.size === MAX_OBJECTS) return;
      if (isObject(one) && one !== context) found.add(one);
    }
  };
  addAll([source]);
  // A set is also iterated over what is added meanwhile.
  for (const one of found) attempt(() => addAll(dataIn(one)));
  return found;
}

/** Whether an object is, or has as a property, the context of the request. */
function holds(source: unknown, context: unknown): boolean {
  if (!isObject(context) || !isObject(source)) return false;
  const isContext = (name: PropertyKey): boolean => Object.getOwnPropertyDescriptor(source, name)?.value === context;
  const isHeld = () => Reflect.ownKeys(source).slice(0, MAX_PROPERTIES).some(isContext);
  return source === context || attempt(isHeld) === true;
}
