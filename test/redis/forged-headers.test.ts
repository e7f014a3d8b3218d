import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { bytesOf } from "../../src/core/store/entry-layout.js";
import { RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld, type World } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    n: Int @cached(maxAge: 60, tags: ["N"])
    kept: Int @cached(maxAge: 60, neverExpires: true)
    stale: Int @cached(maxAge: 60, staleWhileRevalidate: 600)
  }
`;

/** Where the fields of a value are: see PROTOCOL.md, "Entry layout". */
const POSITION_AT = 12;
const FRESH_UNTIL_AT = 20;
const GRANTED_AT = 32;

describe("An entry in Redis whose header somebody has written", () => {
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

  function startProcess(options: object = {}, world: World = memoryWorld(() => redisStore({ client }))) {
    let loads = 0;
    const load = (): number => ++loads;
    const process = world.process(
      typeDefs,
      { Query: { n: load, kept: load, stale: load } },
      { memory: false, storage: { storeTimeoutMs: 1_000 }, ...options },
    );
    return { ...process, world, settled: () => partsOf(process.cache, "test").drain() };
  }

  async function entryOf(coordinate: string): Promise<{ key: string; bytes: Buffer }> {
    const [key = ""] = await client.keys(`*:${coordinate}:*`);
    return { key, bytes: (await client.getBuffer(key)) ?? Buffer.alloc(0) };
  }
  const write = (key: string, bytes: Buffer): Promise<unknown> => client.set(key, bytes);

  it("is not pinned by 24 bytes: position, freshness and age", async () => {
    const process = startProcess();
    await dataOf(process.ask("{ n }"));
    await process.settled();
    const { key, bytes } = await entryOf("Query.n");
    for (const at of [POSITION_AT, FRESH_UNTIL_AT, GRANTED_AT]) bytes.writeDoubleLE(1e300, at);
    await write(key, bytes);
    await process.cache.invalidateTags(["N"]);
    await process.cache.clear();
    await write(key, bytes);
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 2 });
    await process.settled();
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 2 });
  });

  it("is refreshed although it says that it stays fresh, if its value never expires", async () => {
    const process = startProcess();
    await dataOf(process.ask("{ kept }"));
    await process.settled();
    const { key, bytes } = await entryOf("Query.kept");
    bytes.writeDoubleLE(1e300, FRESH_UNTIL_AT);
    bytes.writeDoubleLE(bytes.readDoubleLE(GRANTED_AT) - 61_000, GRANTED_AT);
    await write(key, bytes);
    expect(await dataOf(process.ask("{ kept }"))).toEqual({ kept: 1 });
    await process.settled();
    expect(await dataOf(process.ask("{ kept }"))).toEqual({ kept: 2 });
  });

  it("is refreshed although it claims a lease that never ends", async () => {
    const process = startProcess();
    await dataOf(process.ask("{ stale }"));
    await process.settled();
    const { key, bytes } = await entryOf("Query.stale");
    bytes.writeDoubleLE(0, FRESH_UNTIL_AT);
    bytes[3] = 2;
    const lease = Buffer.alloc(48, 7);
    lease.writeDoubleLE(1e300, 32);
    lease.writeDoubleLE(bytes.readDoubleLE(POSITION_AT), 40);
    await write(key, Buffer.concat([bytes, lease]));
    expect(await dataOf(process.ask("{ stale }"))).toEqual({ stale: 2 });
    await process.settled();
    expect(await dataOf(process.ask("{ stale }"))).toEqual({ stale: 2 });
  });

  it("does not bring back an encrypted value with a later position, or another age", async () => {
    const encryption = { keys: [{ id: "k", key: Buffer.alloc(32, 1) }] };
    const process = startProcess({ encryption });
    await dataOf(process.ask("{ n }"));
    await process.settled();
    const { key, bytes: old } = await entryOf("Query.n");
    await process.cache.invalidateTags(["N"]);
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 2 });
    await process.settled();
    const { bytes: current } = await entryOf("Query.n");
    current.copy(old, POSITION_AT, POSITION_AT, POSITION_AT + 8);
    await write(key, old);
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 3 });
    await process.settled();
    const { bytes: younger } = await entryOf("Query.n");
    younger.writeDoubleLE(younger.readDoubleLE(GRANTED_AT) + 1_000, GRANTED_AT);
    await write(key, younger);
    expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 4 });
    expect(process.events.filter(({ name }) => name === "entry.corrupt")).toHaveLength(2);
  });

  const infinite = bytesOf([Number.POSITIVE_INFINITY]);
  const leaseUntil = (untilAt: Buffer, position: Buffer): Buffer =>
    Buffer.concat([Buffer.alloc(32, 7), untilAt, position]);
  /** `origin`: the epoch and the position of the entry. `rest`: of a value, what follows them. */
  const ENDLESS: Readonly<Record<string, (origin: Buffer, rest: Buffer) => readonly [string, ...Buffer[]]>> = {
    "a load that never ends": (origin) => ["g\x03P\0", origin, leaseUntil(infinite, origin.subarray(8))],
    "a load after all invalidations": (origin) => ["g\x03P\0", origin, leaseUntil(bytesOf([1e300]), infinite)],
    "a mark that never ends": (origin) => ["g\x03X\0", origin, infinite, Buffer.of(1)],
    "a failure that never ends": (origin) => ["g\x03F\0", origin, infinite, Buffer.from("{}")],
    "a value that is always fresh": (origin, rest) => ["g\x03V\0", origin, infinite, rest.subarray(8)],
    "a refresh that never ends": (origin, rest) => [
      "g\x03V\x02",
      origin,
      bytesOf([0]),
      rest.subarray(8),
      leaseUntil(infinite, origin.subarray(8)),
    ],
  };

  it.each(Object.entries(ENDLESS))(
    "holds nobody up if it has a number that is not finite, and goes with an invalidation of its key: %s",
    async (_, forge) => {
      const process = startProcess();
      await dataOf(process.ask("{ n }"));
      await process.settled();
      const { key, bytes } = await entryOf("Query.n");
      const [head, ...parts] = forge(bytes.subarray(4, 20), bytes.subarray(20));
      await write(key, Buffer.concat([Buffer.from(head, "latin1"), ...parts]));
      expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 2 });
      expect(process.outcomes()).toEqual({ loaded: 1, "bypassed(KEY_COLLISION)": 1 });
      await process.cache.invalidate({ coordinate: "Query.n", args: {} });
      expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 3 });
      await process.settled();
      expect(await dataOf(process.ask("{ n }"))).toEqual({ n: 3 });
    },
  );

  const CLOCKS: Readonly<Record<string, (head: Buffer, log: Buffer) => [Buffer, Buffer]>> = {
    "a position after which there is none": (head, log) => {
      head.writeDoubleLE(2 ** 53 - 1, 16);
      return [head, log];
    },
    "a head of 50 MB": (_, log) => [Buffer.alloc(50_000_000), log],
    "a log of 50 MB that its head agrees with": (head, log) => {
      head.writeDoubleLE(head.readDoubleLE(32) + 50_000_000, 40);
      return [head, Buffer.concat([log.subarray(0, 48), Buffer.alloc(50_000_000)])];
    },
    "a record of a kind that there is not": (head, log) => {
      log.writeUInt16LE(9, 48 + 16);
      return [head, log];
    },
    "a record that is later than any": (head, log) => {
      log.writeDoubleLE(2 ** 53 - 1, 48);
      return [head, log];
    },
  };

  it.each(Object.entries(CLOCKS))(
    "is cached and invalidated again soon if the clock cannot be: %s",
    async (_, forge) => {
      const process = startProcess();
      await dataOf(process.ask("{ n }"));
      await process.cache.invalidateTags(["X"]);
      await process.settled();
      const [clock = "", log = ""] = (await client.keys("*#clock*")).sort();
      const before = [await client.getBuffer(clock), await client.getBuffer(log)] as [Buffer, Buffer];
      const [head, records] = forge(...before);
      await client.mset(clock, head, log, records);
      // A process that starts now, and so reads all of the log.
      const other = startProcess({}, process.world);
      await until("a value is cached", async () => {
        await dataOf(other.ask("{ n }"));
        await other.settled();
        return (other.outcomes().hit ?? 0) > 0;
      });
      const { n } = (await dataOf(other.ask("{ n }"))) as { n: number };
      await other.cache.invalidateTags(["N"]);
      expect(await dataOf(other.ask("{ n }"))).toEqual({ n: n + 1 });
    },
  );
});
