import { type ClockOrigin, readHead, type Store } from "graphql-cached/store";

/** Returns what a process knows of a store's clock that has just read it. The clock begins if there is none. */
export async function originOf(store: Store): Promise<ClockOrigin> {
  const head = readHead(await store.appendClock([]));
  if (head === undefined) throw new Error("expected the head of a clock, got something else");
  return { epoch: head.epoch, position: head.position };
}
