import type { Store } from "../store/store.js";

/** What a chaos store does to the operations it gets, while it is set. */
export interface Chaos {
  /** `throws`: rejects. `hangs`: never answers. Undefined: passes on. */
  mode: "throws" | "hangs" | undefined;
  /** How many operations were asked for, by name. */
  readonly asked: Map<string, number>;
}

/** A store in front of another that fails or hangs on demand: for tests of what happens when the store does. */
export function chaosStore(inner: Store): Store & { readonly chaos: Chaos } {
  const chaos: Chaos = { mode: undefined, asked: new Map() };
  return new Proxy(inner, {
    get(target, property) {
      if (property === "chaos") return chaos;
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function" || property === "open" || property === "nodeOf" || property === "follow")
        return typeof value === "function" ? value.bind(target) : value;
      return (...args: unknown[]): unknown => {
        chaos.asked.set(String(property), (chaos.asked.get(String(property)) ?? 0) + 1);
        if (chaos.mode === "throws") return Promise.reject(new Error("chaos: the store throws"));
        if (chaos.mode === "hangs") return new Promise(() => undefined);
        return value.apply(target, args) as unknown;
      };
    },
  }) as Store & { readonly chaos: Chaos };
}
