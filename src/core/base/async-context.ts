import { type AsyncLocalStorage, AsyncResource } from "node:async_hooks";

/** Disables an AsyncLocalStorage where that is possible: in Cloudflare Workers, the method is missing or throws. */
export function disableStorage(storage: Pick<AsyncLocalStorage<unknown>, "disable">): void {
  try {
    storage.disable();
  } catch {
    // It only slows down promises in old versions of Node.js.
  }
}

/**
 * The asynchronous context of what belongs to no request. It is made when this file is loaded: a cache may be created
 * inside a request, whose context would live as long as the cache and be that of all its refreshes.
 */
export const outsideOfRequests = new AsyncResource("graphql-cached");
