import { GraphQLError } from "graphql";
import { afterEach, expect } from "vitest";

/** No test may leave a rejection that nobody takes: it would end a user's process. */
const unhandled: unknown[] = [];
// graphql-js itself forgets the promises of a list's members when another member fails at once; their errors, and no others, have a path.
const isForgotten = (reason: unknown): boolean => reason instanceof GraphQLError && reason.path !== undefined;
process.on("unhandledRejection", (reason) => void (isForgotten(reason) || unhandled.push(reason)));

afterEach(async () => {
  // Node tells of unhandled rejections at the end of a turn.
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled.splice(0), "unhandled rejections").toEqual([]);
});
