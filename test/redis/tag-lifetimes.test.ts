import { randomUUID } from "node:crypto";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { partsOf } from "../../src/parts.js";
import { type Address, RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    short(id: ID!): Int @cached(maxAge: 60, tags: ["T", "E:{$args.id}"])
    long: Int @cached(maxAge: 600, staleWhileRevalidate: 300, tags: ["T"])
    found: Int @cached(maxAge: 60, tags: ["R:{$result}"])
    kept: Int @cached(maxAge: 60, neverExpires: true, tags: ["K"])
  }
`;

describe("The key of a tag on Redis", () => {
  const lab = new RedisLab();
  let client: Redis;
  let address: Address;
  beforeAll(async () => {
    address = await lab.standalone();
    client = new Redis(address.port, address.host);
  });
  afterAll(async () => {
    client.disconnect();
    await lab.stop();
  });

  function startProcess() {
    const load = (): number => 7;
    const process = memoryWorld(() => redisStore({ client })).process(
      typeDefs,
      { Query: { short: load, long: load, found: load, kept: load } },
      { prefix: randomUUID() },
    );
    const ask = async (query: string): Promise<void> => {
      const finished = (): number => process.events.filter(({ name }) => name === "write.finished").length;
      const before = finished();
      await dataOf(process.ask(query));
      await until("the value is stored", () => finished() === before + 1);
    };
    const ttlOf = (tag: string): Promise<number> => client.pttl(partsOf(process.cache, "test").keys.tag(tag));
    return { process, ask, ttlOf };
  }

  it("lives for twice the longest life of what is stored under the tag", async () => {
    const { process, ask, ttlOf } = startProcess();
    await ask('{ short(id: "1") }');
    await process.cache.invalidateTags(["E:1"]);
    for (const tag of ["T", "E:1"]) {
      expect(await ttlOf(tag)).toBeGreaterThan(100_000);
      expect(await ttlOf(tag)).toBeLessThanOrEqual(120_000);
    }
    await ask("{ found }");
    expect(await ttlOf("R:7")).toBeLessThanOrEqual(120_000);
    await ask("{ long }");
    expect(await ttlOf("T")).toBeGreaterThan(1_780_000);
    expect(await ttlOf("T")).toBeLessThanOrEqual(1_800_000);
    await ask('{ short(id: "2") }');
    expect(await ttlOf("T")).toBeGreaterThan(1_700_000);
  });

  it("never expires while a value that never expires is stored under the tag, also after an invalidation", async () => {
    const { process, ask, ttlOf } = startProcess();
    await ask("{ kept }");
    expect(await ttlOf("K")).toBe(-1);
    await process.cache.invalidateTags(["K"]);
    expect(await ttlOf("K")).toBe(-1);
  });

  it("is not written again by values that are stored under the tag before half of its time is over", async () => {
    const prefix = randomUUID();
    const store = redisStore({ client });
    store.open(
      { wakeChannel: `${prefix}:wake`, invalidationLog: `${prefix}:log`, controlRecord: `${prefix}:control` },
      () => undefined,
    );
    const tag = `${prefix}:tag`;
    const changes: string[] = [];
    const listener = new Redis(address.port, address.host);
    await client.config("SET", "notify-keyspace-events", "KA");
    listener.on("message", (channel, event) => void changes.push(`${channel.split(":").at(-1)} ${event}`));
    await listener.subscribe(`__keyspace@0__:${tag}`);
    const [version] = await store.ensureTags([tag], 60_000);
    for (let nth = 0; nth < 10; nth++) expect(await store.ensureTags([tag], 60_000)).toEqual([version]);
    await client.pexpire(tag, 59_000);
    await store.ensureTags([tag], 60_000);
    expect(await client.pttl(tag)).toBeGreaterThan(110_000);
    await until("the last change is known", () => changes.filter((change) => change === "tag expire").length >= 2);
    expect(changes.filter((change) => change === "tag expire").length).toBeLessThanOrEqual(3);
    listener.disconnect();
  });
});
