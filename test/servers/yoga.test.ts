import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";
import { gate, settle } from "graphql-cached/testing";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { describe, expect, it } from "vitest";
import { until } from "../support/redis-lab.js";
import { serverContract } from "./contract.js";

describe("two processes of yoga on one Redis", () => {
  const pair = serverContract("yoga", { batches: true, persistsQueries: true, traces: true });

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
    const cache = createCache();
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

  it("keeps other extensions and leaves incremental responses unchanged", async () => {
    const cache = createCache();
    const { onExecute } = useCached(cache, { allow: () => true });
    const done = onExecute({ args: { contextValue: { params: { extensions: { cached: true } } } } })?.onExecuteDone;
    const set: unknown[] = [];
    const setResult = (result: unknown): void => void set.push(result);
    await done?.({ result: { data: {}, extensions: { cost: 1 } }, setResult });
    await done?.({ result: (async function* () {})(), setResult });
    expect(set).toEqual([{ data: {}, extensions: { cost: 1, cached: {} } }]);
    expect(onExecute({ args: {} })).toBeUndefined();
    await cache.close();
  });

  it("reports what loaders did in extensions.cached", async () => {
    const cache = createCache<object>();
    const prices = cache.loader({ name: "Price", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    const schema = makeExecutableSchema({
      typeDefs: "type Query { price: Int }",
      resolvers: { Query: { price: (_, __, context) => prices(context).load(7) } },
    });
    const yoga = createYoga({ schema: applyCached(schema, cache), plugins: [useCached(cache, { allow: () => true })] });
    const answer = await yoga.fetch("http://shop/graphql", post({ query: "{ price }", extensions: { cached: true } }));
    expect(await answer.json()).toEqual({ data: { price: 7 }, extensions: { cached: { Price: { loaded: 1 } } } });
    await yoga.dispose();
    await cache.close();
  });
});
