import type { Store, StoreListener, StoreNames } from "graphql-cached/store";

/** Makes a store of which the messages do not arrive, so that processes learn of invalidations by reads alone. */
export function withoutMessages(store: Store): Store {
  const open = store.open.bind(store);
  return Object.assign(store, {
    open: (names: StoreNames, { wake }: StoreListener) => open(names, { wake }),
  });
}
