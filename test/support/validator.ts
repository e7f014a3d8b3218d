import { afterEach, expect } from "vitest";

/** No test may leave a rejection that nobody takes: it would end a user's process. */
const unhandled: unknown[] = [];
process.on("unhandledRejection", (reason) => unhandled.push(reason));

afterEach(async () => {
  // Node tells of unhandled rejections at the end of a turn.
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled.splice(0), "unhandled rejections").toEqual([]);
});
