import type { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";

/** A store of several processes, and what replaces it by an empty one whose clock is behind. */
export function losableStore(clock: FakeClock) {
  const opened: Parameters<Store["open"]>[] = [];
  const start = (behindMs: number): Store => {
    const { after, afterTick } = clock;
    const store = memoryStore({ clock: { now: () => clock.now() - behindMs, after, afterTick } });
    for (const args of opened) store.open(...args);
    return store;
  };
  let current = start(0);
  const store = new Proxy(current, {
    get(_, name) {
      const member: unknown = Reflect.get(current, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        if (name === "open") opened.push(args as Parameters<Store["open"]>);
        return (Reflect.get(current, name) as (...all: unknown[]) => unknown)(...args);
      };
    },
  });
  const lose = (behindMs = 0): void => {
    current = start(behindMs);
  };
  return { store, lose };
}
