import { randomBytes } from "node:crypto";
import { inspect } from "node:util";
import { inflateRawSync } from "node:zlib";
import { ApolloServer } from "@apollo/server";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import {
  applyCached,
  CachedError,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { describe, expect, it, vi } from "vitest";
import { monitorRedis } from "../support/redis-monitor.js";
import { sharedServer } from "../support/shared-servers.js";
import { afterCaches } from "../support/world.js";

/** Values that must never be disclosed, one for each part of a request. */
const SECRETS = {
  identity: "identity-s3cr3t@example.org",
  argument: "argument-s3cr3t",
  nested: "nested-s3cr3t",
  tag: "tag-s3cr3t",
  context: "context-s3cr3t",
  value: "value-s3cr3t",
  name: "name of a value s3cr3t",
  id: "id-s3cr3t",
  failure: "failure-s3cr3t",
};

const typeDefs = /* GraphQL */ `
  scalar JSON
  enum Kind { A B }
  type Query {
    mine(of: String, json: JSON): JSON @cached(maxAge: 60, scope: PRIVATE, tags: ["T:{$args.of}"])
    ours(of: String, json: JSON): JSON @cached(maxAge: 60, key: ["$args", "$context.session.token"])
    plain(kind: Kind, n: Int): JSON @cached(maxAge: 60)
    odd(json: JSON): JSON @cached(maxAge: 60)
    late: JSON @cached(maxAge: 60, scope: PRIVATE)
    fails: JSON @cached(maxAge: 60, scope: PRIVATE)
    huge: JSON @cached(maxAge: 60)
  }
  type Mutation { change(of: String): JSON @invalidates(tags: ["T:{$args.of}"]) }
`;

class Unserializable {
  readonly value = SECRETS.value;
}

const resolvers = {
  Query: {
    mine: () => ({ [SECRETS.name]: SECRETS.value }),
    ours: (_: unknown, __: unknown, { role }: { role: string }) => [SECRETS.value, role],
    plain: () => SECRETS.value,
    odd: () => ({ [SECRETS.name]: [new Unserializable()] }),
    late: (_: unknown, __: unknown, context: { userId: string }) => {
      context.userId = `${SECRETS.identity} of another`;
      return SECRETS.value;
    },
    fails: () => Promise.reject(new Error(SECRETS.failure)),
    huge: () => SECRETS.value.repeat(1_000),
  },
  Mutation: { change: () => SECRETS.value },
};

/** Starts a server on Redis and collects everything its cache emits: events, log lines and errors. */
async function startScene(options: Partial<CacheOptions<{ userId?: string }>> = {}) {
  const events: CacheEvent[] = [];
  const lines: unknown[] = [];
  const errors: unknown[] = [];
  const client = new Redis(await sharedServer("redisStandalone"));
  const prefix = `disclosure-${process.pid}-${Date.now()}`;
  const log = (line: unknown): void => void lines.push(line);
  const cache = createCache<{ userId?: string }>({
    defaultScope: "PUBLIC",
    store: redisStore({ client }),
    prefix,
    identify: ({ userId }) => userId,
    logger: { info: log, warn: log },
    onEvent: (event) => events.push(event),
    storage: { maxValueBytes: 4_096, storeTimeoutMs: 5_000 },
    ...options,
  });
  afterCaches(async () => {
    await cache.close();
    await client.quit();
  });
  const isAdmin = ({ userId }: { userId?: string }): boolean => userId === "admin";
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
    resolvers: [
      resolvers as unknown as IResolvers,
      inspectionResolvers(cache, { allow: isAdmin }) as unknown as IResolvers,
    ],
  });
  const server = new ApolloServer<object>({
    schema: applyCached(schema, cache),
    plugins: [cachedPlugin(cache, { allow: isAdmin as never })],
  });
  const ask = async (query: string, contextValue: object, variables: object = {}, extensions: object = {}) => {
    const { body } = await server.executeOperation(
      { query, variables: variables as Record<string, unknown>, extensions: extensions as Record<string, unknown> },
      { contextValue },
    );
    return body.kind === "single" ? body.singleResult : undefined;
  };
  const collectError = async (act: () => unknown): Promise<void> => {
    try {
      await act();
    } catch (error) {
      errors.push(error);
    }
  };
  return { events, lines, errors, client, prefix, cache, ask, collectError };
}

const VARIABLES = { of: SECRETS.argument, json: { [SECRETS.nested]: [SECRETS.nested] } };

/** Returns `value` in full, with causes and stacks. */
const inspectAll = (value: unknown): string =>
  inspect(value, { depth: 30, showHidden: true, maxArrayLength: null, maxStringLength: null });

function expectNoSecrets(value: unknown, where: string): void {
  expect(inspectAll(value), where).not.toMatch(/s3cr3t/);
}

type Scene = Awaited<ReturnType<typeof startScene>>;

/** Uses every part of the cache that handles private data. */
async function exercise({ ask, cache, collectError }: Scene): Promise<void> {
  const context = () => ({ userId: SECRETS.identity, session: { token: SECRETS.context }, role: SECRETS.context });
  for (let nth = 0; nth < 2; nth++) {
    const query = "query Q($of: String, $json: JSON) { mine(of: $of, json: $json) ours(of: $of, json: $json) plain }";
    await ask(query, context(), VARIABLES);
    await ask("query Q($json: JSON) { odd(json: $json) huge fails }", context(), VARIABLES);
    await ask("{ late }", context());
    await ask("query Q($json: JSON) { odd(json: $json) }", context(), { json: SECRETS.argument.repeat(10_000) });
    await ask("mutation M($of: String) { change(of: $of) }", context(), VARIABLES);
  }
  const secrets = cache.loader<string, unknown>({
    name: "Secret",
    maxAge: 60,
    scope: "PRIVATE",
    tags: (id) => [SECRETS.tag, id],
    batch: async (ids) => ids.map((id) => ({ id, value: SECRETS.value })),
  });
  await secrets(context() as never).loadMany([SECRETS.id, "x".repeat(70_000) + SECRETS.id]);
  await cache.invalidateTags([SECRETS.tag]);
  await collectError(() =>
    cache.invalidate({ coordinate: "Query.mine", args: { of: SECRETS.argument }, private: SECRETS.identity }),
  );
  await collectError(() => cache.invalidate({ coordinate: "Query.plain", args: { kind: SECRETS.argument } }));
  await collectError(() => cache.invalidate({ coordinate: "Query.plain", args: { n: SECRETS.argument } }));
  await collectError(() => cache.invalidate({ coordinate: "Query.plain", args: { n: { [SECRETS.nested]: 1 } } }));
  await collectError(() => cache.invalidateTags(SECRETS.tag as never));
  await collectError(() => cache.invalidateTags([SECRETS.tag, 7] as never));
  await collectError(() => cache.refresh(SECRETS.value as never));
}

describe("private data", () => {
  it("does not disclose private data in events, log lines, key names, inspection or errors", async () => {
    const consoleWarn = vi.spyOn(console, "warn");
    const scene = await startScene();
    await exercise(scene);
    const { events, lines, errors, client, prefix, ask } = scene;
    const own = events.filter(({ name }) => name !== "load.failed");
    expect(new Set(own.map(({ name }) => name))).toEqual(
      new Set([
        "entry.served",
        "resolver.bypassed",
        "invalidation.finished",
        "store.finished",
        "load.started",
        "load.finished",
        "write.finished",
        "value.refused",
        "context.read",
        "context.written",
      ]),
    );
    expectNoSecrets(own, "events");
    // load.failed carries the error of the source, which may contain anything. Errors of the cache must not.
    for (const event of events)
      if (event.name === "load.failed" && event.error instanceof CachedError) expectNoSecrets(event, "events");
    expect(lines.length).toBeGreaterThan(3);
    expectNoSecrets([lines, consoleWarn.mock.calls], "log");
    expect(errors).toHaveLength(6);
    for (const error of errors) {
      expect(error).toBeInstanceOf(CachedError);
      expectNoSecrets(error, "errors");
    }
    const keys = await client.keys(`${prefix}*`);
    expect(keys.length).toBeGreaterThan(3);
    expectNoSecrets(keys, "key names");
    const inspection = await ask(
      `{ cacheInspection { counts { fields { coordinate sinceStart { bypasses { reason reads } } } } events { name coordinates detail error
        invalidation { via tags } } policies { coordinate } entry(coordinate: "Query.mine", private: "${SECRETS.identity}",
        args: { of: "${SECRETS.argument}" }) { state storedBytes tags { digest } } } }`,
      { userId: "admin" },
      {},
      { cached: true },
    );
    expect(inspection?.errors).toBeUndefined();
    expectNoSecrets(inspection, "inspection");
  });

  it("does not disclose private data to Redis, with encryption, reports and all ways to invalidate", async () => {
    const scene = await startScene({
      encryption: { keys: [{ id: "1", key: randomBytes(32) }] },
      inspection: { report: true },
    });
    const { ask, cache, client, prefix } = scene;
    const monitor = await monitorRedis(await sharedServer("redisStandalone"));
    const commands = await monitor.commandsOf(prefix, async () => {
      await ask("{ cacheInspection { processes { id } } }", { userId: "admin" });
      await exercise(scene);
      await cache.invalidate({
        coordinate: "Query.ours",
        args: { of: SECRETS.argument },
        context: { session: { token: SECRETS.context } },
      } as never);
      await cache.invalidateTags([SECRETS.tag], { soft: true });
      await cache.mutate({ tags: [SECRETS.tag] }, () => undefined);
      await cache.clear();
      // Writes the last report.
      await cache.close();
    });
    monitor.close();
    const sent = JSON.stringify(commands);
    for (const coordinate of ["Query.mine", "Query.ours", "Secret"]) expect(sent).toContain(coordinate);
    expect(sent).not.toMatch(/s3cr3t/);
    const reports: string[] = [];
    for (const name of await client.keys(`${prefix}:#reports:{0}:*`))
      reports.push(inflateRawSync((await client.getBuffer(name)) ?? "").toString());
    expect(reports.join()).toMatch(/"total":.*Query\.mine.*"events":.*invalidation\.finished/);
    expect(reports.join()).not.toMatch(/s3cr3t/);
  });

  it("returns `extensions.cached` only to callers that `allow` admits", async () => {
    const { ask } = await startScene();
    const extensions = { cached: true, admin: true, userId: "admin" };
    for (const userId of ["alice", "admin ", "Admin", undefined]) {
      const answer = await ask("{ plain }", { userId }, {}, extensions);
      expect(answer?.extensions).toBeUndefined();
    }
    const answer = await ask("query Q($of: String) { mine(of: $of) }", { userId: "admin" }, VARIABLES, extensions);
    expect(answer?.extensions).toEqual({ cached: { "Query.mine": { loaded: 1 } } });
  });
});
