import { deflateSync } from "node:zlib";
import { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { overrideStore } from "../../support/override-store.js";
import { sharedServer } from "../../support/shared-servers.js";
import { dataOf, memoryWorld, onEachStore, redisWorld, waitForStores } from "../../support/world.js";

const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

const typeDefs = "type Query { text(n: Int!): String @cached(maxAge: 60) }";
const resolvers = { Query: { text: (_: unknown, { n }: { n: number }) => "é".repeat(n) } };

const LIMITED = { maxValueBytes: 1_000, storeTimeoutMs: 5_000 };

onEachStore("maxValueBytes", (world) => {
  it("does not store a value larger than maxValueBytes and logs it once", async () => {
    const process = world().process(typeDefs, resolvers, { storage: LIMITED, loads: { errorBackoffMs: 30_000 } });
    for (let round = 0; round < 3; round++) {
      expect(await dataOf(process.ask("{ text(n: 600) }"))).toEqual({ text: "é".repeat(600) });
      // The lease is released after the response.
      await partsOf(process.cache, "test").drain();
    }
    expect(process.outcomes()).toEqual({ loaded: 1, "bypassed(UNCACHEABLE)": 2 });
    const message =
      "`Query.text`: the value is not cached: expected at most 1000 bytes, got 1203; return less data, or raise `storage.maxValueBytes`";
    const refused = process.events.find((event) => event.name === "value.refused");
    expect(refused).toMatchObject({ coordinate: "Query.text", error: { code: "CACHED_VALUE_TOO_LARGE", message } });
    expect(process.warnings).toEqual([message]);
  });

  it("stores smaller values of the same field", async () => {
    const process = world().process(typeDefs, resolvers, { storage: LIMITED });
    for (let round = 0; round < 2; round++) {
      expect(await dataOf(process.ask("{ text(n: 498) }"))).toEqual({ text: "é".repeat(498) });
      await waitForStores(process);
    }
    expect(process.outcomes()).toEqual({ loaded: 1, hit: 1 });
  });
});

describe("a value that is larger than a memory store", () => {
  it("counts as not stored, and its callers load at once until the store may be asked again", async () => {
    const clock = new FakeClock();
    const world = memoryWorld(() => memoryStore({ maxBytes: 2_000, clock }));
    const process = world.process(typeDefs, resolvers, { testing: { clock } });
    for (const expected of [{ loaded: 1 }, { loaded: 1, "bypassed(UNCACHEABLE)": 1 }]) {
      expect(await dataOf(process.ask("{ text(n: 1000) }"))).toEqual({ text: "é".repeat(1_000) });
      await partsOf(process.cache, "test").drain();
      expect(process.outcomes()).toEqual(expected);
    }
    await clock.advance(1_000);
    await dataOf(process.ask("{ text(n: 1000) }"));
    await waitForStores(process, 2);
    expect(process.events.filter(({ name }) => name === "write.finished")).toEqual(
      Array(2).fill(expect.objectContaining({ isStored: false, storedBytes: 0 })),
    );
    // What fits is stored.
    for (const _ of [1, 2]) {
      await dataOf(process.ask("{ text(n: 10) }"));
      await waitForStores(process, 3);
    }
    expect(process.outcomes()).toEqual({ loaded: 3, "bypassed(UNCACHEABLE)": 1, hit: 1 });
  });
});

describe("what is larger than any entry", () => {
  it("is not read for a while, and values in memory are served beside it", async () => {
    const inner = memoryStore();
    let isForeign = false;
    const store = overrideStore(inner, {
      read: async (names) => {
        const { readings, clock } = await inner.read(names);
        const foreign = readings.map((reading) =>
          isForeign && reading.kind === "read" && reading.entry === undefined
            ? { ...reading, foreignBytes: 2 ** 30 }
            : reading,
        );
        return { readings: foreign, clock };
      },
    });
    const process = memoryWorld(() => store).process(typeDefs, resolvers, { storage: { storeTimeoutMs: 5_000 } });
    await dataOf(process.ask("{ text(n: 1) }"));
    await waitForStores(process);
    await dataOf(process.ask("{ text(n: 1) }"));
    isForeign = true;
    for (const _ of [1, 2]) await dataOf(process.ask("{ small: text(n: 1) large: text(n: 2) }"));
    expect(process.outcomes()).toEqual({ loaded: 1, hit: 3, "bypassed(STORE_UNAVAILABLE)": 2 });
  });
});

describe("decompression", () => {
  it("treats an entry that decompresses beyond maxValueBytes as a miss", async () => {
    const world = await redisWorld();
    const storage = { compressAboveBytes: 100, storeTimeoutMs: 5_000 };
    const process = world.process(typeDefs, resolvers, { memory: false, storage });
    await process.ask("{ text(n: 1000) }");
    await waitForStores(process);
    const [name] = (await client.keys(`${world.prefix}*Query.text*`)) as [string];
    const entry = (await client.getBuffer(name)) as Buffer;
    const valueAt = entry.indexOf("\u0003\u0004json");
    expect(valueAt).toBeGreaterThan(0);
    expect(entry.length).toBeLessThan(valueAt + 200);
    const bomb = deflateSync(Buffer.alloc(100 * 2 ** 20, "a"));
    await client.set(name, Buffer.concat([entry.subarray(0, valueAt + 6), bomb]));
    expect(await dataOf(process.ask("{ text(n: 1000) }"))).toEqual({ text: "é".repeat(1000) });
    expect(process.events.find((event) => event.name === "entry.corrupt")?.error.message).toContain(
      "its value is larger than `storage.maxValueBytes` in this process",
    );
    expect(process.outcomes()).toEqual({ loaded: 2 });
  });
});
