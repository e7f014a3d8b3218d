import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { InvalidationMarkers } from "../../../src/redis/invalidation-markers.js";
import { slotOfKey } from "../../../src/redis/key-slot.js";
import type { RedisClient } from "../../../src/redis/redis-client.js";

/**
 * Markers on a fake server, which advances one as the script advance-marker does. With `nodes`, the
 * server is a Cluster, and `nodes` has its first slots, by node.
 */
function subject(nodes?: Record<string, readonly string[]>) {
  const clock = new FakeClock();
  const server = new Map<string, number>();
  const callBuffer = async (_get: string, marker: string): Promise<Buffer | null> => {
    const at = server.get(marker);
    return at === undefined ? null : Buffer.from(String(at));
  };
  const losses = { reported: 0 };
  const slots: string[][] = [];
  for (const [node, names] of Object.entries(nodes ?? {})) for (const name of names) slots[slotOfKey(name)] = [node];
  const pipeline = () => {
    const markers: string[] = [];
    return {
      callBuffer: (_get: string, [marker]: [string]) => markers.push(marker),
      exec: async () => Promise.all(markers.map(async (marker) => [null, await callBuffer("GET", marker)])),
    };
  };
  const cluster = nodes === undefined ? {} : { isCluster: true, slots };
  const client = { options: {}, callBuffer, pipeline, ...cluster } as never as RedisClient;
  const markers = new InvalidationMarkers(client, clock, () => losses.reported++);
  markers.name = "marker";
  /** Sends an invalidation of `k`, or of `name` on `node`; returns its marker. */
  const invalidate = (reply?: unknown, isAnyConfirmed = true, node = "", name = "k"): string | undefined => {
    const { calls, settle } = markers.next(node, [name]);
    const [, marker, nth] = (calls[0]?.args ?? []) as [number, string, number];
    if (marker !== undefined && !(reply instanceof Error)) {
      const at = server.get(marker) ?? 0;
      server.set(marker, at === nth - 1 ? nth : at);
    }
    settle(reply ?? (marker === undefined ? undefined : server.get(marker)), isAnyConfirmed);
    return marker;
  };
  const mayBeLost = async (name = "k"): Promise<boolean> => {
    const check = markers.check();
    await check.ended;
    return check.mayBeLost(name);
  };
  return { clock, server, slots, losses, markers, invalidate, mayBeLost };
}

describe("the markers of invalidations on one server", () => {
  it("prove the invalidations while they are where they were, and nothing once they are gone or older", async () => {
    const { server, losses, invalidate, mayBeLost } = subject();
    expect(await mayBeLost()).toBe(true);
    const marker = invalidate() as string;
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
    const marker = invalidate() as string;
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

  it("prove nothing for 90 seconds after an invalidation whose marker was not confirmed", async () => {
    const { clock, losses, invalidate, mayBeLost } = subject();
    const first = invalidate();
    invalidate(new Error("no reply"));
    expect(invalidate()).not.toBe(first);
    await clock.advance(89_999);
    invalidate();
    expect(await mayBeLost()).toBe(true);
    await clock.advance(1);
    expect(await mayBeLost()).toBe(false);
    expect(losses.reported).toBe(0);
  });

  it("still prove what was confirmed before a pipeline of which nothing was, since its caller repeats that", async () => {
    const { server, invalidate, mayBeLost } = subject();
    const first = invalidate() as string;
    invalidate(new Error("Connection is closed."), false);
    expect(await mayBeLost()).toBe(false);
    const second = invalidate() as string;
    expect(second).not.toBe(first);
    expect(await mayBeLost()).toBe(false);
    server.delete(first);
    expect(await mayBeLost()).toBe(true);
  });
});

describe("the markers of invalidations on a Cluster", () => {
  // "{1}", "{10}" and "{18}" have slots of their own; markers lie in the slots of 64 hash tags, such as 10 and 18.
  const nodes = { a: ["{10}", "{1}"], b: ["{18}"] };

  it("lie on the node of what they prove, whose names need not share their slot", async () => {
    const { invalidate, mayBeLost } = subject(nodes);
    expect(invalidate(undefined, true, "a", "{1}k")).toMatch(/^marker:\{10\}:/);
    expect(invalidate(undefined, true, "b", "{18}k")).toMatch(/^marker:\{18\}:/);
    expect(await mayBeLost("{1}k")).toBe(false);
    expect(await mayBeLost("{18}k")).toBe(false);
    expect(await mayBeLost("{10}k")).toBe(true);
  });

  it("prove nothing about a slot that has moved to another node, and still prove it once it is back", async () => {
    const { slots, invalidate, mayBeLost } = subject(nodes);
    invalidate(undefined, true, "a", "{1}k");
    slots[slotOfKey("{1}")] = ["b"];
    expect(await mayBeLost("{1}k")).toBe(true);
    slots[slotOfKey("{1}")] = ["a"];
    expect(await mayBeLost("{1}k")).toBe(false);
  });

  it("begin again where they can be placed, if the slot of a marker has moved", async () => {
    const { slots, invalidate, mayBeLost } = subject({ ...nodes, b: ["{18}", "{113}"] });
    invalidate(undefined, true, "b", "{18}k");
    slots[slotOfKey("{18}")] = ["a"];
    expect(invalidate(undefined, true, "b", "{113}k")).toMatch(/^marker:\{113\}:/);
    expect(await mayBeLost("{113}k")).toBe(false);
    expect(await mayBeLost("{18}k")).toBe(false);
  });

  it("prove nothing for 90 seconds where a node has no place for one", async () => {
    const { clock, slots, invalidate, mayBeLost } = subject({ ...nodes, c: ["{2x}"] });
    expect(invalidate(undefined, true, "c", "{2x}k")).toBeUndefined();
    slots[slotOfKey("{113}")] = ["c"];
    expect(invalidate(undefined, true, "c", "{2x}k")).toMatch(/^marker:\{113\}:/);
    await clock.advance(89_999);
    invalidate(undefined, true, "c", "{2x}k");
    expect(await mayBeLost("{2x}k")).toBe(true);
    await clock.advance(1);
    expect(await mayBeLost("{2x}k")).toBe(false);
  });
});
