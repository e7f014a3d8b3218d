import { randomUUID } from "node:crypto";
import { chaosStore, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { processStateOf } from "../../src/tools/inspection/process-state.js";
import { sharedServer } from "../support/shared-servers.js";
import { afterCaches } from "../support/world.js";

/** Every part of a request, the value, the tags and the errors of the source have a secret of their own. */
const SECRET = /s3cr3t/i;
const typeDefs = /* GraphQL */ `
  type Query {
    mine(of: String): String @cached(maxAge: 60, scope: PRIVATE, tags: ["T:{$args.of}"])
    ours(of: String): [String] @cached(maxAge: 60, key: ["$args", "$context.token"], tags: ["R:{$result[]}"])
    fails(of: String): String @cached(maxAge: 60)
    held(of: String): String @cached(maxAge: 60)
  }
  type Mutation { change(of: String): String @invalidates(tags: ["T:{$args.of}"]) }
`;
/** Everything that the inspection shows of live state. */
const LIVE = /* GraphQL */ `{ cacheInspection {
  fields { coordinate breaker { process state since } bulkhead { running queued overdue } }
  leases { process coordinate digest state since forMs isRefresh waiters }
  store { name nodes { node server { version role evictionPolicy } serverMissing connections { lastFailure { message } lastConnectionError { message } } } }
  events { name at firstAt count coordinate digest node detail error }
  states { queues { waitingReaders } unconfirmedInvalidations { keys tags coordinates everything since } }
} }`;

it("discloses no arguments, identities, values, tags or error texts in the live state, the health and the process state", async () => {
  const client = new Redis(await sharedServer("redisStandalone"));
  const store = chaosStore(redisStore({ client }));
  const hold = gate();
  const cache = createCache<{ userId?: string; token?: string }>({
    store,
    prefix: `live-${randomUUID()}`,
    identify: ({ userId }) => userId,
    logger: { info: () => undefined, warn: () => undefined },
    storage: { storeTimeoutMs: 2_000, maxValueBytes: 2_000 },
    loads: { breakerThreshold: 3, errorBackoffMs: 1 },
  });
  afterCaches(async () => {
    await cache.close();
    await client.quit();
  });
  const failure = (of: string): Error =>
    Object.assign(new Error(`text ${of}`), {
      code: `code ${of}`,
      name: `name of ${of}`,
      extensions: { code: [of], of },
    });
  const resolvers = {
    Query: {
      mine: (_: unknown, { of }: { of: string }) => `value of ${of}`,
      ours: (_: unknown, { of }: { of: string }, { role }: { role?: string }) => [`${of} ${role}`],
      fails: (_: unknown, { of }: { of: string }) => {
        throw failure(of);
      },
      held: (_: unknown, { of }: { of: string }) => hold.passed.then(() => of),
    },
    Mutation: { change: (_: unknown, { of }: { of: string }) => of },
  };
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
      resolvers: [resolvers, inspectionResolvers(cache, { allow: () => true })],
    }),
    cache,
  );
  const context = () => ({ userId: "identity s3cr3t", token: "token s3cr3t", role: "role s3cr3t" });
  const ask = (source: string) => graphql({ schema, source, contextValue: context() });
  const held = ask('{ held(of: "argument s3cr3t") }');
  await ask('{ mine(of: "argument s3cr3t") ours(of: "argument s3cr3t") }');
  for (let nth = 0; nth < 4; nth++) await ask(`{ fails(of: "argument s3cr3t ${nth}") }`);
  await ask(`{ mine(of: "s3cr3t${"x".repeat(3_000)}") }`);
  await settle();
  store.chaos.mode = "throws";
  await ask('mutation { change(of: "argument s3cr3t") }');
  await ask('{ mine(of: "argument s3cr3t") }');
  await expect(cache.invalidateTags(["tag s3cr3t"])).rejects.toThrow();
  store.chaos.mode = undefined;
  const { data, errors } = await ask(LIVE);
  expect(errors).toBeUndefined();
  const shown = { live: data, health: await cache.health(), state: processStateOf(partsOf(cache, "test")) };
  // There is something to disclose.
  const { leases, unconfirmed, events, sources } = shown.state;
  expect(leases.total).toBe(1);
  expect(unconfirmed.tags).toBeGreaterThan(0);
  expect(sources.find(({ coordinate }) => coordinate === "Query.fails")?.breaker?.since).toEqual(expect.any(String));
  expect(events.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["load.failed", "load.refused", "value.refused", "store.failed", "context.read"]),
  );
  expect(JSON.stringify(shown)).not.toMatch(SECRET);
  hold.open();
  await held;
});

it("keeps a process state small and free of anything but JSON, however much there is to show", async () => {
  const hold = gate();
  const cache = createCache({ logger: { info: () => undefined, warn: () => undefined } });
  afterCaches(() => cache.close());
  const many = Array.from({ length: 300 }, (_, nth) => nth);
  const loads = many.map((nth) =>
    cache
      .loader({ name: `Loader${nth}`, maxAge: 60, batch: (ids: readonly number[]) => hold.passed.then(() => ids) })({})
      .load(1),
  );
  const failing = many.map((nth) =>
    cache
      .loader({ name: `Failing${nth}`, maxAge: 60, batch: () => Promise.reject(new Error("down")) })({})
      .load(1),
  );
  await Promise.allSettled(failing);
  await settle();
  const state = processStateOf(partsOf(cache, "test"));
  expect(state.leases.total).toBe(300);
  expect([state.leases.oldest.length, state.sources.length, state.events.length]).toEqual([50, 50, 50]);
  const json = JSON.stringify(state);
  expect(json.length).toBeLessThan(40_000);
  expect(JSON.parse(json)).toEqual(state);
  hold.open();
  await Promise.all(loads);
});
