import { FakeClock } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { CachedError } from "../../../src/core/base/errors.js";
import type { CacheEvent } from "../../../src/core/telemetry/events.js";
import { RecentEvents } from "../../../src/core/telemetry/recent-events.js";

const failed = (coordinate: string, error: unknown): CacheEvent => ({
  name: "load.failed",
  coordinate,
  digest: "d",
  loadMs: 1,
  error,
});

describe("recent events", () => {
  it("keep the last hundred different events, the newest first", () => {
    const recent = new RecentEvents(new FakeClock());
    for (let nth = 0; nth < 150; nth++) recent.record(failed(`Query.f${nth}`, new Error()));
    const kept = recent.newest(1_000).map(({ coordinate }) => coordinate);
    expect(kept).toHaveLength(100);
    expect([kept[0], kept.at(-1)]).toEqual(["Query.f149", "Query.f50"]);
    expect(recent.newest(2)).toHaveLength(2);
  });

  it("count equal events, and move them to the front", async () => {
    const clock = new FakeClock(0);
    const recent = new RecentEvents(clock);
    recent.record(failed("Query.a", new Error()));
    await clock.advance(5);
    recent.record(failed("Query.b", new Error()));
    await clock.advance(5);
    recent.record(failed("Query.a", new Error("another text")));
    expect(recent.newest(9)).toMatchObject([
      { coordinate: "Query.a", count: 2, firstAt: 0, at: 10 },
      { coordinate: "Query.b", count: 1, firstAt: 5, at: 5 },
    ]);
  });

  it("show of an error only what kind it is", () => {
    const recent = new RecentEvents(new FakeClock());
    recent.record(failed("Query.a", Object.assign(new TypeError("ada@example.org"), { code: "ada" })));
    expect(recent.newest(1)[0]?.error).toBe("TypeError");
  });

  it("keep bypasses with a mistake to correct, and values that were not stored, but no other ends of reads and loads", () => {
    const recent = new RecentEvents(new FakeClock());
    const subject = { coordinate: "Query.a", digest: "d" };
    const error = new CachedError("CACHED_KEY_UNUSABLE", "text");
    const events: CacheEvent[] = [
      { name: "entry.served", outcome: "hit", ...subject },
      { name: "resolver.bypassed", reason: "NO_IDENTITY", ...subject },
      { name: "resolver.bypassed", reason: "KEY_UNUSABLE", error, ...subject, digest: "" },
      { name: "load.started", isRefresh: false, ...subject },
      { name: "load.finished", loadMs: 1, ...subject },
      { name: "write.finished", isStored: true, storedBytes: 100, ...subject },
      { name: "write.finished", isStored: false, storedBytes: 0, ...subject },
      { name: "refresh.enqueued", ...subject },
      // As a later release may publish for every operation.
      { name: "store.finished", node: "", operation: "read" } as unknown as CacheEvent,
    ];
    for (const event of events) recent.record(event);
    expect(recent.newest(9)).toMatchObject([
      { name: "write.finished", digest: "d" },
      { name: "resolver.bypassed", detail: "KEY_UNUSABLE", error: "CACHED_KEY_UNUSABLE", digest: undefined },
    ]);
  });
});
