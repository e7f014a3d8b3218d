/**
 * Sets a property of a context that copies of it (`{ ...context }`) do not get, and that is not printed. A
 * property that the context only inherits is not changed.
 */
export function setHidden(context: object, symbol: symbol, value: unknown): void {
  Object.defineProperty(context, symbol, { value, writable: true, configurable: true, enumerable: false });
}
