import { AsyncResource } from "node:async_hooks";

/**
 * The asynchronous context of what belongs to no request. It is made when this file is loaded: a cache may be created
 * inside a request, whose context would live as long as the cache and be that of all its refreshes.
 */
export const outsideOfRequests = new AsyncResource("graphql-cached");
