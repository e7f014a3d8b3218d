import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { WorkUnderWay } from "../../../src/core/tier/tick/work-under-way.js";

it("waits for work under way, and for what begins meanwhile, whether or not it fails", async () => {
  const underWay = new WorkUnderWay();
  const [first, second] = [gate(), gate()];
  const failed = underWay.add(first.passed.then(() => Promise.reject(new Error("unavailable"))));
  let hasEnded = false;
  const drained = underWay.drain(new FakeClock(), 1_000).then(() => {
    hasEnded = true;
  });
  void underWay.add(second.passed);
  first.open();
  await expect(failed).rejects.toThrow("unavailable");
  await settle();
  expect(hasEnded).toBe(false);
  second.open();
  await drained;
});
