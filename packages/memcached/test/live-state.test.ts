import { randomUUID } from "node:crypto";
import { memcachedStore } from "@graphql-cached/memcached";
import { MemcacheClient } from "memcache-client";
import { describe, expect, it } from "vitest";
import { inspectedSite } from "../../../test/support/inspected-site.js";
import { sharedServer } from "../../../test/support/shared-servers.js";
import { afterCaches } from "../../../test/support/world.js";

const STORE =
  "store { name nodes { node server { version role entries usedBytes maxBytes evictionPolicy evictions } serverMissing } }";

function clientOf({ host, port }: { readonly host: string; readonly port: number }): MemcacheClient {
  const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true });
  afterCaches(async () => client.shutdown());
  return client;
}

describe("the live state on memcached", async () => {
  const [one, b, c] = await sharedServer("memcached");
  it.each([
    ["one server", [""], () => memcachedStore({ client: clientOf(one) })],
    ["one named server", [""], () => memcachedStore({ servers: { a: clientOf(one) } })],
    ["several servers", ["b", "c"], () => memcachedStore({ servers: { b: clientOf(b), c: clientOf(c) } })],
  ])("shows what each of %s says of itself", async (_, names, storeOf) => {
    const { ask, cache, inspect } = inspectedSite({
      store: storeOf(),
      prefix: randomUUID(),
      storage: { storeTimeoutMs: 2_000 },
    });
    await ask("{ page(id: 1) }");
    expect(await inspect(STORE)).toEqual({
      store: {
        name: "memcached",
        nodes: names.map((node) => ({
          node,
          server: {
            version: expect.stringMatching(/^memcached \d+\.\d+/),
            role: null,
            entries: expect.any(Number),
            usedBytes: expect.any(Number),
            maxBytes: 64 * 1024 * 1024,
            evictionPolicy: "lru",
            evictions: 0,
          },
          serverMissing: null,
        })),
      },
    });
    const { status, store } = await cache.health();
    expect({ status, nodes: store.nodes.map(({ node, isReachable }) => [node, isReachable]) }).toEqual({
      status: "ok",
      nodes: names.map((node) => [node, true]),
    });
  });
});
