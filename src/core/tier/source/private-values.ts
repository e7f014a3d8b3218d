import { types } from "node:util";
import { attempt, isContainer, isObject, isPlainObject } from "../../base/built-in.js";
import { asPromise } from "../../base/deferred.js";
import type { ReadRequest } from "../request/request.js";

/**
 * What PRIVATE reads have returned, object by object. A PUBLIC load whose source is among it, or
 * holds the context of the request, is its caller's own: its key says which object the source is,
 * not whose. Reads of PRIVATE values pay for it, and loads ask; hits do neither. (P8)
 */
export class PrivateValues {
  /** By object: the field or loader that it came from. */
  readonly #coordinates = new WeakMap<object, string>();
  /** Whether any load can ask. */
  isAsked = false;
  /** The PRIVATE loader that was read last, and how often any was. */
  lastLoader = "";
  loaderReads = 0;

  /** Notes a value of a PRIVATE read with all in it except `context`, and returns it. */
  note<Value>(value: Value, coordinate: string, context: unknown): Value {
    // A Proxy or a getter in a value may throw, which is no business of the cache.
    if (this.isAsked && isObject(value)) attempt(() => this.#noteAll(value, coordinate, context));
    return value;
  }

  /** The same of a value or promise, if `isPrivate` then says so. Makes promises of thenables. */
  noteSettled<Value>(given: Value, coordinate: string, context: unknown, isPrivate?: () => boolean): Value {
    if (!this.isAsked) return given;
    const value = asPromise(given) as Value;
    const note = (settled: unknown): void => {
      if (isPrivate?.() !== false) this.note(settled, coordinate, context);
    };
    // Noted before those who get the promise go on.
    if (value instanceof Promise) void value.then(note, () => undefined);
    else note(value);
    return value;
  }

  /** Returns the PRIVATE field or loader that an object came from. */
  coordinateOf(value: unknown): string | undefined {
    return isObject(value) ? this.#coordinates.get(value) : undefined;
  }

  /** Returns in words what makes the source of a PUBLIC load one caller's, if that is a mistake. */
  originOf({ policy, source, context }: ReadRequest): string | undefined {
    if (policy.scope === "PRIVATE" || policy.isDeclaredPublic === true || !isObject(source)) return undefined;
    for (const one of withMembers(source)) {
      const coordinate = this.#coordinates.get(one as object);
      if (coordinate !== undefined) return `one from \`${coordinate}\`, which is PRIVATE`;
      if (holds(one, context)) return "one that holds the context of the request";
    }
    return undefined;
  }

  #noteAll(value: object, coordinate: string, context: unknown): void {
    const pending: unknown[] = [value];
    for (let seen = 0; pending.length > 0 && seen < MAX_OBJECTS; ) {
      const one = pending.pop();
      if (typeof one !== "object" || one === null || one === context || this.#coordinates.has(one)) continue;
      seen++;
      this.#coordinates.set(one, coordinate);
      if (types.isPromise(one)) this.noteSettled(one, coordinate, context);
      else if (Array.isArray(one) || one instanceof Map || one instanceof Set)
        for (const member of one.values()) pending.push(member);
      else if (isPlainObject(one)) for (const member of Object.values(one)) pending.push(member);
      // Not instances in instances, which lead to clients and connections.
      else if (!ArrayBuffer.isView(one))
        for (const member of Object.values(one) as unknown[])
          if (isContainer(member)) pending.push(member);
          else if (typeof member === "object" && member !== null && member !== context)
            this.#coordinates.set(member, coordinate);
    }
  }
}

/** Bounds the work for one value, which can lead anywhere before it is stored. */
const MAX_OBJECTS = 10_000;
/** Bounds the work for one source. */
const MAX_PROPERTIES = 100;

/** Returns a source and, if it is a list, its members. A Proxy of one may throw. */
const withMembers = (source: object): readonly unknown[] =>
  attempt(() => (Array.isArray(source) ? [source, ...source.slice(0, MAX_PROPERTIES)] : undefined)) ?? [source];

/** Whether an object is, or has as a property, the context of the request. */
function holds(source: unknown, context: unknown): boolean {
  if (!isObject(context) || !isObject(source)) return false;
  const isContext = (name: PropertyKey): boolean => Object.getOwnPropertyDescriptor(source, name)?.value === context;
  const isHeld = () => Reflect.ownKeys(source).slice(0, MAX_PROPERTIES).some(isContext);
  return source === context || attempt(isHeld) === true;
}
