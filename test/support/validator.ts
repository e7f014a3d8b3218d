import { GraphQLError } from "graphql";
import { afterEach, expect } from "vitest";

/** Fails any test that leaves an unhandled rejection, because it would end a user's process. */
const unhandled: unknown[] = [];
// graphql-js drops the promises of list items when another item fails synchronously. Only their errors have a path.
const isDroppedByGraphQL = (reason: unknown): boolean => reason instanceof GraphQLError && reason.path !== undefined;
process.on("unhandledRejection", (reason) => void (isDroppedByGraphQL(reason) || unhandled.push(reason)));

afterEach(async () => {
  // Node reports unhandled rejections at the end of an event loop turn.
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled.splice(0), "unhandled rejections").toEqual([]);
});
