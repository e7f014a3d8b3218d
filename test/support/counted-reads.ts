import type { Store } from "graphql-cached/store";

/** A store that counts how often it is read. */
export function countedReads(store: Store): { readonly store: Store; readonly counts: { reads: number } } {
  const counts = { reads: 0 };
  const counted = new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        if (property === "read") counts.reads++;
        return value.apply(target, args) as unknown;
      };
    },
  });
  return { store: counted, counts };
}
