import { expect, it } from "vitest";
import { Channel } from "../../../src/core/telemetry/channel.js";
import { Counters } from "../../../src/core/telemetry/counters.js";

it("every read counts for exactly one outcome, and a listener that throws does not affect the others", () => {
  const counters = new Counters();
  const channel = new Channel(counters);
  channel.listen(() => {
    throw new Error("thrown by a listener");
  });
  const heard: string[] = [];
  channel.listen((event) => heard.push(event.name));
  const rare: string[] = [];
  channel.listen((event) => rare.push(event.name), []);
  const subject = { coordinate: "Query.top", digest: "" };
  for (const outcome of ["hit", "stale", "staleIfError", "loaded", "coalesced"] as const)
    channel.served(subject.coordinate, subject, outcome);
  channel.publish({ name: "resolver.bypassed", reason: "WRITE_IN_PROGRESS", ...subject });
  channel.publish({ name: "load.failed", loadMs: 1, error: new Error("x"), ...subject });
  channel.publish({ name: "store.failed", node: "", operation: "read", nameCount: 1, error: new Error("x") });
  const { hit, stale, staleIfError, loaded, coalesced, bypassed, reads, failedLoads } = counters.of("Query.top");
  expect(reads).toBe(hit + stale + staleIfError + loaded + coalesced + bypassed);
  expect([reads, failedLoads]).toEqual([6, 1]);
  expect([...counters.of("Query.top").bypasses]).toEqual([["WRITE_IN_PROGRESS", 1]]);
  expect(rare).toEqual(["resolver.bypassed", "load.failed", "store.failed"]);
  expect(heard).toEqual([...Array(5).fill("entry.served"), ...rare]);
});
