import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { expect, it, onTestFinished, vi } from "vitest";
import { sharedServer } from "../support/shared-servers.js";

it.each([
  ["with memory that the head of the clock validates", {}],
  ["with memory that counts for two seconds", { memory: { maxStalenessMs: 2_000 } }],
])(
  "stores, serves and invalidates values over a client that pipelines the calls of a tick by itself, %s",
  async (_what, settings) => {
    const client = new Redis({ ...(await sharedServer("redisStandalone")), enableAutoPipelining: true });
    const logger = { info: vi.fn(), warn: vi.fn() };
    const cache = createCache({
      defaultScope: "PUBLIC",
      store: redisStore({ client }),
      logger,
      prefix: `auto${Math.random().toString(36).slice(2)}`,
      ...settings,
    });
    onTestFinished(async () => {
      await cache.close();
      client.disconnect();
    });
    const batch = vi.fn(async (ids: readonly number[]) => ids);
    const loader = cache.loader<number, number, object>({
      name: "Value",
      maxAge: 60,
      tags: (id) => [`Value:${id}`],
      batch,
    });
    const read = () => loader({}).loadMany([1, 2, 3]);
    const loads = () => batch.mock.calls.map(([ids]) => ids);
    expect(await read()).toEqual([1, 2, 3]);
    await vi.waitFor(async () => expect(await client.keys(`*:Value:*`)).not.toEqual([]));
    await vi.waitFor(async () => {
      batch.mockClear();
      expect(await read()).toEqual([1, 2, 3]);
      expect(loads()).toEqual([]);
    });
    if ("memory" in settings) {
      // Served without a read of the store.
      const pipeline = vi.spyOn(client, "pipeline");
      await vi.waitFor(async () => {
        pipeline.mockClear();
        await read();
        expect(pipeline).not.toHaveBeenCalled();
      });
    }
    await cache.invalidateTags(["Value:2"]);
    expect(await read()).toEqual([1, 2, 3]);
    expect(loads()).toEqual([[2]]);
    expect(logger.warn).not.toHaveBeenCalled();
  },
);
