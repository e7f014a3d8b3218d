import type { Store } from "graphql-cached/store";

/** A store of which some methods are replaced. */
export const overrideStore = (store: Store, own: Partial<Store>): Store =>
  new Proxy(store, {
    get(target, name) {
      const member: unknown = own[name as keyof Store] ?? Reflect.get(target, name, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
