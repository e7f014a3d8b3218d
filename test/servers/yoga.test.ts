import { gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { describe, expect, it, vi } from "vitest";
import { knowOperations } from "../responses/site.js";
import { until } from "../support/redis-lab.js";
import { serverContract } from "./contract.js";

describe("two processes of yoga on one Redis", () => {
  const pair = serverContract("yoga", { batches: true, persistsQueries: true, traces: true, inspects: true });

  it("exits with code 0 on SIGTERM", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});

describe("the Yoga plugin", () => {
  const typeDefs = [cachedTypeDefs, "type Query { top: Int @cached(maxAge: 60) }"];
  const serve = (cache: Cache, top: () => unknown) =>
    createYoga({
      schema: applyCached(makeExecutableSchema({ typeDefs, resolvers: { Query: { top } } }), cache),
      plugins: [useCached(cache, { allow: () => true })],
    });
  const post = (body: object): RequestInit => ({
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

  it("waits for loads in progress when the server is disposed, and leaves the cache open", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const loadGate = gate();
    let loads = 0;
    const yoga = serve(cache, async () => {
      loads++;
      await loadGate.passed;
      return 7;
    });
    const answer = yoga.fetch("http://shop/graphql", post({ query: "{ top }" }));
    await until("the load runs", () => loads === 1);
    let isDisposed = false;
    const disposal = Promise.resolve(yoga.dispose()).then(() => {
      isDisposed = true;
    });
    await settle();
    expect(isDisposed).toBe(false);
    loadGate.open();
    await disposal;
    expect(await (await answer).json()).toEqual({ data: { top: 7 } });
    await expect(cache.invalidate({ coordinate: "Query.top" })).resolves.toBeUndefined();
    await cache.close();
  });

  it("does not take the field of another schema for one that lost its resolver", async () => {
    const lines: string[] = [];
    const cache = createCache({
      defaultScope: "PUBLIC",
      logger: { info: () => undefined, warn: (line) => void lines.push(line) },
    });
    applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, "type Query { top: Int @cached(maxAge: 60) }"],
        resolvers: { Query: { top: () => 7 } },
      }),
      cache,
    );
    const schema = makeExecutableSchema({
      typeDefs: "type Query { top: Int }",
      resolvers: { Query: { top: () => 8 } },
    });
    const yoga = createYoga({ schema, plugins: [useCached(cache)] });
    for (let request = 0; request < 2; request++)
      expect(await (await yoga.fetch("http://shop/graphql", post({ query: "{ top }" }))).json()).toEqual({
        data: { top: 8 },
      });
    expect(lines).toEqual([]);
    await yoga.dispose();
    await cache.close();
  });

  it("keeps other extensions and leaves incremental responses unchanged", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const { onExecute } = useCached(cache, { allow: () => true });
    const hooks = onExecute({ args: { contextValue: { params: { extensions: { cached: true } } } } });
    const done = hooks?.onExecuteDone;
    const set: unknown[] = [];
    const setResult = (result: unknown): void => void set.push(result);
    await done?.({ result: { data: {}, extensions: { cost: 1 } }, setResult });
    await done?.({ result: (async function* () {})(), setResult });
    await done?.({ result: { initialResult: { data: {} }, subsequentResults: (async function* () {})() }, setResult });
    expect(set).toEqual([{ data: {}, extensions: { cost: 1, cached: {} } }]);
    expect(onExecute({ args: {} })).toBeUndefined();
    await cache.close();
  });

  it("shares the entries of deferred fields with all other responses, and lets no cache keep the response", async () => {
    let loads = 0;
    const cache = createCache({ defaultScope: "PUBLIC" });
    const sdl = /* GraphQL */ `
      directive @defer(if: Boolean, label: String) on FRAGMENT_SPREAD | INLINE_FRAGMENT
      type Query { movie: Movie }
      type Movie { title: String stars: Int @cached(maxAge: 60, key: []) }
    `;
    const resolvers = { Query: { movie: () => ({ title: "Alien" }) }, Movie: { stars: () => ++loads } };
    const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers });
    const yoga = createYoga({ schema: applyCached(schema, cache), plugins: [useCached(cache, { allow: () => true })] });
    const ask = (query: string, accept: string): Promise<Response> | Response => {
      const { headers, ...rest } = post({ query, extensions: { cached: true } });
      return yoga.fetch("http://shop/graphql", { ...rest, headers: { ...(headers as object), accept } });
    };
    for (let nth = 0; nth < 2; nth++) {
      const response = await ask("{ movie { title ... @defer { stars } } }", "multipart/mixed");
      expect(response.headers.get("content-type")).toContain("multipart/mixed");
      expect(response.headers.get("cache-control")).toBeNull();
      const parts = (await response.text()).split("---").flatMap((part) => /\{.*\}/s.exec(part)?.[0] ?? []);
      expect(parts.map((part) => JSON.parse(part) as unknown)).toEqual([
        { data: { movie: { title: "Alien" } }, hasNext: true },
        { incremental: [{ data: { stars: 1 }, path: ["movie"] }], hasNext: expect.any(Boolean) as boolean },
        ...(parts.length === 3 ? [{ hasNext: false }] : []),
      ]);
      await settle();
    }
    const whole = await ask("{ movie { title stars } }", "application/json");
    expect(await whole.json()).toMatchObject({
      data: { movie: { stars: 1 } },
      extensions: { cached: { "Movie.stars": { hit: 1 } } },
    });
    expect(loads).toBe(1);
    await cache.close();
  });

  it("reads for each event of a subscription what another process has invalidated since the event before", async () => {
    let loads = 0;
    const store = memoryStore();
    const cache = createCache({ defaultScope: "PUBLIC", store, prefix: "events" });
    const other = createCache({ defaultScope: "PUBLIC", store, prefix: "events" });
    const read = gate();
    const sdl =
      "type Query { movie: Movie } type Subscription { rated: Movie } type Movie { stars: Int @cached(maxAge: 60, key: []) }";
    const subscribe = async function* () {
      yield { rated: {} };
      await read.passed;
      await other.invalidate({ coordinate: "Movie.stars" });
      yield { rated: {} };
    };
    const resolvers = { Subscription: { rated: { subscribe } }, Movie: { stars: () => ++loads } };
    const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers });
    applyCached(schema, other);
    const yoga = createYoga({ schema: applyCached(schema, cache), plugins: [useCached(cache)] });
    const { headers, ...rest } = post({ query: "subscription { rated { stars } }" });
    const response = await yoga.fetch("http://shop/graphql", {
      ...rest,
      headers: { ...(headers as object), accept: "text/event-stream" },
    });
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(chunk);
      if (text.includes('"stars":1')) read.open();
    }
    expect([...text.matchAll(/"stars":(\d)/g)].map(([, stars]) => stars)).toEqual(["1", "2"]);
    await Promise.all([cache.close(), other.close()]);
  });

  it("stores a response although an event of a subscription is read with a PRIVATE field meanwhile", async () => {
    knowOperations();
    const { passed, open } = gate();
    let pages = 0;
    const cache = createCache({ defaultScope: "PUBLIC", identify: () => "ann" });
    const typeDefs = /* GraphQL */ `
      type Query { page: Page @cached(maxAge: 60) }
      type Page { title: String }
      type Subscription { rated: Movie }
      type Movie { id: ID mine: Int @cached(maxAge: 60, scope: PRIVATE) }
    `;
    const page = async () => {
      pages++;
      await passed;
      return { title: "Home" };
    };
    const subscribe = async function* () {
      yield { rated: { id: 7 } };
    };
    const schema = makeExecutableSchema({
      typeDefs: [cachedTypeDefs, typeDefs],
      resolvers: { Query: { page }, Subscription: { rated: { subscribe } }, Movie: { mine: () => 1 } },
    });
    const plugins = [useCached(cache, { responses: true, allow: () => true })];
    const yoga = createYoga({ schema: applyCached(schema, cache), plugins });
    const ask = async () =>
      (
        await yoga.fetch("http://shop/graphql", post({ query: "{ page { title } }", extensions: { cached: true } }))
      ).json();
    const first = ask();
    await settle();
    const { headers, ...rest } = post({ query: "subscription { rated { mine } }" });
    const accept = { ...(headers as object), accept: "text/event-stream" };
    const events = await yoga.fetch("http://shop/graphql", { ...rest, headers: accept });
    expect(await events.text()).toContain('"mine":1');
    open();
    await first;
    await settle();
    expect(await ask()).toMatchObject({ extensions: { cached: { responses: { hit: 1 } } } });
    expect(pages).toBe(1);
    await yoga.dispose();
    await cache.close();
  });

  it("checks each schema once of a server that has one for each request", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const schemas = [1, 2].map((n) =>
      applyCached(
        makeExecutableSchema({
          typeDefs: [cachedTypeDefs, "type Query { n: Int @cached(maxAge: 60) }"],
          resolvers: { Query: { n: () => n } },
        }),
        cache,
      ),
    );
    let asked = 0;
    const yoga = createYoga({ schema: () => schemas[asked++ % 2] as GraphQLSchema, plugins: [useCached(cache)] });
    const ask = async () => (await yoga.fetch("http://shop/graphql", post({ query: "{ n }" }))).json();
    for (let nth = 0; nth < 4; nth++) await ask();
    const walks = schemas.map((schema) => vi.spyOn(schema, "getTypeMap"));
    for (let nth = 0; nth < 4; nth++) await ask();
    for (const walk of walks) expect(walk).not.toHaveBeenCalled();
    await yoga.dispose();
    await cache.close();
  });

  it.each(["Price", "constructor", "__proto__"])(
    "reports what a loader named %s did in extensions.cached",
    async (name) => {
      const cache = createCache<object>({ defaultScope: "PUBLIC" });
      const prices = cache.loader({ name, maxAge: 60, batch: async (ids: readonly number[]) => ids });
      const schema = makeExecutableSchema({
        typeDefs: "type Query { price: Int }",
        resolvers: { Query: { price: (_, __, context) => prices(context).load(7) } },
      });
      const yoga = createYoga({
        schema: applyCached(schema, cache),
        plugins: [useCached(cache, { allow: () => true })],
      });
      const answer = await yoga.fetch(
        "http://shop/graphql",
        post({ query: "{ price }", extensions: { cached: true } }),
      );
      const cached = Object.fromEntries([[name, { loaded: 1 }]]);
      expect(await answer.json()).toEqual({ data: { price: 7 }, extensions: { cached } });
      await yoga.dispose();
      await cache.close();
    },
  );
});
