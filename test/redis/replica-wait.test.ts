import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { dataOf, memoryWorld } from "../support/world.js";

const { name, sentinels } = await sharedServer("redisSentinel");
const client = new Redis({ name, sentinels: [...sentinels] });
afterAll(() => client.quit());

/** Returns how often the master has run WAIT. */
async function waitCalls(): Promise<number> {
  return Number(/cmdstat_wait:calls=(\d+)/.exec(await client.info("commandstats"))?.[1] ?? 0);
}

describe("The option waitForReplicas", () => {
  const typeDefs = 'type Query { top: Int @cached(maxAge: 60) tagged: Int @cached(maxAge: 60, tags: ["T"]) }';
  const startProcess = (waitForReplicas: { replicas: number; timeoutMs: number } | undefined) => {
    let loads = 0;
    const store = redisStore({ client, ...(waitForReplicas === undefined ? {} : { waitForReplicas }) });
    return memoryWorld(() => store).process(typeDefs, { Query: { top: () => ++loads, tagged: () => ++loads } });
  };

  it("sends WAIT after invalidations by key and by tag, and not after reads", async () => {
    const { ask, cache, events } = startProcess({ replicas: 1, timeoutMs: 500 });
    await dataOf(ask("{ top tagged }"));
    await until("both are stored", () => events.filter((event) => event.name === "write.finished").length === 2);
    // A script that the server does not have is sent twice, and so is WAIT.
    await cache.invalidate({ coordinate: "Query.tagged" });
    await cache.invalidateTags(["Other"]);
    const before = await waitCalls();
    await cache.invalidate({ coordinate: "Query.top" });
    expect(await waitCalls()).toBe(before + 1);
    await cache.invalidateTags(["T"]);
    expect(await waitCalls()).toBe(before + 2);
    expect(await dataOf(ask("{ top tagged }"))).toEqual({ top: 3, tagged: 4 });
    expect(await waitCalls()).toBe(before + 2);
  });

  it("lets an invalidation succeed after the timeout if there are too few replicas", async () => {
    const { ask, cache, events } = startProcess({ replicas: 7, timeoutMs: 10 });
    await dataOf(ask("{ top }"));
    await until("it is stored", () => events.some((event) => event.name === "write.finished"));
    await cache.invalidate({ coordinate: "Query.top" });
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 2 });
  });

  it("sends no WAIT unless waitForReplicas is set", async () => {
    const { cache } = startProcess(undefined);
    const before = await waitCalls();
    await cache.invalidate({ coordinate: "Query.top" });
    expect(await waitCalls()).toBe(before);
  });

  it("refuses waitForReplicas values that are not positive integers", () => {
    expect(() => redisStore({ client, waitForReplicas: { replicas: 0, timeoutMs: 50 } })).toThrow(
      "redisStore: `waitForReplicas`: expected { replicas, timeoutMs }, both integers of at least 1, got an object; pass",
    );
  });
});
