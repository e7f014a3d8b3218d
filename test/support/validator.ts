import { afterAll, afterEach, expect, vi } from "vitest";
import { cleanups } from "./cleanups.js";

/** Fails any test that leaves an unhandled rejection, because it would end a user's process. */
const unhandled: unknown[] = [];
// graphql-js drops the promises of list items when another item fails synchronously. Only their errors have a path.
// By name, since unit tests start faster without graphql.
const isDroppedByGraphQL = (reason: unknown): boolean =>
  reason instanceof Error && reason.name === "GraphQLError" && "path" in reason && reason.path !== undefined;
const report = (reason: unknown): void => void (isDroppedByGraphQL(reason) || unhandled.push(reason));
process.on("unhandledRejection", report);
// Test files share a process, and this file runs once for each of them.
afterAll(() => void process.off("unhandledRejection", report));

// Vitest waits one second by default, which is not enough on a busy machine, and has no setting for it.
const { waitFor } = vi;
vi.waitFor = (check, options = WAIT) => waitFor(check, options);
afterAll(() => {
  vi.waitFor = waitFor;
});

afterEach(async () => {
  for (const close of cleanups.splice(0)) await close();
  // Node reports unhandled rejections at the end of an event loop turn.
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled.splice(0), "unhandled rejections").toEqual([]);
});

const WAIT = { timeout: 30_000, interval: 10 };
