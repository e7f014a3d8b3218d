import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sharedServer } from "../support/shared-servers.js";
import { redisWorld, waitForStores } from "../support/world.js";

let client: Redis;
beforeAll(async () => {
  client = new Redis(await sharedServer("redisStandalone"));
});
afterAll(() => client.quit());

it("gives every Redis key a TTL, except entries with neverExpires, the clock", async () => {
  const world = await redisWorld();
  const typeDefs = `
    type Query {
      empty(id: ID): String @cached(maxAge: 60, negativeMaxAge: 0, tags: ["a:{$args.id}"])
      film(id: ID): String @cached(maxAge: 60, tags: ["a:{$result}"])
      forever: String @cached(maxAge: 60, neverExpires: true)
      never: String @cached(maxAge: 60, neverExpires: true, negativeMaxAge: 0)
    }
  `;
  const resolvers = { Query: { empty: () => null, film: () => "Ran", forever: () => "Ran", never: () => null } };
  const process = world.process(typeDefs, resolvers, { storage: { storeTimeoutMs: 5_000 } });
  const off = process.cache.loader<number, number>({ name: "Off", maxAge: 0, batch: async (ids) => ids });
  const loader = process.cache.loader<number, null>({
    name: "Empty",
    maxAge: 60,
    negativeMaxAge: 0,
    batch: async (ids) => ids.map(() => null),
  });
  await off({}).load(1);
  await loader({}).load(1);
  await process.ask('{ empty(id: "1") film(id: "1") forever never }');
  await process.cache.invalidateTags(["a:1"]);
  await waitForStores(process, 5);
  const keys = await client.keys(`${world.prefix}:*`);
  const lasting = await Promise.all(keys.map(async (key) => ((await client.pttl(key)) === -1 ? key : undefined)));
  expect(lasting.filter((key) => key !== undefined).sort()).toEqual([
    `${world.prefix}:#clock`,
    `${world.prefix}:#clock:log`,
    expect.stringContaining(":Query.forever:"),
  ]);
  expect(keys.filter((key) => key.includes(":Off:"))).toEqual([]);
  // What is not kept is there for those who wait for it, for 2 seconds.
  const unkept = keys.filter((key) => /:(Empty|Query\.(empty|never)):/.test(key));
  for (const key of unkept) expect(await client.pttl(key), key).toBeLessThanOrEqual(2_000);
});
