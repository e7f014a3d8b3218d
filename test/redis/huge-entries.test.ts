import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    n: Int @cached(maxAge: 60)
    other: Int @cached(maxAge: 60)
  }
`;

describe("A key in Redis at which there is more than an entry can have", () => {
  const lab = new RedisLab();
  let client: Redis;
  let writer: Redis;
  beforeAll(async () => {
    const { host, port } = await lab.standalone("--maxmemory-policy", "noeviction");
    client = new Redis(port, host);
    writer = client.duplicate();
  });
  afterAll(async () => {
    await Promise.all([client.quit(), writer.quit()]);
    await lab.stop();
  });
  beforeEach(() => client.flushall());

  function startProcess(storeTimeoutMs: number) {
    const counts = { n: 0, other: 0 };
    const process = memoryWorld(() => redisStore({ client })).process(
      typeDefs,
      { Query: { n: () => ++counts.n, other: () => ++counts.other } },
      { memory: false, storage: { storeTimeoutMs } },
    );
    const bytesRead = (): number => (client as unknown as { stream: { bytesRead: number } }).stream.bytesRead;
    const reports = (): readonly unknown[] => process.events.filter(({ name }) => name === "store.failed");
    return { ...process, counts, bytesRead, reports, settled: () => partsOf(process.cache, "test").drain() };
  }
  const keyOf = async (coordinate: string): Promise<string> => (await writer.keys(`*:${coordinate}:*`))[0] ?? "";
  const MB = 1_000_000;

  it.each([
    ["an entry", (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc(50 * MB)]), 0],
    ["what another program has written", () => Buffer.alloc(50 * MB, "x"), 1],
  ])(
    "is read once: %s",
    async (_, forge, isKept) => {
      const process = startProcess(5_000);
      await dataOf(process.ask("{ n other }"));
      await process.settled();
      const key = await keyOf("Query.n");
      await writer.set(key, forge((await writer.getBuffer(key)) as Buffer));
      const before = process.bytesRead();
      for (let nth = 2; nth < 12; nth++) expect(await dataOf(process.ask("{ n other }"))).toEqual({ n: nth, other: 1 });
      expect(process.bytesRead() - before).toBeLessThan(60 * MB);
      expect(await writer.exists(key)).toBe(isKept);
      expect(process.reports()).toHaveLength(1);
      // Somebody writes it again.
      await writer.set(key, Buffer.alloc(50 * MB));
      expect(await dataOf(process.ask("{ n other }"))).toEqual({ n: 12, other: 1 });
      expect(process.bytesRead() - before).toBeLessThan(60 * MB);
    },
    60_000,
  );

  it("is not read again although its reply has come too late for the request", async () => {
    const process = startProcess(1);
    await until("the values are stored", async () => {
      await dataOf(process.ask("{ n }"));
      await process.settled();
      return (await keyOf("Query.n")) !== "";
    });
    const key = await keyOf("Query.n");
    await writer.set(key, Buffer.concat([(await writer.getBuffer(key)) as Buffer, Buffer.alloc(50 * MB)]));
    await until("it has been read and removed", async () => {
      await dataOf(process.ask("{ n }"));
      return (await writer.exists(key)) === 0;
    });
    const messages = process.events.map((event) => (event.name === "store.failed" ? String(event.error) : ""));
    expect(messages.some((message) => /at most \d+ bytes/.test(message))).toBe(true);
  }, 60_000);
});
