import { redisStore } from "graphql-cached/redis";
import { gate, settle } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = 'type Query { top: Int @cached(maxAge: 60) tagged: Int @cached(maxAge: 60, tags: ["T"]) }';

describe("a Redis that misbehaves", () => {
  const lab = new RedisLab();
  let client: Redis;
  beforeAll(async () => {
    const { host, port } = await lab.standalone("--maxmemory-policy", "noeviction");
    client = new Redis(port, host);
  });
  afterAll(async () => {
    await client.quit();
    await lab.stop();
  });
  beforeEach(() => client.flushall());

  function process() {
    const state = { loads: 0, door: undefined as Promise<void> | undefined };
    const load = async (): Promise<number> => {
      const nth = ++state.loads;
      await state.door;
      return nth;
    };
    return {
      state,
      ...memoryWorld(() => redisStore({ client })).process(
        typeDefs,
        { Query: { top: load, tagged: load } },
        { storeTimeoutMs: 1_000 },
      ),
    };
  }

  const stored = (site: ReturnType<typeof process>): Promise<void> =>
    until("the value is stored", () => site.events.some((event) => event.name === "write.finished"));
  const entryKey = async (): Promise<string> => (await client.keys("*:Query.top:*"))[0] ?? "";

  it("that forgets everything in the middle of a load gets no late value, and nobody notices", async () => {
    const site = process();
    const door = gate();
    site.state.door = door.passed;
    const early = dataOf(site.ask("{ top }"));
    await until("the load runs", () => site.state.loads === 1);
    await client.flushall();
    door.open();
    expect(await early).toEqual({ top: 1 });
    await stored(site);
    expect(site.events.find((event) => event.name === "write.finished")).toMatchObject({ isStored: false });
    expect(await dataOf(site.ask("{ top }"))).toEqual({ top: 2 });
  });

  it("that has lost its scripts gets them again", async () => {
    const site = process();
    await client.script("FLUSH");
    expect(await dataOf(site.ask("{ top }"))).toEqual({ top: 1 });
    await stored(site);
    await client.script("FLUSH");
    expect(await dataOf(site.ask("{ top }"))).toEqual({ top: 1 });
  });

  it("that holds something else under a key is left alone, and the field resolves uncached", async () => {
    for (const spoil of [
      (key: string) => client.lpush(key, "x"),
      (key: string) => client.set(key, "garbage"),
      (key: string) => client.set(key, `g\u0002V${"\0".repeat(90)}`),
    ]) {
      await client.flushall();
      const site = process();
      await site.ask("{ top }");
      await stored(site);
      const key = await entryKey();
      await client.del(key);
      await spoil(key);
      expect(await dataOf(site.ask("{ top }"))).toEqual({ top: 2 });
      expect(site.outcomes()).toEqual({ loaded: 1, "bypassed(KEY_COLLISION)": 1 });
      expect(await client.exists(key)).toBe(1);
    }
  });

  it("that holds an entry whose value cannot be read has it loaded again, and told of", async () => {
    const site = process();
    await site.ask("{ top }");
    await stored(site);
    await client.setrange(await entryKey(), 72, "\u00ff\u00ff\u00ff\u00ff");
    expect(await dataOf(site.ask("{ top }"))).toEqual({ top: 2 });
    expect(site.events.find((event) => event.name === "entry.corrupt")).toMatchObject({
      error: { code: "CACHED_ENTRY_CORRUPT" },
    });
    expect(await dataOf(site.ask("{ top }"))).toEqual({ top: 2 });
  });

  it("that evicts a tag's version makes what is under it a miss", async () => {
    const site = process();
    await site.ask("{ tagged }");
    await stored(site);
    for (const key of await client.keys("*:#*")) await client.del(key);
    expect(await dataOf(site.ask("{ tagged }"))).toEqual({ tagged: 2 });
  });

  it("that is full, or read-only, costs no request anything but a load", async () => {
    const site = process();
    await site.ask("{ top }");
    await stored(site);
    await client.config("SET", "maxmemory", "1mb");
    try {
      expect(await dataOf(site.ask("{ top tagged }"))).toEqual({ top: 1, tagged: 2 });
    } finally {
      await client.config("SET", "maxmemory", "0");
    }
  });

  it("that drops every connection is asked again once they are back", async () => {
    const site = process();
    await site.ask("{ top }");
    await stored(site);
    const admin = client.duplicate();
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    await admin.quit();
    expect(await dataOf(site.ask("{ top }"))).toHaveProperty("top");
    await until("the client is back", () => client.status === "ready");
    await settle();
    expect(await dataOf(site.ask("{ top }"))).toHaveProperty("top");
  });

  it("holds no key without a ttl after all this", async () => {
    const site = process();
    await site.ask("{ top tagged }");
    await stored(site);
    await site.cache.invalidateTags(["T"]);
    for (const key of await client.keys("*")) expect(await client.pttl(key), key).toBeGreaterThan(0);
  });
});
