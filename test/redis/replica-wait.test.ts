import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import { until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const { name, sentinels } = inject("redisSentinel");
const client = new Redis({ name, sentinels: [...sentinels] });
afterAll(() => client.quit());

/** How often the master has run WAIT. */
async function waits(): Promise<number> {
  return Number(/cmdstat_wait:calls=(\d+)/.exec(await client.info("commandstats"))?.[1] ?? 0);
}

describe("an invalidation that waits for replicas", () => {
  const typeDefs = 'type Query { top: Int @cached(maxAge: 60) tagged: Int @cached(maxAge: 60, tags: ["T"]) }';
  const site = (waitForReplicas: { replicas: number; timeoutMs: number } | undefined) => {
    let loads = 0;
    const store = redisStore({ client, ...(waitForReplicas === undefined ? {} : { waitForReplicas }) });
    return memoryWorld(() => store).process(typeDefs, { Query: { top: () => ++loads, tagged: () => ++loads } });
  };

  it("is followed by WAIT, by key, by tag and at the begin of a write, and reads are not", async () => {
    const { ask, cache, events } = site({ replicas: 1, timeoutMs: 500 });
    await dataOf(ask("{ top tagged }"));
    await until("both are stored", () => events.filter((event) => event.name === "write.finished").length === 2);
    // Scripts that the server does not know go twice.
    await cache.invalidate({ coordinate: "Query.tagged" });
    await cache.invalidateTags(["Other"]);
    const before = await waits();
    await cache.invalidate({ coordinate: "Query.top" });
    expect(await waits()).toBe(before + 1);
    await cache.invalidateTags(["T"]);
    expect(await waits()).toBe(before + 2);
    expect(await dataOf(ask("{ top tagged }"))).toEqual({ top: 3, tagged: 4 });
    expect(await waits()).toBe(before + 2);
  });

  it("is done all the same if there are not so many", async () => {
    const { ask, cache, events } = site({ replicas: 7, timeoutMs: 10 });
    await dataOf(ask("{ top }"));
    await until("it is stored", () => events.some((event) => event.name === "write.finished"));
    await cache.invalidate({ coordinate: "Query.top" });
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
  });

  it("waits for nobody unless it is told to", async () => {
    const { cache } = site(undefined);
    const before = await waits();
    await cache.invalidate({ coordinate: "Query.top" });
    expect(await waits()).toBe(before);
  });

  it("has to be told in whole numbers", () => {
    expect(() => redisStore({ client, waitForReplicas: { replicas: 0, timeoutMs: 50 } })).toThrow(
      "redisStore: `waitForReplicas` must be { replicas, timeoutMs }, whole numbers, 1 or more, an object came",
    );
  });
});
