/** A class, as far as its instances are concerned. */
export type ClassOf<Instance> = abstract new (...args: never[]) => Instance;

/**
 * Returns a function that tells whether an object is an instance of `type` itself. An instance of a
 * subclass, or of another copy of the package, would not come back as what it was.
 */
export function instanceOf(type: ClassOf<unknown>, caller: string): (value: object) => boolean {
  if (typeof type !== "function" || typeof type.prototype !== "object")
    throw new TypeError(`${caller}: expected a class, got ${type === null ? "null" : typeof type}`);
  const { prototype } = type as { prototype: object };
  return (value) =>
    Object.getPrototypeOf(value) === prototype && (value as { constructor?: unknown }).constructor === type;
}
