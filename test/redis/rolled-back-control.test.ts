import { randomUUID } from "node:crypto";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld, type Process } from "../support/world.js";

const typeDefs = "type Query { value(id: ID!): Int @cached(maxAge: 60) other(id: ID!): Int @cached(maxAge: 60) }";

describe("A Redis that has gone back to an earlier control record, which another process has changed since", () => {
  const lab = new RedisLab();
  const clients: Redis[] = [];
  let node: LabNode;
  beforeAll(async () => {
    node = await lab.standalone();
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await lab.stop();
  });

  const connect = (): Redis => {
    const client = new Redis(node.port, node.host);
    clients.push(client);
    return client;
  };
  const read = async ({ ask }: Process): Promise<unknown> =>
    ((await dataOf(ask(`{ value(id: "7") }`))) as { value: unknown }).value;
  async function untilHit(process: Process): Promise<void> {
    const hits = (): number => process.outcomes().hit ?? 0;
    const before = hits();
    await until("a hit", async () => (await read(process), hits() > before));
  }
  const INVALIDATIONS = {
    "the field": ({ cache }: Process) => cache.invalidate({ coordinate: "Query.value" }),
    everything: ({ cache }: Process) => cache.clear(),
  };

  /**
   * One process invalidates, the server goes back without a reconnect, as behind a proxy, and another one, which has not seen
   * the invalidation, changes the earlier record.
   */
  async function goBack(what: keyof typeof INVALIDATIONS) {
    const prefix = randomUUID();
    const source = { version: 1 };
    const join = (): Process =>
      memoryWorld(() => redisStore({ client: connect() })).process(
        typeDefs,
        { Query: { value: () => source.version, other: () => source.version } },
        { prefix, storage: { storeTimeoutMs: 2_000 } },
      );
    const [maker, idle] = [join(), join()];
    for (const process of [maker, idle]) await untilHit(process);
    const admin = connect();
    const names = await admin.keys(`${prefix}:[2#][:c]*`);
    const saved = await Promise.all(
      names.map(async (name) => [name, (await admin.getBuffer(name)) as Buffer] as const),
    );
    source.version = 2;
    await INVALIDATIONS[what](maker);
    expect(await read(maker)).toBe(2);
    for (const [name, bytes] of saved) await admin.set(name, bytes);
    await idle.cache.invalidate({ coordinate: "Query.other" });
    return maker;
  }

  it.each(Object.keys(INVALIDATIONS) as (keyof typeof INVALIDATIONS)[])(
    "serves nothing older to the process that had invalidated %s, in the read that shows the loss",
    async (what) => {
      const maker = await goBack(what);
      expect(await read(maker)).toBe(2);
      await untilHit(maker);
    },
  );
});
