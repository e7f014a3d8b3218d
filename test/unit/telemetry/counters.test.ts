import { expect, it } from "vitest";
import { Channel } from "../../../src/telemetry/channel.js";
import { Counters } from "../../../src/telemetry/counters.js";

it("every read is counted in exactly one outcome, and a listener that throws harms nobody", () => {
  const channel = new Channel();
  const counters = new Counters();
  channel.listen(() => {
    throw new Error("a listener's own trouble");
  });
  channel.listen(counters.listener);
  const about = { coordinate: "Query.top", digest: "" };
  for (const outcome of ["hit", "stale", "staleIfError", "loaded", "coalesced"] as const)
    channel.publish({ name: "entry.served", outcome, ...about });
  channel.publish({ name: "resolver.bypassed", reason: "WRITE_IN_PROGRESS", ...about });
  channel.publish({ name: "load.failed", error: new Error("x"), ...about });
  channel.publish({ name: "store.failed", node: "", operation: "read", error: new Error("x") });
  const { hit, stale, staleIfError, loaded, coalesced, bypassed, reads, failedLoads } = counters.total();
  expect(reads).toBe(hit + stale + staleIfError + loaded + coalesced + bypassed);
  expect([reads, failedLoads, counters.storeFailures]).toEqual([6, 1, 1]);
  expect([...counters.of("Query.top").bypasses]).toEqual([["WRITE_IN_PROGRESS", 1]]);
});
