import { randomUUID } from "node:crypto";
import { memcachedStore } from "@graphql-cached/memcached";
import { FakeClock } from "@graphql-cached/testing";
import type { Store } from "graphql-cached/store";
import { MemcacheClient } from "memcache-client";
import { describe, expect, it } from "vitest";
import { until } from "../../../test/support/server-lab.js";
import { sharedServer } from "../../../test/support/shared-servers.js";
import { afterCaches, dataOf, memoryWorld } from "../../../test/support/world.js";

const [{ host, port }] = await sharedServer("memcached");
const typeDefs = /* GraphQL */ `
  type Query {
    top: Int @cached(maxAge: 60)
    tagged: Int @cached(maxAge: 60, tags: ["T"])
  }
`;

/** Starts a process, whose reads of the store are counted. */
function startProcess(prefix: string, options: object) {
  const counts = { loads: 0, reads: 0 };
  const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true });
  afterCaches(async () => client.shutdown());
  const store = memcachedStore({ client });
  const { read } = store;
  store.read = (keys: readonly string[]): ReturnType<Store["read"]> => (counts.reads++, read.call(store, keys));
  const load = (): number => ++counts.loads;
  const process = memoryWorld(() => store).process(
    typeDefs,
    { Query: { top: load, tagged: load } },
    { prefix, storage: { storeTimeoutMs: 1_000 }, ...options },
  );
  return { ...process, counts };
}

describe("Memory that counts for two seconds, on memcached", () => {
  it("serves without a read, and learns of the invalidations of others by asking, since there are no messages", async () => {
    const [clock, prefix] = [new FakeClock(), randomUUID()];
    const one = startProcess(prefix, { memory: { maxStalenessMs: 2_000 }, testing: { clock } });
    const other = startProcess(prefix, {});
    const ask = () => dataOf(one.ask("{ top tagged }"));
    await until("both are served from memory", async () => {
      const { reads } = one.counts;
      await ask();
      return one.counts.reads === reads;
    });
    await other.cache.invalidate({ coordinate: "Query.top" });
    await other.cache.invalidateTags(["T"]);
    const { reads } = one.counts;
    expect([await ask(), one.counts.reads]).toEqual([{ top: 1, tagged: 2 }, reads]);
    await clock.advance(500);
    await until("both are loaded again", async () => (await ask(), one.counts.loads === 4));
  });
});
