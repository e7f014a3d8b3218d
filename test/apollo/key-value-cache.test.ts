import { createHash } from "node:crypto";
import { ApolloServer } from "@apollo/server";
import responseCachePlugin from "@apollo/server-plugin-response-cache";
import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { type CacheOptions, memoryStore } from "graphql-cached";
import { keyValueCache } from "graphql-cached/apollo";
import { describe, expect, it } from "vitest";
import { memoryWorld, onEachStore, type Process, redisWorld, type World, waitForStores } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
  type Query { top: Int @cacheControl(maxAge: 60) }
`;

const cacheOn = (world: World, options: CacheOptions<never> = {}) =>
  keyValueCache(world.process(typeDefs, {}, options).cache);

onEachStore("keyValueCache", (world) => {
  it("returns what another process has set, and undefined for an unknown key", async () => {
    const shared = world();
    const [one, other] = [cacheOn(shared), cacheOn(shared)];
    await one.set("key", "value");
    expect(await other.get("key")).toBe("value");
    expect(await other.get("another key")).toBeUndefined();
  });

  it("returns the last value set, and undefined after a delete", async () => {
    const shared = world();
    const [one, other] = [cacheOn(shared), cacheOn(shared)];
    await one.set("key", "old");
    await other.set("key", "");
    expect(await one.get("key")).toBe("");
    await other.delete("key");
    expect(await one.get("key")).toBeUndefined();
  });

  it("returns nothing for a key that cannot be used, and says why it cannot be set or deleted", async () => {
    const cache = cacheOn(world());
    const keys: readonly [key: unknown, message: string][] = [
      ["k".repeat(65_536), "key input: expected at most 65536 characters, got "],
      [undefined, "expected a string as the key, got a value of type undefined"],
      [7n, "expected a string as the key, got a value of type bigint"],
    ];
    for (const [key, message] of keys as readonly [string, string][]) {
      expect(await cache.get(key)).toBeUndefined();
      await expect(cache.set(key, "value")).rejects.toMatchObject({
        code: "CACHED_OPTION_INVALID",
        message: expect.stringContaining(`keyValueCache.set: ${message}`) as string,
      });
      await expect(cache.delete(key)).rejects.toMatchObject({
        code: "CACHED_OPTION_INVALID",
        message: expect.stringContaining(`keyValueCache.delete: ${message}`) as string,
      });
    }
    const long = "k".repeat(65_000);
    await cache.set(long, "value");
    expect(await cache.get(long)).toBe("value");
  });

  it("keeps the later of two values that are set in one tick", async () => {
    const cache = cacheOn(world());
    await Promise.all([cache.set("key", "earlier"), cache.set("key", "later")]);
    expect(await cache.get("key")).toBe("later");
  });

  it("stores a value that does not expire, or not for decades", async () => {
    const cache = cacheOn(world());
    await Promise.all([cache.set("for ever", "value", { ttl: null }), cache.set("long", "value", { ttl: 1e9 })]);
    expect(await cache.get("for ever")).toBe("value");
    expect(await cache.get("long")).toBe("value");
  });

  it("returns nothing while everything is off, and nothing older afterwards", async () => {
    const process = world().process(typeDefs, {});
    const cache = keyValueCache(process.cache);
    await cache.set("key", "old");
    await process.cache.setMode("off");
    await cache.set("key", "new");
    expect(await cache.get("key")).toBeUndefined();
    await process.cache.setMode("on");
    expect(await cache.get("key")).toBeUndefined();
  });

  it("stores values even while replicaLagMs holds off loads", async () => {
    const cache = cacheOn(world(), { invalidation: { replicaLagMs: 60_000 } });
    await cache.set("key", "value");
    expect(await cache.get("key")).toBe("value");
  });
});

describe("keyValueCache", () => {
  it("keeps a value with the ttl null forever, as Apollo's contract says", async () => {
    const clock = new FakeClock();
    const { cache } = memoryWorld().process(typeDefs, {}, { store: undefined as never, testing: { clock } });
    const texts = keyValueCache(cache, { maxAge: 10 });
    await texts.set("key", "value", { ttl: null });
    await clock.advance(10 * 365 * 24 * 3_600_000);
    expect(await texts.get("key")).toBe("value");
  });

  it("keeps a value for its ttl in seconds, or for maxAge without one", async () => {
    const clock = new FakeClock();
    const { cache } = memoryWorld().process(typeDefs, {}, { store: undefined as never, testing: { clock } });
    const texts = keyValueCache(cache, { maxAge: 10 });
    await Promise.all([texts.set("short", "value", { ttl: 0.5 }), texts.set("long", "value", { ttl: 3600 })]);
    await Promise.all([texts.set("usual", "value", {}), texts.set("none", "value", { ttl: 0 })]);
    const readAll = async (): Promise<unknown[]> =>
      Promise.all(["short", "long", "usual", "none"].map((key) => texts.get(key)));
    expect(await readAll()).toEqual(["value", "value", "value", undefined]);
    await clock.advance(500);
    expect(await readAll()).toEqual([undefined, "value", "value", undefined]);
    await clock.advance(10_000);
    expect(await readAll()).toEqual([undefined, "value", undefined, undefined]);
  });

  it("reads all keys of a tick with one store read", async () => {
    const store = chaosStore(memoryStore());
    const texts = cacheOn(memoryWorld(() => store));
    await texts.set("a", "1");
    await texts.set("b", "2");
    // The first reads of a process also read the settings.
    for (let nth = 0; nth < 2; nth++) {
      await texts.get("a");
      await settle();
    }
    const { calls } = store.chaos;
    calls.clear();
    expect(await Promise.all([texts.get("a"), texts.get("b")])).toEqual(["1", "2"]);
    expect(calls).toEqual(new Map([["read", 1]]));
  });

  it.each(["delete", "set"] as const)("does not store a value after a later %s has finished", async (later) => {
    const store = memoryStore();
    const storeValues = store.storeValues.bind(store);
    const [begun, open] = [gate(), gate()];
    store.storeValues = async (storeRequests) => {
      begun.open();
      await open.passed;
      return storeValues(storeRequests);
    };
    const world = memoryWorld(() => store);
    const options = { storage: { storeTimeoutMs: 10_000 } };
    const [slow, quick] = [cacheOn(world, options), cacheOn(world, options)];
    const outdated = slow.set("key", "old");
    await begun.passed;
    store.storeValues = storeValues;
    await (later === "set" ? quick.set("key", "new") : quick.delete("key"));
    open.open();
    await outdated;
    expect(await slow.get("key")).toBe(later === "set" ? "new" : undefined);
  });

  it("returns undefined while the store is unavailable, and rejects set and delete", async () => {
    const store = chaosStore(memoryStore());
    const texts = cacheOn(memoryWorld(() => store));
    await texts.set("key", "value");
    store.chaos.mode = "throws";
    expect(await texts.get("key")).toBeUndefined();
    await expect(texts.set("key", "new")).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    await expect(texts.delete("key")).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    store.chaos.mode = undefined;
    expect(await texts.get("key")).toBeUndefined();
  });

  it("does not share keys with a loader of any name", async () => {
    const { cache } = memoryWorld().process(typeDefs, {});
    const batch = async (ids: readonly string[]): Promise<string[]> => ids.map((id) => `loaded ${id}`);
    const loader = cache.loader({ name: "KeyValueCache", batch, maxAge: 60 });
    expect(await loader({}).load("key")).toBe("loaded key");
    expect(await keyValueCache(cache).get("key")).toBeUndefined();
    await keyValueCache(cache).set("key", "value");
    expect(await loader({}).load("key")).toBe("loaded key");
  });

  it("rejects a value that is not a string and a maxAge that is not a number", async () => {
    const { cache } = memoryWorld().process(typeDefs, {});
    expect(() => keyValueCache(cache, { maxAge: "5m" as never })).toThrow(
      'keyValueCache: `maxAge`: expected a number of seconds, got "5m"',
    );
    await expect(keyValueCache(cache).set("key", 5 as never)).rejects.toThrow(
      "keyValueCache.set: expected a string as the value, got a value of type number",
    );
  });
});

describe("two Apollo Servers with keyValueCache on one Redis", () => {
  async function servers(world: World) {
    let loads = 0;
    const make = (): { server: ApolloServer; process: Process } => {
      const process = world.process(typeDefs, { Query: { top: () => ++loads } });
      const { cache, schema } = process;
      return {
        server: new ApolloServer({ schema, cache: keyValueCache(cache), plugins: [responseCachePlugin()] }),
        process,
      };
    };
    const first = make();
    return { one: first.server, process: first.process, other: make().server, loads: () => loads };
  }

  it("share persisted queries and whole responses", async () => {
    const { one, process, other, loads } = await servers(await redisWorld());
    const query = "{ top }";
    const persistedQuery = { version: 1, sha256Hash: createHash("sha256").update(query).digest("hex") };
    const extensions = { persistedQuery };
    const ask = async (server: ApolloServer, request: object): Promise<unknown> => {
      const { body } = await server.executeOperation({ ...request, http: undefined as never });
      return body.kind === "single" ? JSON.parse(JSON.stringify(body.singleResult)) : undefined;
    };
    expect(await ask(other, { extensions })).toMatchObject({ errors: [{ message: "PersistedQueryNotFound" }] });
    expect(await ask(one, { query, extensions })).toEqual({ data: { top: 1 } });
    // Both are stored after the response: the persisted query and the whole response.
    await waitForStores(process, 2);
    expect(await ask(other, { extensions })).toEqual({ data: { top: 1 } });
    expect(loads()).toBe(1);
    await Promise.all([one.stop(), other.stop()]);
  });
});
