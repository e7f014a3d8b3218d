import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = 'type Query { top: Int @cached(maxAge: 60) tagged: Int @cached(maxAge: 60, tags: ["T"]) }';

describe("a Redis that has lost an invalidation it had confirmed", () => {
  const lab = new RedisLab();
  let client: Redis;
  let other: Redis;
  beforeAll(async () => {
    const { host, port } = await lab.standalone();
    client = new Redis(port, host, { retryStrategy: () => 10 });
    other = new Redis(port, host);
  });
  afterAll(async () => {
    await Promise.all([client.quit(), other.quit()]);
    await lab.stop();
  });

  it("is told of it again as soon as its connection is back, and what came back with it is not served", async () => {
    let loads = 0;
    const site = memoryWorld(() => redisStore({ client })).process(typeDefs, {
      Query: { top: () => ++loads, tagged: () => ++loads },
    });
    await dataOf(site.ask("{ top tagged }"));
    await until("both are stored", () => site.events.filter(({ name }) => name === "write.finished").length === 2);
    const keys = await other.keys("*");
    const before = await Promise.all(keys.map(async (key) => ({ key, dump: await other.dumpBuffer(key) })));
    await site.cache.invalidate({ coordinate: "Query.top" });
    await site.cache.invalidateTags(["T"]);

    // As after a failover to a copy that lags behind: everything is as it was before, and the connection is another.
    await other.flushall();
    for (const { key, dump } of before) await other.restore(key, 60_000, dump as Buffer);
    const isBack = new Promise<void>((resolve) => client.once("ready", resolve));
    await other.client("KILL", "ID", await client.client("ID"));
    await isBack;

    expect(await dataOf(site.ask("{ top tagged }"))).toEqual({ top: 3, tagged: 4 });
    await until("what came back is gone", async () => {
      const restored = before.find(({ key }) => key.includes("Query.top"));
      const dump = await other.dumpBuffer(restored?.key ?? "");
      return dump === null || !dump.equals(restored?.dump as Buffer);
    });
  });
});
