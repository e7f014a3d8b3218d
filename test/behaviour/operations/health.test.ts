import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { inspectedSite } from "../../support/inspected-site.js";

function createSite(options: object = {}) {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  return { ...inspectedSite({ store, prefix: "health", testing: { clock }, ...options }), clock, chaos: store.chaos };
}

describe("cache.health", () => {
  it("is ok while the store replies, and says what the process is doing", async () => {
    const { ask, cache, state } = createSite();
    state.hold = gate();
    const answer = ask("{ page(id: 1) }");
    await settle();
    expect(await cache.health()).toEqual({
      status: "ok",
      reasons: [],
      at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      store: {
        name: "memory",
        nodes: [
          { node: "", isReachable: true, replyMs: 0, breaker: { state: "CLOSED", since: null }, lastFailure: null },
        ],
      },
      unconfirmedInvalidations: { count: 0, since: null },
      leases: 1,
      waitingReaders: 1,
      memory: { bytes: expect.any(Number), maxBytes: 64 * 1024 * 1024, confirmedAt: expect.any(String) },
    });
    state.hold.open();
    await answer;
  });

  it("is unavailable while the store hangs, resolves within the time budget, and is ok again when the store replies", async () => {
    const { cache, chaos, clock } = createSite();
    chaos.mode = "hangs";
    const health = cache.health();
    await clock.advance(100);
    expect(await health).toMatchObject({
      status: "unavailable",
      reasons: [{ code: "STORE_UNREACHABLE", node: "", message: expect.stringContaining("no reply within 100 ms") }],
      store: { nodes: [{ isReachable: false, replyMs: null, lastFailure: { message: expect.any(String) } }] },
    });
    chaos.mode = undefined;
    expect(await cache.health()).toMatchObject({ status: "ok", reasons: [] });
  });

  it("resolves at once while the breaker is open, and closes it with a probe when its pause is over", async () => {
    const { cache, chaos, clock } = createSite();
    chaos.mode = "throws";
    for (let nth = 0; nth < 5; nth++) await cache.health();
    const calls = chaos.calls.get("read");
    expect(await cache.health()).toMatchObject({
      status: "unavailable",
      reasons: [{ message: expect.stringContaining("circuit breaker is open") }],
      store: { nodes: [{ breaker: { state: "OPEN" } }] },
    });
    expect(chaos.calls.get("read")).toBe(calls);
    chaos.mode = undefined;
    await clock.advance(250);
    expect(await cache.health()).toMatchObject({ status: "ok", store: { nodes: [{ breaker: { state: "CLOSED" } }] } });
  });

  it("is degraded while an invalidation is not confirmed, and says how many and since when", async () => {
    const { cache, chaos, clock } = createSite();
    chaos.mode = "throws";
    await expect(cache.invalidate({ coordinate: "Query.page", args: { id: 1 } })).rejects.toThrow();
    chaos.mode = undefined;
    const { status, reasons, unconfirmedInvalidations } = await cache.health();
    expect({ status, codes: reasons.map(({ code }) => code) }).toEqual({
      status: "degraded",
      codes: ["INVALIDATIONS_UNCONFIRMED"],
    });
    expect(unconfirmedInvalidations).toEqual({ count: 1, since: expect.any(String) });
    await clock.advance(1_000);
    expect(await cache.health()).toMatchObject({ status: "ok", unconfirmedInvalidations: { count: 0, since: null } });
  });

  it("is degraded while loads are refused: by a breaker, or because too many run and wait", async () => {
    const { ask, cache, state } = createSite({
      loads: { breakerThreshold: 1, maxConcurrentLoads: 1, maxQueuedLoads: 1, errorBackoffMs: 1 },
    });
    state.hold = gate();
    const answers = [1, 2].map((id) => ask(`{ page(id: ${id}) }`));
    await settle();
    expect(await cache.health()).toMatchObject({
      status: "degraded",
      reasons: [
        {
          code: "SOURCE_OVERLOADED",
          coordinate: "Query.page",
          message: expect.stringContaining("`Query.page`: 1 run, 1 wait, 0 are overdue"),
        },
      ],
    });
    state.failure = new Error("secret");
    state.hold.open();
    await Promise.all(answers);
    const health = await cache.health();
    expect(health).toMatchObject({
      status: "degraded",
      reasons: [{ code: "SOURCE_BREAKER_OPEN", coordinate: "Query.page" }],
    });
    expect(JSON.stringify(health)).not.toContain("secret");
  });

  it("is unavailable when the cache is closed, without asking the store", async () => {
    const { cache, chaos } = createSite();
    await cache.close();
    const calls = chaos.calls.get("read");
    expect(await cache.health()).toMatchObject({ status: "unavailable", reasons: [{ code: "CLOSED" }] });
    expect(chaos.calls.get("read")).toBe(calls);
  });
});
