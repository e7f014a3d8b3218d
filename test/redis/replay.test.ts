import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = 'type Query { top: Int @cached(maxAge: 60) tagged: Int @cached(maxAge: 60, tags: ["T"]) }';

describe("A Redis that has lost a confirmed invalidation", () => {
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

  it("gets the invalidation again after a reconnect, and none of its restored values is served", async () => {
    let loads = 0;
    const process = memoryWorld(() => redisStore({ client })).process(typeDefs, {
      Query: { top: () => ++loads, tagged: () => ++loads },
    });
    await dataOf(process.ask("{ top tagged }"));
    await until("both are stored", () => process.events.filter(({ name }) => name === "write.finished").length === 2);
    const keys = await other.keys("*");
    const before = await Promise.all(keys.map(async (key) => ({ key, dump: await other.dumpBuffer(key) })));
    await process.cache.invalidate({ coordinate: "Query.top" });
    await process.cache.invalidateTags(["T"]);

    // As after a failover to a replica that lags behind: the old data is back, and the connection
    // is new.
    await other.flushall();
    for (const { key, dump } of before) await other.restore(key, 60_000, dump as Buffer);
    const reconnected = new Promise<void>((resolve) => client.once("ready", resolve));
    await other.client("KILL", "ID", await client.client("ID"));
    await reconnected;

    expect(await dataOf(process.ask("{ top tagged }"))).toEqual({ top: 3, tagged: 4 });
    await until("the restored entry is gone", async () => {
      const restored = before.find(({ key }) => key.includes("Query.top"));
      const dump = await other.dumpBuffer(restored?.key ?? "");
      return dump === null || !dump.equals(restored?.dump as Buffer);
    });
  });
});
