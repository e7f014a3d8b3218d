import type { Store } from "graphql-cached/store";

/**
 * Wraps a store so that it fails or hangs on demand, to test how a cache behaves when its store is
 * down. `open`, `nodeOf`, `clockNode` and `connectionTo` always reach the inner store and are not
 * counted.
 */
export function chaosStore(inner: Store): Store & { readonly chaos: Chaos } {
  const chaos: Chaos = { mode: undefined, calls: new Map() };
  return new Proxy(inner, {
    get(target, property) {
      if (property === "chaos") return chaos;
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function" || UNAFFECTED.has(property))
        return typeof value === "function" ? value.bind(target) : value;
      return (...args: unknown[]): unknown => {
        chaos.calls.set(String(property), (chaos.calls.get(String(property)) ?? 0) + 1);
        if (chaos.mode === "throws") return Promise.reject(new Error("chaosStore: mode is `throws`"));
        if (chaos.mode === "hangs") return new Promise(() => undefined);
        return value.apply(target, args) as unknown;
      };
    },
  }) as Store & { readonly chaos: Chaos };
}

/** Controls a chaos store and counts its calls. */
export interface Chaos {
  /**
   * `throws`: every operation rejects. `hangs`: no operation ever settles. Undefined: operations
   * reach the inner store.
   */
  mode: "throws" | "hangs" | undefined;
  /** The number of calls of each operation, by its name. Failed and hanging calls count as well. */
  readonly calls: Map<string, number>;
}

const UNAFFECTED: ReadonlySet<string | symbol> = new Set(["open", "nodeOf", "clockNode", "connectionTo"]);
