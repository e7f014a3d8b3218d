import { gate, settle } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = 'type Query { top: Int @cached(maxAge: 60) tagged: Int @cached(maxAge: 60, tags: ["T"]) }';

describe("A misbehaving Redis", () => {
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

  function startProcess() {
    const state = { loads: 0, loadGate: undefined as Promise<void> | undefined };
    const load = async (): Promise<number> => {
      const nth = ++state.loads;
      await state.loadGate;
      return nth;
    };
    return {
      state,
      ...memoryWorld(() => redisStore({ client })).process(
        typeDefs,
        { Query: { top: load, tagged: load } },
        { memory: false, storage: { storeTimeoutMs: 1_000 } },
      ),
    };
  }

  const stored = (process: ReturnType<typeof startProcess>): Promise<void> =>
    until("the value is stored", () => process.events.some((event) => event.name === "write.finished"));
  const entryKey = async (): Promise<string> => (await client.keys("*:Query.top:*"))[0] ?? "";

  it("does not store a late value after Redis was flushed during the load", async () => {
    const process = startProcess();
    const loadGate = gate();
    process.state.loadGate = loadGate.passed;
    const result = dataOf(process.ask("{ top }"));
    await until("the load runs", () => process.state.loads === 1);
    await client.flushall();
    loadGate.open();
    expect(await result).toEqual({ top: 1 });
    await stored(process);
    expect(process.events.find((event) => event.name === "write.finished")).toMatchObject({ isStored: false });
    expect(await dataOf(process.ask("{ top }"))).toEqual({ top: 2 });
  });

  it("sends the scripts again after Redis has lost them", async () => {
    const process = startProcess();
    await client.script("FLUSH");
    expect(await dataOf(process.ask("{ top }"))).toEqual({ top: 1 });
    await stored(process);
    await client.script("FLUSH");
    expect(await dataOf(process.ask("{ top }"))).toEqual({ top: 1 });
  });

  it("keeps the value of another program under a cache key, and resolves the field uncached", async () => {
    for (const overwrite of [
      (key: string) => client.lpush(key, "x"),
      (key: string) => client.set(key, "garbage"),
      (key: string) => client.set(key, `g\u0001V${"\0".repeat(90)}`),
    ]) {
      await client.flushall();
      const process = startProcess();
      await process.ask("{ top }");
      await stored(process);
      const key = await entryKey();
      await client.del(key);
      await overwrite(key);
      expect(await dataOf(process.ask("{ top }"))).toEqual({ top: 2 });
      expect(process.outcomes()).toEqual({ loaded: 1, "bypassed(KEY_COLLISION)": 1 });
      expect(await client.exists(key)).toBe(1);
    }
  });

  it("serves nothing that was invalidated after another program has overwritten the clock, and caches again under a new one", async () => {
    for (const name of ["#clock", "#clock:log"]) {
      const process = startProcess();
      const [before] = Object.values((await dataOf(process.ask("{ tagged }"))) as { tagged: number });
      await until("a hit", async () => (await process.ask("{ tagged }"), (process.outcomes().hit ?? 0) > 0));
      const [key] = (await client.keys(`*:${name}`)) as [string];
      await client.del(key);
      await client.rpush(key, "garbage");
      await process.cache.invalidateTags(["T"]);
      const { tagged } = (await dataOf(process.ask("{ tagged }"))) as { tagged: number };
      expect(tagged).toBeGreaterThan(before as number);
      const hits = process.outcomes().hit ?? 0;
      await until("a hit", async () => (await process.ask("{ tagged }"), (process.outcomes().hit ?? 0) > hits));
      await client.flushall();
    }
  });

  it("loads again and emits entry.corrupt for a corrupt entry", async () => {
    const process = startProcess();
    await process.ask("{ top }");
    await stored(process);
    await client.setrange(await entryKey(), 40, "\u00ff\u00ff\u00ff\u00ff");
    expect(await dataOf(process.ask("{ top }"))).toEqual({ top: 2 });
    expect(process.events.find((event) => event.name === "entry.corrupt")).toMatchObject({
      error: { code: "CACHED_ENTRY_CORRUPT" },
    });
    expect(await dataOf(process.ask("{ top }"))).toEqual({ top: 2 });
  });

  it("treats entries as misses after the clock was evicted", async () => {
    const process = startProcess();
    await process.ask("{ tagged }");
    await stored(process);
    for (const key of await client.keys("*:#*")) await client.del(key);
    expect(await dataOf(process.ask("{ tagged }"))).toEqual({ tagged: 2 });
  });

  it("serves stored entries and loads the rest when Redis is full", async () => {
    const process = startProcess();
    await process.ask("{ top }");
    await stored(process);
    await client.config("SET", "maxmemory", "1mb");
    try {
      expect(await dataOf(process.ask("{ top tagged }"))).toEqual({ top: 1, tagged: 2 });
    } finally {
      await client.config("SET", "maxmemory", "0");
    }
  });

  it("uses Redis again after it has dropped all connections", async () => {
    const process = startProcess();
    await process.ask("{ top }");
    await stored(process);
    const admin = client.duplicate();
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    await admin.quit();
    expect(await dataOf(process.ask("{ top }"))).toHaveProperty("top");
    await until("the client is back", () => client.status === "ready");
    await settle();
    expect(await dataOf(process.ask("{ top }"))).toHaveProperty("top");
  });

  it("leaves no key but the settings and the clock without a ttl after reads, writes and invalidations", async () => {
    const process = startProcess();
    await process.ask("{ top tagged }");
    await stored(process);
    await process.cache.invalidateTags(["T"]);
    for (const key of await client.keys("*"))
      if (!/:#(settings|clock)/.test(key)) expect(await client.pttl(key), key).toBeGreaterThan(0);
  });
});
