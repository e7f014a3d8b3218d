import { createServer } from "node:net";
import { createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { chaosStore, FakeClock, gate, settle } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";

function chaotic() {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const state = { loads: 0, door: undefined as Promise<void> | undefined };
  const top = async (): Promise<number> => {
    const nth = ++state.loads;
    await state.door;
    return nth;
  };
  return {
    clock,
    state,
    chaos: store.chaos,
    ...memoryWorld(() => store).process(typeDefs, { Query: { top } }, { clock }),
  };
}

describe("a store that is away", () => {
  it("makes reads misses, and no request fails", async () => {
    const { chaos, ask, outcomes } = chaotic();
    chaos.mode = "throws";
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 1 });
    expect(outcomes()).toEqual({ "bypassed(STORE_UNAVAILABLE)": 1 });
  });

  it("that does not answer costs a request its time budget and no more", async () => {
    const { chaos, clock, state, ask } = chaotic();
    chaos.mode = "hangs";
    const answer = dataOf(ask("{ top }"));
    await clock.advance(90);
    expect(state.loads).toBe(0);
    await clock.advance(20);
    expect(await answer).toEqual({ top: 1 });
  });

  it("is not asked again while the breaker is open, and is tried after a pause", async () => {
    const { chaos, clock, ask } = chaotic();
    chaos.mode = "throws";
    for (let nth = 0; nth < 5; nth++) await ask("{ top }");
    const asked = chaos.asked.get("read");
    await ask("{ top }");
    expect(chaos.asked.get("read")).toBe(asked);
    chaos.mode = undefined;
    await clock.advance(300);
    await ask("{ top }");
    await settle();
    await ask("{ top }");
    expect(chaos.asked.get("read")).toBeGreaterThan(asked ?? 0);
  });

  it("leaves a process loading a key once at a time", async () => {
    const { chaos, state, ask } = chaotic();
    chaos.mode = "throws";
    const door = gate();
    state.door = door.passed;
    const answers = Array.from({ length: 20 }, () => dataOf(ask("{ top }")));
    await settle();
    door.open();
    expect(new Set((await Promise.all(answers)).map((answer) => JSON.stringify(answer)))).toEqual(
      new Set(['{"top":1}']),
    );
    expect(state.loads).toBe(1);
  });

  it("has what was loaded meanwhile kept in the process for a moment", async () => {
    const { chaos, clock, state, cache, ask } = chaotic();
    chaos.mode = "throws";
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 1 });
    await clock.advance(900);
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 1 });
    await clock.advance(200);
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
    await cache.invalidate({ coordinate: "Query.top" }).catch(() => undefined);
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 3 });
    expect(state.loads).toBe(3);
  });

  it("shares no load that began longer ago than outageShareMs, since others may have invalidated it", async () => {
    const { chaos, clock, state, ask } = chaotic();
    chaos.mode = "throws";
    const door = gate();
    state.door = door.passed;
    const early = dataOf(ask("{ top }"));
    await clock.advance(900);
    const joined = dataOf(ask("{ top }"));
    await clock.advance(200);
    const late = dataOf(ask("{ top }"));
    await settle();
    door.open();
    expect(await Promise.all([early, joined, late])).toEqual([{ top: 1 }, { top: 1 }, { top: 2 }]);
  });

  it("is told once more of what it has not taken when the cache closes", async () => {
    const { chaos, cache, ask } = chaotic();
    await ask("{ top }");
    await settle();
    chaos.mode = "throws";
    await cache.invalidate({ coordinate: "Query.top" }).catch(() => undefined);
    chaos.mode = undefined;
    await cache.close();
    expect(chaos.asked.get("invalidate")).toBe(2);
  });

  it("does not have a failure kept, and gives every reader an object of his own", async () => {
    const { chaos, state, ask } = chaotic();
    chaos.mode = "throws";
    state.door = Promise.reject(new Error("the source is away"));
    state.door.catch(() => undefined);
    expect((await ask("{ top }")).errors?.[0]?.message).toBe("the source is away");
    state.door = undefined;
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
  });

  it("keeps this process from reading what it could not invalidate, until it is repeated", async () => {
    const { chaos, clock, cache, ask, outcomes } = chaotic();
    await ask("{ top }");
    await settle();
    chaos.mode = "throws";
    await cache.invalidate({ coordinate: "Query.top" }).catch(() => undefined);
    chaos.mode = undefined;
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
    expect(outcomes()).toEqual({ loaded: 1, "bypassed(STORE_UNAVAILABLE)": 1 });
    await clock.advance(300);
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 3 });
    expect(outcomes()).toMatchObject({ loaded: 2 });
  });

  it("makes an invalidation reject, which is repeated until the store has taken it", async () => {
    const { chaos, clock, cache, ask } = chaotic();
    await ask("{ top }");
    chaos.mode = "throws";
    await expect(cache.invalidate({ coordinate: "Query.top" })).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
    });
    chaos.mode = undefined;
    await clock.advance(600);
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
  });

  it("does not keep a write from being made", async () => {
    const { chaos, cache } = chaotic();
    chaos.mode = "throws";
    expect(await cache.mutate({ tags: ["Movie:7"] }, () => "written")).toBe("written");
  });
});

describe("a Redis that cannot be reached when the server starts", () => {
  it("is said once, and every request is answered", async () => {
    const port = await new Promise<number>((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => {
        const { port: free } = server.address() as { port: number };
        server.close(() => resolve(free));
      });
    });
    const said: string[] = [];
    const logger = { info: (line: string) => said.push(line), warn: (line: string) => said.push(line) };
    const client = new Redis(port, "127.0.0.1", {
      maxRetriesPerRequest: 1,
      enableOfflineQueue: false,
      retryStrategy: () => 20,
    });
    const store = redisStore({ client });
    const { ask, cache } = memoryWorld(() => store).process(
      typeDefs,
      { Query: { top: () => 7 } },
      { logger, storeTimeoutMs: 50 },
    );
    for (let nth = 0; nth < 8; nth++) expect(await dataOf(ask("{ top }"))).toEqual({ top: 7 });
    expect(said).toHaveLength(1);
    expect(said[0]).toContain("the store is unavailable, requests continue uncached");
    await cache.close();
    client.disconnect();
  });

  it("may have a client without any limits of its own", async () => {
    const client = new Redis(1, "127.0.0.1", { retryStrategy: () => 20 });
    const cache = createCache({
      store: redisStore({ client }),
      storeTimeoutMs: 40,
      logger: { info: () => undefined, warn: () => undefined },
    });
    const load = cache.loader<number, number>({ name: "N", maxAge: 1, batch: async (ids) => [...ids] });
    expect(await load({}).load(7)).toBe(7);
    await cache.close();
    client.disconnect();
  });
});
