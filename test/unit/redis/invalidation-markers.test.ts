import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { InvalidationMarkers } from "../../../src/redis/invalidation-markers.js";
import type { RedisClient } from "../../../src/redis/redis-client.js";

/** Markers on a fake server, whose scripts advance a marker as `MARKER` in define-script.ts does. */
function subject() {
  const clock = new FakeClock();
  const server = new Map<string, number>();
  const callBuffer = async (_get: string, marker: string): Promise<Buffer | null> => {
    const at = server.get(marker);
    return at === undefined ? null : Buffer.from(String(at));
  };
  const losses = { reported: 0 };
  const client = { options: {}, callBuffer } as unknown as RedisClient;
  const markers = new InvalidationMarkers(client, clock, () => losses.reported++);
  markers.name = "marker";
  /** Sends an invalidation; returns its marker. */
  const invalidate = (reply?: unknown): string => {
    const { marker, nth, settle } = markers.next("invalidate", "k");
    const at = server.get(marker) ?? 0;
    server.set(marker, at === nth - 1 ? nth : at);
    settle(reply ?? server.get(marker));
    return marker;
  };
  const mayBeLost = async (): Promise<boolean> => {
    const check = markers.check();
    await check.ended;
    return check.mayBeLost("k");
  };
  return { clock, server, losses, markers, invalidate, mayBeLost };
}

describe("the markers of invalidations on one server", () => {
  it("prove the invalidations while they are where they were, and nothing once they are gone or older", async () => {
    const { server, losses, invalidate, mayBeLost } = subject();
    expect(await mayBeLost()).toBe(true);
    const marker = invalidate();
    expect(invalidate()).toBe(marker);
    expect(await mayBeLost()).toBe(false);
    server.set(marker, 1);
    expect(await mayBeLost()).toBe(true);
    server.delete(marker);
    expect(await mayBeLost()).toBe(true);
    expect(losses.reported).toBe(0);
  });

  it("prove nothing until the check has ended", () => {
    const { markers, invalidate } = subject();
    invalidate();
    expect(markers.check().mayBeLost("k")).toBe(true);
  });

  it("report a loss that the reply to the next invalidation shows, and begin again", async () => {
    const { clock, server, losses, invalidate, mayBeLost } = subject();
    const marker = invalidate();
    server.set(marker, 0);
    invalidate();
    invalidate();
    expect(losses.reported).toBe(1);
    expect(invalidate()).not.toBe(marker);
    expect(await mayBeLost()).toBe(true);
    await clock.advance(90_000);
    invalidate();
    expect(await mayBeLost()).toBe(false);
  });

  it("prove nothing for 90 seconds after an invalidation that was not confirmed or had no marker", async () => {
    for (const hasMarker of [true, false]) {
      const { clock, losses, markers, invalidate, mayBeLost } = subject();
      const first = invalidate();
      if (hasMarker) invalidate(new Error("no reply"));
      else markers.none("invalidate", "k");
      const next = invalidate();
      expect(next === first).toBe(!hasMarker);
      await clock.advance(89_999);
      invalidate();
      expect(await mayBeLost()).toBe(true);
      await clock.advance(1);
      expect(await mayBeLost()).toBe(false);
      expect(losses.reported).toBe(0);
    }
  });
});
