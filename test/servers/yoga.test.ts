import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { applyCached, type Cache, memoryStore } from "graphql-cached";
import { useCached } from "graphql-cached/yoga";
import { describe, expect, it, vi } from "vitest";
import { type Context, openSite, postYoga, yogaOf } from "../responses/site.js";
import { listen, schemaOf } from "../support/listen.js";
import { until } from "../support/redis-lab.js";
import { serverContract } from "./contract.js";

describe("two processes of yoga on one Redis", () => {
  const pair = serverContract("yoga", { batches: true, persistsQueries: true, traces: true, inspects: true });

  it("exits with code 0 on SIGTERM", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});

describe("the Yoga plugin", () => {
  const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";

  it("waits for loads in progress when the server is disposed, and leaves the cache open", async () => {
    const loadGate = gate();
    let loads = 0;
    const top = async () => {
      loads++;
      await loadGate.passed;
      return 7;
    };
    const site = openSite({ typeDefs, resolvers: { Query: { top } } });
    const yoga = yogaOf(site, { responses: false });
    const answer = postYoga(yoga, { query: "{ top }" });
    await until("the load runs", () => loads === 1);
    let isDisposed = false;
    const disposal = Promise.resolve(yoga.dispose()).then(() => {
      isDisposed = true;
    });
    await settle();
    expect(isDisposed).toBe(false);
    loadGate.open();
    await disposal;
    expect(JSON.parse(await answer)).toEqual({ data: { top: 7 } });
    await expect(site.cache.invalidate({ coordinate: "Query.top" })).resolves.toBeUndefined();
  });

  it("does not take the field of another schema for one that lost its resolver", async () => {
    const { cache, lines } = openSite({ typeDefs, resolvers: { Query: { top: () => 7 } } });
    const schema = makeExecutableSchema({
      typeDefs: "type Query { top: Int }",
      resolvers: { Query: { top: () => 8 } },
    });
    const yoga = yogaOf({ cache, schema }, { responses: false });
    for (let request = 0; request < 2; request++)
      expect(await postYoga(yoga, { query: "{ top }" })).toBe('{"data":{"top":8}}');
    expect(lines).toEqual([]);
  });

  it("keeps other extensions and leaves incremental responses unchanged", async () => {
    const { onExecute } = useCached(listen().cache, { allow: () => true });
    const hooks = onExecute({ args: { contextValue: { params: { extensions: { cached: true } } } } });
    const done = hooks?.onExecuteDone;
    const set: unknown[] = [];
    const setResult = (result: unknown): void => void set.push(result);
    await done?.({ result: { data: {}, extensions: { cost: 1 } }, setResult });
    await done?.({ result: (async function* () {})(), setResult });
    await done?.({ result: { initialResult: { data: {} }, subsequentResults: (async function* () {})() }, setResult });
    expect(set).toEqual([{ data: {}, extensions: { cost: 1, cached: {} } }]);
    expect(onExecute({ args: {} })).toBeUndefined();
  });

  it("shares the entries of deferred fields with all other responses, and lets no cache keep the response", async () => {
    let loads = 0;
    const site = openSite({
      typeDefs: `
        directive @defer(if: Boolean, label: String) on FRAGMENT_SPREAD | INLINE_FRAGMENT
        type Query { movie: Movie }
        type Movie { title: String stars: Int @cached(maxAge: 60, key: []) }`,
      resolvers: { Query: { movie: () => ({ title: "Alien" }) }, Movie: { stars: () => ++loads } },
    });
    const yoga = yogaOf(site, { responses: false });
    for (let nth = 0; nth < 2; nth++) {
      const response = await yoga.fetch("http://shop/graphql", {
        method: "POST",
        headers: { "content-type": "application/json", accept: "multipart/mixed" },
        body: JSON.stringify({ query: "{ movie { title ... @defer { stars } } }", extensions: { cached: true } }),
      });
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
    const whole = await postYoga(yoga, { query: "{ movie { title stars } }", extensions: { cached: true } });
    expect(JSON.parse(whole)).toMatchObject({
      data: { movie: { stars: 1 } },
      extensions: { cached: { "Movie.stars": { hit: 1 } } },
    });
    expect(loads).toBe(1);
  });

  it("reads for each event of a subscription what another process has invalidated since the event before", async () => {
    let loads = 0;
    const read = gate();
    const subscribe = async function* () {
      yield { rated: {} };
      await read.passed;
      await other.cache.invalidate({ coordinate: "Movie.stars" });
      yield { rated: {} };
    };
    const clock = new FakeClock();
    const shared = {
      typeDefs:
        "type Query { movie: Movie } type Subscription { rated: Movie } type Movie { stars: Int @cached(maxAge: 60, key: []) }",
      resolvers: { Subscription: { rated: { subscribe } }, Movie: { stars: () => ++loads } },
      clock,
      store: memoryStore({ clock }),
      cache: { prefix: "events" },
    };
    const [site, other] = [openSite(shared), openSite(shared)];
    const yoga = yogaOf(site, { responses: false });
    const response = await yoga.fetch("http://shop/graphql", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream" },
      body: JSON.stringify({ query: "subscription { rated { stars } }" }),
    });
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(chunk);
      if (text.includes('"stars":1')) read.open();
    }
    expect([...text.matchAll(/"stars":(\d)/g)].map(([, stars]) => stars)).toEqual(["1", "2"]);
  });

  it("stores a response although an event of a subscription is read with a PRIVATE field meanwhile", async () => {
    const { passed, open } = gate();
    let pages = 0;
    const page = async () => {
      pages++;
      await passed;
      return { title: "Home" };
    };
    const subscribe = async function* () {
      yield { rated: { id: 7 } };
    };
    const site = openSite({
      typeDefs: `
        type Query { page: Page @cached(maxAge: 60) }
        type Page { title: String }
        type Subscription { rated: Movie }
        type Movie { id: ID mine: Int @cached(maxAge: 60, scope: PRIVATE) }`,
      resolvers: { Query: { page }, Subscription: { rated: { subscribe } }, Movie: { mine: () => 1 } },
      cache: { identify: () => "ann" },
    });
    const yoga = yogaOf(site);
    const ask = () => postYoga(yoga, { query: "{ page { title } }", extensions: { cached: true } });
    const first = ask();
    await settle();
    const query = "subscription { rated { mine } }";
    expect(await postYoga(yoga, { query }, { accept: "text/event-stream" })).toContain('"mine":1');
    open();
    await first;
    expect(JSON.parse(await ask())).toMatchObject({ extensions: { cached: { responses: { hit: 1 } } } });
    expect(pages).toBe(1);
  });

  it("checks each schema once of a server that has one for each request", async () => {
    const { cache } = listen<object>();
    const schemas = [1, 2].map((n) =>
      applyCached(schemaOf("type Query { n: Int @cached(maxAge: 60) }", { Query: { n: () => n } }), cache),
    );
    let asked = 0;
    const schema = () => schemas[asked++ % 2] as GraphQLSchema;
    const yoga = yogaOf({ cache, schema: schema as never }, { own: [useCached(cache)] });
    const ask = () => postYoga(yoga, { query: "{ n }" });
    for (let nth = 0; nth < 4; nth++) await ask();
    const walks = schemas.map((one) => vi.spyOn(one, "getTypeMap"));
    for (let nth = 0; nth < 4; nth++) await ask();
    for (const walk of walks) expect(walk).not.toHaveBeenCalled();
  });

  it.each(["Price", "constructor", "__proto__"])(
    "reports what a loader named %s did in extensions.cached",
    async (name) => {
      const site = openSite({
        typeDefs: "type Query { price: Int }",
        resolvers: (cache: Cache<Context>) => {
          const prices = cache.loader({ name, maxAge: 60, batch: async (ids: readonly number[]) => ids });
          return { Query: { price: (_: unknown, __: unknown, context: Context) => prices(context).load(7) } };
        },
      });
      const yoga = yogaOf(site, { responses: false });
      const cached = Object.fromEntries([[name, { loaded: 1 }]]);
      const answer = await postYoga(yoga, { query: "{ price }", extensions: { cached: true } });
      expect(JSON.parse(answer)).toEqual({ data: { price: 7 }, extensions: { cached } });
    },
  );
});
