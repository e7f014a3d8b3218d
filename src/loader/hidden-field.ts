/** Returns the object that it is given, so that the private fields of a class that extends this one are added to that object. */
class Given {
  constructor(object: object) {
    // biome-ignore lint/correctness/noConstructorReturn: this is its purpose.
    return object;
  }
}

/** A value for each of some objects, kept by the object itself. */
export interface HiddenField<Value> {
  /** Undefined if the object has none. What inherits from an object that has one, or is a copy of it, has none. */
  get(object: object): Value | undefined;
  set(object: object, value: Value): void;
  /** Returns the value of the object. One that has none gets what `create` returns. */
  of<Holder extends object>(object: Holder, create: (object: Holder) => Value): Value;
}

/**
 * Returns a new hidden field: a private field that is added to objects from outside. It is neither copied nor printed, and is added
 * several times as fast as a property that is not enumerable.
 *
 * A WeakMap with one entry per request is costly for the garbage collector: once its table is in the old generation, its values
 * are kept until the next full collection, and with them all that the request has read. It is for objects that cannot be extended.
 */
export function hiddenField<Value>(): HiddenField<Value> {
  /** Undefined until the first, so that reads skip the lookup. */
  let ofUnextendable: WeakMap<object, Value> | undefined;
  return class Field extends Given {
    #value: Value | undefined;

    static get(object: object): Value | undefined {
      return #value in object ? object.#value : ofUnextendable?.get(object);
    }

    static set(object: object, value: Value): void {
      if (#value in object) object.#value = value;
      else if (Object.isExtensible(object)) new Field(object).#value = value;
      else {
        ofUnextendable ??= new WeakMap();
        ofUnextendable.set(object, value);
      }
    }

    static of<Holder extends object>(object: Holder, create: (object: Holder) => Value): Value {
      const known = #value in object ? object.#value : ofUnextendable?.get(object);
      if (known !== undefined) return known;
      const value = create(object);
      Field.set(object, value);
      return value;
    }
  };
}
