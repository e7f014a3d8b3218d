import { expect, it } from "vitest";
import { Channel } from "../../../src/telemetry/channel.js";
import { Counters } from "../../../src/telemetry/counters.js";

it("every read counts for exactly one outcome, and a listener that throws does not affect the others", () => {
  const channel = new Channel();
  const counters = new Counters();
  channel.listen(() => {
    throw new Error("thrown by a listener");
  });
  channel.listen(counters.listener);
  const subject = { coordinate: "Query.top", digest: "" };
  for (const outcome of ["hit", "stale", "staleIfError", "loaded", "coalesced"] as const)
    channel.publish({ name: "entry.served", outcome, ...subject });
  channel.publish({ name: "resolver.bypassed", reason: "WRITE_IN_PROGRESS", ...subject });
  channel.publish({ name: "load.failed", error: new Error("x"), ...subject });
  channel.publish({ name: "store.failed", node: "", operation: "read", nameCount: 1, error: new Error("x") });
  const { hit, stale, staleIfError, loaded, coalesced, bypassed, reads, failedLoads } = counters.total();
  expect(reads).toBe(hit + stale + staleIfError + loaded + coalesced + bypassed);
  expect([reads, failedLoads, counters.storeFailures]).toEqual([6, 1, 1]);
  expect([...counters.of("Query.top").bypasses]).toEqual([["WRITE_IN_PROGRESS", 1]]);
});
