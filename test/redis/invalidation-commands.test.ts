import { randomUUID } from "node:crypto";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { expect, it, onTestFinished } from "vitest";
import { monitorRedis } from "../support/redis-monitor.js";
import { sharedServer } from "../support/shared-servers.js";

/** `commands` is the number of commands in Redis, those inside of scripts included. */
const KINDS: readonly [name: string, commands: number, invalidate: (cache: Cache) => Promise<void>][] = [
  ["one entry", 12, (cache) => cache.invalidate({ coordinate: "Query.numbers", args: { from: 0 } })],
  ["one entry of a loader", 12, (cache) => cache.invalidate({ loader: "Number", id: 0 })],
  ["a field", 9, (cache) => cache.invalidate({ coordinate: "Query.numbers" })],
  ["a loader", 9, (cache) => cache.invalidate({ loader: "Number" })],
  ["a tag", 9, (cache) => cache.invalidateTags(["Numbers"])],
  ["a tag of results", 9, (cache) => cache.invalidateTags(["Even"])],
  ["a tag, softly", 9, (cache) => cache.invalidateTags(["Numbers"], { soft: true })],
  ["a field, softly", 9, (cache) => cache.invalidate({ coordinate: "Query.numbers" }, { soft: true })],
  ["everything", 9, (cache) => cache.clear()],
];

/** Fills `count` entries of a field and as many of a loader. */
async function createFilledCache(count: number): Promise<{ cache: Cache; prefix: string }> {
  const client = new Redis(await sharedServer("redisStandalone"));
  const prefix = `commands-${randomUUID()}`;
  let stored = 0;
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: redisStore({ client }),
    prefix,
    // A busy machine must not look like a server that fails.
    storage: { storeTimeoutMs: 5_000 },
    onEvent: (event) => {
      if (event.name === "write.finished" && event.isStored) stored++;
    },
  });
  onTestFinished(async () => {
    await cache.close();
    client.disconnect();
  });
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [
        cachedTypeDefs,
        /* GraphQL */ `
          type Group { name: String! }
          type Query { numbers(from: Int!): Group! @cached(maxAge: 600, tags: ["Numbers", "{$result.name}"]) }
        `,
      ],
      resolvers: { Query: { numbers: () => ({ name: "Even" }) } },
    }),
    cache,
  );
  const numbers = cache.loader<number, number>({
    name: "Number",
    maxAge: 600,
    tags: () => ["Numbers"],
    batch: async (ids) => ids,
  });
  const fields = Array.from({ length: count }, (_, from) => `at${from}: numbers(from: ${from}) { name }`);
  const { errors } = await graphql({ schema, source: `{ ${fields.join(" ")} }`, contextValue: {} });
  expect(errors).toBeUndefined();
  await numbers({}).loadMany(Array.from({ length: count }, (_, id) => id));
  await expect.poll(() => stored, { timeout: 10_000 }).toBe(2 * count);
  return { cache, prefix };
}

it("Redis runs as many commands for an invalidation with 1,000 entries as with one, for each kind of invalidation", async () => {
  const monitor = await monitorRedis(await sharedServer("redisStandalone"));
  onTestFinished(() => monitor.close());
  const [one, thousand] = [await createFilledCache(1), await createFilledCache(1_000)];
  const counted: Record<string, readonly [number, number]> = {};
  for (const [name, , invalidate] of KINDS) {
    const count = async ({ cache, prefix }: typeof one): Promise<number> => {
      // The first one of each kind may be preceded by a change of the settings.
      await invalidate(cache);
      // Waits until MONITOR has shown what came before.
      await monitor.commandsOf(prefix, async () => undefined);
      return (await monitor.requestCommandsOf(prefix, () => invalidate(cache))).length;
    };
    counted[name] = [await count(one), await count(thousand)];
  }
  expect(counted).toEqual(Object.fromEntries(KINDS.map(([name, commands]) => [name, [commands, commands]])));
});
