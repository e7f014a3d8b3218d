import type { Store, Wake } from "graphql-cached/store";

/**
 * A store whose wake-up messages for keys arrive when the test delivers them. Counts the lease
 * requests that another process's lease has refused.
 */
export function withHeldWakes(inner: Store) {
  const held: Parameters<Wake>[] = [];
  const state = { busy: 0, wake: (() => undefined) as Wake };
  const overrides: Partial<Store> = {
    open: (names, listener) => {
      state.wake = listener.wake;
      const wake: Wake = (key, ...rest) =>
        key === undefined ? listener.wake(key, ...rest) : void held.push([key, ...rest]);
      return inner.open(names, { ...listener, wake });
    },
    acquire: async (requests, ...how) => {
      const grants = await inner.acquire(requests, ...how);
      state.busy += grants.filter(({ kind }) => kind === "busy").length;
      return grants;
    },
  };
  const store = new Proxy(inner, {
    get(target, name) {
      const value = overrides[name as keyof Store] ?? Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { store, held, state };
}
