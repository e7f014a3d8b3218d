import { inspect } from "node:util";
import { ApolloServer } from "@apollo/server";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import {
  applyCached,
  CachedError,
  type CacheEvent,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { describe, expect, inject, it, vi } from "vitest";
import { afterCaches } from "../support/world.js";

/** What nobody may be told of: each in one place of a request. */
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
    kept(kind: Kind, n: Int): JSON @cached(maxAge: 60)
    odd(json: JSON): JSON @cached(maxAge: 60)
    late: JSON @cached(maxAge: 60, scope: PRIVATE)
    fails: JSON @cached(maxAge: 60, scope: PRIVATE)
    huge: JSON @cached(maxAge: 60)
  }
  type Mutation { change(of: String): JSON @invalidates(tags: ["T:{$args.of}"]) }
`;

class Strange {
  readonly value = SECRETS.value;
}

const resolvers = {
  Query: {
    mine: () => ({ [SECRETS.name]: SECRETS.value }),
    ours: (_: unknown, __: unknown, { role }: { role: string }) => [SECRETS.value, role],
    kept: () => SECRETS.value,
    odd: () => ({ [SECRETS.name]: [new Strange()] }),
    late: (_: unknown, __: unknown, context: { userId: string }) => {
      context.userId = `${SECRETS.identity} of another`;
      return SECRETS.value;
    },
    fails: () => Promise.reject(new Error(SECRETS.failure)),
    huge: () => SECRETS.value.repeat(1_000),
  },
  Mutation: { change: () => SECRETS.value },
};

/** All that a site's cache tells, while `act` runs. */
async function scene() {
  const events: CacheEvent[] = [];
  const lines: unknown[] = [];
  const errors: unknown[] = [];
  const client = new Redis(inject("redisStandalone"));
  const prefix = `telling-${process.pid}-${Date.now()}`;
  const log = (line: unknown): void => void lines.push(line);
  const cache = createCache<{ userId?: string }>({
    store: redisStore({ client }),
    prefix,
    identify: ({ userId }) => userId,
    logger: { info: log, warn: log },
    onEvent: (event) => events.push(event),
    maxValueBytes: 4_096,
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
  const told = async (act: () => unknown): Promise<void> => {
    try {
      await act();
    } catch (error) {
      errors.push(error);
    }
  };
  return { events, lines, errors, client, prefix, cache, ask, told };
}

const VARIABLES = { of: SECRETS.argument, json: { [SECRETS.nested]: [SECRETS.nested] } };

/** Everything of `what`, causes and stacks included. */
const wholeOf = (what: unknown): string => inspect(what, { depth: 30, showHidden: true, maxStringLength: null });

function expectSilent(what: unknown, where: string): void {
  const text = wholeOf(what);
  expect(text, where).not.toMatch(/s3cr3t/);
}

type Scene = Awaited<ReturnType<typeof scene>>;

/** Uses every part of a cache that gets to see something private. */
async function play({ ask, cache, told }: Scene): Promise<void> {
  const context = () => ({ userId: SECRETS.identity, session: { token: SECRETS.context }, role: SECRETS.context });
  for (let nth = 0; nth < 2; nth++) {
    const query = "query Q($of: String, $json: JSON) { mine(of: $of, json: $json) ours(of: $of, json: $json) kept }";
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
  await told(() =>
    cache.invalidate({ coordinate: "Query.mine", args: { of: SECRETS.argument }, private: SECRETS.identity }),
  );
  await told(() => cache.invalidate({ coordinate: "Query.kept", args: { kind: SECRETS.argument } }));
  await told(() => cache.invalidate({ coordinate: "Query.kept", args: { n: SECRETS.argument } }));
  await told(() => cache.invalidate({ coordinate: "Query.kept", args: { n: { [SECRETS.nested]: 1 } } }));
  await told(() => cache.invalidateTags(SECRETS.tag as never));
  await told(() => cache.invalidateTags([SECRETS.tag, 7] as never));
  await told(() => cache.refresh(SECRETS.value as never));
}

describe("what is private", () => {
  it("shows in no event, log line, key name, inspection or error of the cache", async () => {
    const silent = vi.spyOn(console, "warn");
    const one = await scene();
    await play(one);
    const { events, lines, errors, client, prefix, ask } = one;
    const own = events.filter(({ name }) => name !== "load.failed");
    expect(new Set(own.map(({ name }) => name))).toEqual(
      new Set([
        "entry.served",
        "resolver.bypassed",
        "load.started",
        "load.finished",
        "write.finished",
        "value.refused",
        "context.read",
      ]),
    );
    expectSilent(own, "events");
    // A load that failed is told of with the source's own error; the cache's is among them, and says nothing.
    for (const event of events)
      if (event.name === "load.failed" && event.error instanceof CachedError) expectSilent(event, "events");
    expect(lines.length).toBeGreaterThan(3);
    expectSilent([lines, silent.mock.calls], "log");
    expect(errors).toHaveLength(6);
    for (const error of errors) {
      expect(error).toBeInstanceOf(CachedError);
      expectSilent(error, "errors");
    }
    const keys = await client.keys(`${prefix}*`);
    expect(keys.length).toBeGreaterThan(3);
    expectSilent(keys, "key names");
    const inspection = await ask(
      `{ cacheInspection { stats { reads } fields { coordinate bypasses { reason reads } } entry(coordinate: "Query.mine", private: "${SECRETS.identity}", args: { of: "${SECRETS.argument}" }) { state valueBytes } } }`,
      { userId: "admin" },
      {},
      { cached: true },
    );
    expect(inspection?.errors).toBeUndefined();
    expectSilent(inspection, "inspection");
  });

  it("and what was cached of it shows in `extensions.cached` to nobody whom `allow` does not admit", async () => {
    const { ask } = await scene();
    const asked = { cached: true, admin: true, userId: "admin" };
    for (const userId of ["alice", "admin ", "Admin", undefined]) {
      const answer = await ask("{ kept }", { userId }, {}, asked);
      expect(answer?.extensions).toBeUndefined();
    }
    const answer = await ask("query Q($of: String) { mine(of: $of) }", { userId: "admin" }, VARIABLES, asked);
    expect(answer?.extensions).toEqual({ cached: { "Query.mine": { loaded: 1 } } });
  });
});
