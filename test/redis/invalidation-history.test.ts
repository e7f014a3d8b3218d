import { randomUUID } from "node:crypto";
import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inspect } from "../support/inspection.js";
import { createProvenanceSite, WAYS } from "../support/provenance-site.js";
import { RedisLab } from "../support/redis-lab.js";

const MAX_BYTES = 2_000_000;
const TAGS = 1_100;

describe("The history of invalidations on Redis", () => {
  const lab = new RedisLab();
  let client: Redis;
  beforeAll(async () => {
    const { host, port } = await lab.standalone();
    client = new Redis(port, host);
  });
  afterAll(async () => {
    await client.quit();
    await lab.stop();
  });

  it("takes less than 2 MB after any number of invalidations, and says since when it is complete", async () => {
    const prefix = `many-${randomUUID()}`;
    const cache = createCache({ store: redisStore({ client }), prefix, storage: { storeTimeoutMs: 5_000 } });
    const loader = cache.loader<number, string>({
      name: "Product",
      maxAge: 60,
      batch: async (ids) => ids.map(String),
    });
    await loader({}).load(1);
    // Calls with more tags than a record names, and calls with one entry: together more than a megabyte of records.
    for (let nth = 0; nth < 100; nth++) {
      await cache.invalidateTags(Array.from({ length: TAGS }, (_, at) => `tag-${nth}-${at}`));
      const ids = Array.from({ length: 24 }, (_, at) => nth * 24 + at);
      await Promise.all(ids.map((id) => cache.invalidate({ loader: "Product", id })));
    }
    await cache.close();
    const other = createCache({ store: redisStore({ client }), prefix });
    const { invalidations } = await inspect(
      other,
      "invalidations(first: 300) { since count items { at nameCount tags } }",
    );
    await other.close();
    const { since, count, items } = invalidations as {
      since: string;
      count: number;
      items: { at: string; nameCount: number; tags: string[] }[];
    };
    expect(count).toBeGreaterThan(1_000);
    expect(count).toBeLessThan(2_500);
    expect(items.find(({ nameCount }) => nameCount === TAGS)?.tags).toHaveLength(1_000);
    // The newest is there, and the oldest is not: `since` lies between the first invalidation and the oldest record.
    expect(Date.parse(since)).toBeLessThanOrEqual(Date.parse(items.at(-1)?.at as string) + 1_000);
    expect(Number(await client.call("MEMORY", "USAGE", `${prefix}:#log:history`, "SAMPLES", "0"))).toBeLessThan(
      MAX_BYTES,
    );
    expect(await client.pttl(`${prefix}:#log:history`)).toBeGreaterThan(0);
  }, 120_000);

  it("contains no argument, id or text of a tag after any way to invalidate", async () => {
    const secret = `s3cr3t-${randomUUID()}`;
    const prefix = `secrets-${randomUUID()}`;
    // Values are readable unless they are encrypted.
    const encryption = { keys: [{ id: "a", key: Buffer.alloc(32, 7) }] };
    const site = createProvenanceSite(redisStore({ client }), prefix, { encryption } as never);
    for (const invalidate of Object.values(WAYS)) {
      await site.ask(`{ movie(id: "${secret}") { id genre } price(id: "${secret}") }`);
      await invalidate(site, secret);
    }
    await site.cache.close();
    const keys = await client.keys(`${prefix}:*`);
    expect(keys).toContain(`${prefix}:#log:history`);
    const contents = await Promise.all(
      keys.map(async (key) => {
        const type = await client.type(key);
        return Buffer.concat(
          type === "zset"
            ? ((await client.callBuffer("ZRANGE", key, 0, -1)) as Buffer[])
            : [(await client.getBuffer(key)) ?? Buffer.alloc(0)],
        ).toString("latin1");
      }),
    );
    const history = contents[keys.indexOf(`${prefix}:#log:history`)];
    for (const via of ["cache.invalidate", "@invalidates", "entityTags", "cacheClear", "Mutation.rename"])
      expect(history).toContain(via);
    const dump = [...keys, ...contents].join("\n");
    for (const text of [
      secret,
      Buffer.from(secret).toString("base64").slice(0, -4),
      Buffer.from(secret).toString("hex"),
    ])
      expect(dump).not.toContain(text);
  });
});
