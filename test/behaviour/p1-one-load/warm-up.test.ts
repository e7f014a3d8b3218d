import { randomUUID } from "node:crypto";
import { ApolloServer } from "@apollo/server";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { buildSchema, parse } from "graphql";
import { applyCached, type CacheOptions, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import type { Store } from "graphql-cached/store";
import { createYoga } from "graphql-yoga";
import { describe, expect, it } from "vitest";
import { HINTS } from "../../responses/site.js";
import { memoryWorld, onEachStore } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60)
    titles: [String!]! @cached(maxAge: 60)
    viewer: String @cached(maxAge: 60, scope: PRIVATE)
    broken: String @cached(maxAge: 60)
    held: String @cached(maxAge: 60)
  }
  type Movie {
    id: ID!
    title: String
    stars: Int @cached(maxAge: 60)
  }
  type Mutation {
    rate: Boolean
  }
  type Subscription {
    rated: Boolean
  }
`;

function createSource() {
  const source = { loads: [] as string[], held: gate(), running: 0, most: 0, rated: 0 };
  const count = (name: string): void => void source.loads.push(name);
  const resolvers = {
    Query: {
      movie: async (_: unknown, { id }: { id: string }) => {
        count(`movie ${id}`);
        source.most = Math.max(source.most, ++source.running);
        await settle();
        source.running--;
        return { id, title: `title ${id}` };
      },
      titles: () => (count("titles"), ["Alien"]),
      viewer: (_: unknown, _args: object, { user }: { user?: string }) => (count("viewer"), user),
      broken: () => {
        throw new Error("no database");
      },
      held: () => source.held.passed,
    },
    Movie: { stars: ({ id }: { id: string }) => (count(`stars ${id}`), 5) },
    Mutation: { rate: () => ++source.rated > 0 },
    Subscription: { rated: { subscribe: () => ({ [Symbol.asyncIterator]: () => (source.rated++, {}) }) } },
  };
  return { source, resolvers };
}

const PAGE = "query Page($id: ID!) { movie(id: $id) { title stars } }";
const page = (id: string) => ({ query: PAGE, variables: { id } });
const pages = (...ids: readonly string[]) => ids.map(page);

function createSite(options: CacheOptions<never> = {}) {
  const { source, resolvers } = createSource();
  const identify = ({ user }: { user?: string }) => user;
  const process = memoryWorld().process(typeDefs, resolvers, { identify, ...options } as CacheOptions<never>);
  return { source, ...process };
}

onEachStore("a warm-up of two processes", (world) => {
  it("loads each value once, and a process that starts later loads nothing", async () => {
    const { source, resolvers } = createSource();
    const shared = world();
    const start = () => {
      const { cache, schema } = shared.process(typeDefs, resolvers, { identify: () => undefined });
      return cache.warmUp({ schema, operations: pages("1", "2", "3") });
    };
    const [first, second] = await Promise.all([start(), start()]);
    const all = ["movie 1", "movie 2", "movie 3", "stars 1", "stars 2", "stars 3"];
    expect([...source.loads].sort()).toEqual(all);
    expect(first.loaded + second.loaded).toBe(6);
    expect(first.hits + second.hits).toBe(6);
    expect([...first.failed, ...second.failed]).toEqual([]);
    expect(await start()).toEqual({ loaded: 0, hits: 6, bypassed: 0, failed: [] });
    expect(source.loads.length).toBe(6);
  });
});

describe("a warm-up", () => {
  it("loads what its queries read, so that a request afterwards loads nothing", async () => {
    const { cache, schema, ask, source } = createSite();
    const operations = [...pages("1", "2"), { query: "{ titles }" }];
    expect(await cache.warmUp({ schema, operations })).toEqual({ loaded: 5, hits: 0, bypassed: 0, failed: [] });
    expect(source.loads.length).toBe(5);
    await ask("{ titles }", {});
    await ask(PAGE, {}, { id: "1" });
    expect(source.loads.length).toBe(5);
  });

  it("fills the near cache, with values of the store and with those that it loads", async () => {
    const store = memoryStore();
    let reads = 0;
    const counted = (): Store =>
      new Proxy(store, {
        get(target, name) {
          const member = Reflect.get(target, name) as unknown;
          if (typeof member !== "function") return member;
          return (...args: unknown[]) => {
            if (name === "read" && (args[0] as unknown[]).length > 0) reads++;
            return (member as (...given: unknown[]) => unknown).apply(target, args);
          };
        },
      });
    const start = async (operations: ReturnType<typeof pages>) => {
      const clock = new FakeClock();
      const site = createSite({ store: counted(), prefix: "warm", nearCache: {}, testing: { clock } });
      const report = await site.cache.warmUp({ schema: site.schema, operations });
      return { ...site, report };
    };
    const first = await start(pages("1"));
    expect(first.report).toMatchObject({ loaded: 2, hits: 0 });
    const second = await start(pages("1", "2"));
    expect(second.report).toMatchObject({ loaded: 2, hits: 2 });
    for (const { ask, source } of [first, second]) {
      const before = { reads, loads: source.loads.length };
      await ask(PAGE, {}, { id: "1" });
      expect({ reads, loads: source.loads.length }).toEqual(before);
    }
    const before = reads;
    await second.ask(PAGE, {}, { id: "2" });
    expect(reads).toBe(before);
  });

  it("goes on after an operation that fails, and reports it by its name with its error", async () => {
    const { cache, schema, source } = createSite();
    const broken = "query Broken { broken }";
    const { failed, loaded } = await cache.warmUp({
      schema,
      concurrency: 1,
      operations: [
        { query: broken },
        { query: "query Unknown { films }" },
        { query: "query {" },
        { query: `${broken} ${PAGE}`, operationName: "Page" },
        { query: 5 } as unknown as { query: string },
        null as unknown as { query: string },
        page("7"),
      ],
    });
    expect(failed.map(({ operation, error }) => `${operation}: ${(error as Error).message}`)).toEqual([
      "Broken: no database",
      expect.stringMatching(/^Unknown: Cannot query field "films"/),
      expect.stringMatching(/^operations\[2\]: Syntax Error/),
      expect.stringMatching(/^Page: Variable "\$id"/),
      'operations[4]: cache.warmUp: `operations[4]`: expected an operation such as { query: "{ top { title } }", variables: {} }, got an object',
      'operations[5]: cache.warmUp: `operations[5]`: expected an operation such as { query: "{ top { title } }", variables: {} }, got null',
    ]);
    expect([loaded, source.loads]).toEqual([2, ["movie 7", "stars 7"]]);
  });

  it("refuses mutations and subscriptions, and executes none", async () => {
    const { cache, schema, source } = createSite();
    const several = "query Titles { titles } mutation Rate { rate }";
    const executed: string[] = [];
    const operations = [
      { query: "mutation Rate { rate }" },
      { query: "subscription { rated }" },
      { query: several, operationName: "Rate" },
      { query: several, operationName: "Titles" },
      // From a file of persisted operations.
      ...[null, ""].map((operationName) => ({
        query: "mutation Rate { rate }",
        operationName: operationName as never,
      })),
    ];
    const expected = [
      "cache.warmUp: `operations[0]`: expected a query, got the mutation `Rate`; remove it: a warm-up changes nothing and waits for nothing",
      "cache.warmUp: `operations[1]`: expected a query, got a subscription; remove it: a warm-up changes nothing and waits for nothing",
      ...[2, 4, 5].map(
        (nth) =>
          `cache.warmUp: \`operations[${nth}]\`: expected a query, got the mutation \`Rate\`; remove it: a warm-up changes nothing and waits for nothing`,
      ),
    ];
    const { failed, loaded } = await cache.warmUp({ schema, operations });
    expect(failed.map(({ error }) => (error as Error).message)).toEqual(expected);
    expect([loaded, source.rated]).toEqual([1, 0]);
    const { failed: refused } = await cache.warmUp({
      operations,
      execute: ({ query, operationName }) => void executed.push(operationName ?? query),
    });
    expect(refused).toEqual(failed);
    expect(executed).toEqual(["Titles"]);
  });

  it("executes no more operations at a time than `concurrency`", async () => {
    for (const [concurrency, most] of [
      [1, 1],
      [3, 3],
      [undefined, 8],
    ] as const) {
      const { cache, schema, source } = createSite();
      const operations = pages(...Array.from({ length: 20 }, (_, nth) => String(nth)));
      await cache.warmUp({ schema, operations, concurrency });
      expect(source.most).toBe(most);
      expect(source.loads.length).toBe(40);
    }
  });

  it("ends after `timeoutMs`, and reports what has not finished or not begun", async () => {
    const clock = new FakeClock();
    const { cache, schema, source } = createSite({ testing: { clock } });
    const ended = cache.warmUp({
      schema,
      operations: [{ query: "query Held { held }" }, page("1")],
      concurrency: 1,
      timeoutMs: 5_000,
    });
    await settle();
    await clock.advance(5_000);
    const { failed, loaded } = await ended;
    expect(failed.map(({ operation }) => operation)).toEqual(["Held", "Page"]);
    expect(failed[0]?.error).toMatchObject({
      code: "CACHED_LOAD_TIMEOUT",
      message:
        "cache.warmUp: `operations[0]`: expected all operations to finish within 5000 ms, but this one has not; raise `timeoutMs` or `concurrency`, or list fewer operations",
    });
    expect([loaded, source.loads]).toEqual([0, []]);
    source.held.open();
    await settle();
  });

  it("takes the context of each operation, and reports reads that bypass the cache", async () => {
    const { cache, schema, source } = createSite();
    const operations = ["ann", "bob", undefined].map((user) => ({ query: "{ viewer }", user }));
    const report = await cache.warmUp({ schema, operations, context: async ({ user }) => ({ user }) as object });
    expect(report).toEqual({ loaded: 2, hits: 0, bypassed: 1, failed: [] });
    expect(source.loads.length).toBe(3);
    const failing = await cache.warmUp({ schema, operations, context: () => Promise.reject(new Error("no session")) });
    expect(failing.failed.length).toBe(3);
  });

  it("executes with a server in the place of a schema", async () => {
    const { source, resolvers } = createSource();
    const cache = createCache({ logger: SILENT });
    const schema = applyCached(
      makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs.replace(/PRIVATE/, "PUBLIC")], resolvers }),
      cache,
    );
    const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache)] });
    const operations = [...pages("1"), { query: "query Broken { broken }" }];
    const warm = () =>
      cache.warmUp({ operations, execute: (operation) => server.executeOperation(operation, { contextValue: {} }) });
    const first = await warm();
    expect(first.failed).toEqual([{ operation: "Broken", error: expect.objectContaining({ message: "no database" }) }]);
    expect(source.loads).toEqual(["movie 1", "stars 1"]);
    expect((await warm()).loaded).toBe(0);
    await server.stop();
    const yoga = createYoga({ schema, logging: false });
    const executed = await cache.warmUp({
      operations,
      execute: async (operation) => {
        const body = JSON.stringify(operation);
        const response = await yoga.fetch("http://yoga/graphql", { method: "POST", body, headers: JSON_HEADERS });
        return response.json();
      },
    });
    expect(executed.failed.map(({ operation }) => operation)).toEqual(["Broken"]);
  });

  it("stores whole responses, if that is how operations are executed", async () => {
    let loads = 0;
    const hinted = `${HINTS} type Query { site: String @cacheControl(maxAge: 600) }`;
    const resolvers = { Query: { site: () => `site ${++loads}` } };
    const cache = createCache({ logger: SILENT });
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, hinted], resolvers }), cache);
    const execute = ({ query }: { query: string }) =>
      cache.execute({ schema, document: parse(query), contextValue: {} });
    await cache.warmUp({ operations: [{ query: "{ site }" }], execute });
    expect(await execute({ query: "{ site }" })).toEqual({ data: { site: "site 1" } });
  });

  it("is refused with invalid options, all mistakes at once", async () => {
    const { cache, schema } = createSite();
    const refused = async (options: unknown) =>
      cache.warmUp(options as never).then(
        () => undefined,
        (error: Error & { code: string }) => `${error.message} [${error.code}]`,
      );
    expect(await refused(undefined)).toMatch(/^cache\.warmUp: expected an object of options, got undefined/);
    expect(await refused({ schema, operations: [], timeout: 5 })).toMatch(/`timeout`: unknown option.*`timeoutMs`/);
    expect(
      await refused({ schema: typeDefs, operations: {}, context: {}, concurrency: Number.NaN, timeoutMs: 0 }),
    ).toBe(
      "cache.warmUp: `operations`: expected an array of operations such as { query, variables }, got an object; " +
        `\`schema\`: expected the schema that applyCached has returned, or \`execute\` in its place, got ${JSON.stringify(`${typeDefs.slice(0, 57)}...`)}; ` +
        "`context`: expected a function that returns the context of an operation, got an object; " +
        "`concurrency`: expected an integer of at least 1, got NaN; " +
        "`timeoutMs`: expected an integer from 1 to 2147483647 (milliseconds), got 0 [CACHED_OPTION_INVALID]",
    );
    expect(await refused({ schema, execute: () => ({}), operations: [] })).toContain(
      "`schema`: expected nothing with `execute`, which executes the operations, got an instance of GraphQLSchema",
    );
    expect(await refused({ schema, operations: [] })).toBeUndefined();
    const plain = buildSchema(`${cachedTypeDefs} type Query { a: Int @cached(maxAge: 60) }`);
    const other = createCache({ prefix: randomUUID(), logger: SILENT });
    await expect(other.warmUp({ schema: plain, operations: [] })).rejects.toMatchObject({
      code: "CACHED_SCHEMA_INVALID",
      message: expect.stringMatching(/^cache\.warmUp: expected a schema returned by applyCached/),
    });
  });
});

const SILENT = { info: () => undefined, warn: () => undefined };
const JSON_HEADERS = { "content-type": "application/json" };
