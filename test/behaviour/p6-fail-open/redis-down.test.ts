import { createServer } from "node:net";
import { gate, settle } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { afterCaches, dataOf, memoryWorld, messageOf, timedWorld } from "../../support/world.js";

const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";

function createChaoticProcess() {
  const { clock, chaos, process } = timedWorld();
  const state = { loads: 0, hold: undefined as Promise<void> | undefined };
  const top = async (): Promise<number> => {
    const nth = ++state.loads;
    await state.hold;
    return nth;
  };
  return { clock, chaos, state, ...process(typeDefs, { Query: { top } }) };
}

describe("an unavailable store", () => {
  it("turns reads into misses without failing requests", async () => {
    const { chaos, ask, outcomes } = createChaoticProcess();
    chaos.mode = "throws";
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 1 });
    expect(outcomes()).toEqual({ "bypassed(STORE_UNAVAILABLE)": 1 });
  });

  it("costs a request at most storeTimeoutMs when the store does not respond", async () => {
    const { chaos, clock, state, ask } = createChaoticProcess();
    chaos.mode = "hangs";
    const answer = dataOf(ask("{ top }"));
    await clock.advance(90);
    expect(state.loads).toBe(0);
    await clock.advance(20);
    expect(await answer).toEqual({ top: 1 });
  });

  it("sends no commands while the breaker is open and retries after a pause", async () => {
    const { chaos, clock, ask } = createChaoticProcess();
    chaos.mode = "throws";
    for (let nth = 0; nth < 5; nth++) await ask("{ top }");
    const readsBefore = chaos.calls.get("read");
    await ask("{ top }");
    expect(chaos.calls.get("read")).toBe(readsBefore);
    chaos.mode = undefined;
    await clock.advance(300);
    await ask("{ top }");
    await settle();
    await ask("{ top }");
    expect(chaos.calls.get("read")).toBeGreaterThan(readsBefore ?? 0);
  });

  it("loads a key once at a time per process while the store is unavailable", async () => {
    const { chaos, state, ask } = createChaoticProcess();
    chaos.mode = "throws";
    const loadGate = gate();
    state.hold = loadGate.passed;
    const results = Array.from({ length: 20 }, () => dataOf(ask("{ top }")));
    await settle();
    loadGate.open();
    expect([await Promise.all(results), state.loads]).toEqual([Array(20).fill({ top: 1 }), 1]);
  });

  it("does not share a failed load after it has ended during an outage", async () => {
    const { chaos, state, ask } = createChaoticProcess();
    chaos.mode = "throws";
    state.hold = Promise.reject(new Error("the source is away"));
    state.hold.catch(() => undefined);
    expect(await messageOf(ask("{ top }"))).toBe("the source is away");
    state.hold = undefined;
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
  });

  it("runs the write of cache.mutate even when the store is unavailable", async () => {
    const { chaos, cache } = createChaoticProcess();
    chaos.mode = "throws";
    expect(await cache.mutate({ tags: ["Movie:7"] }, () => "written")).toBe("written");
  });
});

describe("a Redis that is unreachable at start-up", () => {
  it("logs the outage once and serves every request uncached", async () => {
    const port = await new Promise<number>((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => {
        const { port: free } = server.address() as { port: number };
        server.close(() => resolve(free));
      });
    });
    const options = { maxRetriesPerRequest: 1, enableOfflineQueue: false, retryStrategy: () => 20 };
    const client = new Redis(port, "127.0.0.1", options);
    afterCaches(async () => client.disconnect());
    const world = memoryWorld(() => redisStore({ client }));
    const process = world.process(typeDefs, { Query: { top: () => 7 } }, { storage: { storeTimeoutMs: 50 } });
    for (let nth = 0; nth < 8; nth++) expect(await dataOf(process.ask("{ top }"))).toEqual({ top: 7 });
    const unavailable = expect.stringContaining("the store is unavailable, requests continue uncached");
    expect([...process.infos, ...process.warnings]).toEqual([unavailable]);
  });

  it("bounds the wait for Redis when the client sets no limits", async () => {
    const client = new Redis(1, "127.0.0.1", { retryStrategy: () => 20 });
    afterCaches(async () => client.disconnect());
    const { cache } = memoryWorld(() => redisStore({ client })).bare({ storage: { storeTimeoutMs: 40 } });
    const load = cache.loader<number, number>({ name: "N", maxAge: 1, batch: async (ids) => [...ids] });
    expect(await load({}).load(7)).toBe(7);
  });
});
