import type { Store, Wake } from "graphql-cached/store";
import { overrideStore } from "./override-store.js";

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
  return { store: overrideStore(inner, overrides), held, state };
}
