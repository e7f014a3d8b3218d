import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { chaosStore, gate, settle } from "@graphql-cached/testing";
import { GraphQLError } from "graphql";
import { createCache, memoryStore } from "graphql-cached";
import { expect, it, onTestFinished } from "vitest";
import { CachedError } from "../../../src/core/base/errors.js";
import { Channel } from "../../../src/core/telemetry/channel.js";
import { errorTypeOf } from "../../../src/core/telemetry/error-type.js";

type Message = Readonly<Record<string, unknown>>;

/** Collects the messages of a diagnostics channel until the test ends. */
function messagesOf(event: string): Message[] {
  const messages: Message[] = [];
  const listen = (message: unknown): void => void messages.push(message as Message);
  subscribe(`graphql-cached.${event}`, listen);
  onTestFinished(() => void unsubscribe(`graphql-cached.${event}`, listen));
  return messages;
}

it("every event is published on a diagnostics channel of its own, with the prefix of its cache", async () => {
  const [served, started, store] = [
    messagesOf("entry.served"),
    messagesOf("load.started"),
    messagesOf("store.finished"),
  ];
  const read = async (prefix: string): Promise<void> => {
    const cache = createCache({ defaultScope: "PUBLIC", prefix });
    onTestFinished(() => cache.close());
    const movies = cache.loader({ name: "Movie", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    for (let nth = 0; nth < 2; nth++) {
      await movies({}).load(7);
      await settle();
    }
  };
  await read("shop");
  await read("blog");
  const digest = expect.any(String) as string;
  expect(served).toEqual(
    ["shop", "blog"].flatMap((prefix) =>
      ["loaded", "hit"].map((outcome) => ({ name: "entry.served", prefix, coordinate: "Movie", digest, outcome })),
    ),
  );
  expect(started.map(({ prefix, isRefresh }) => [prefix, isRefresh])).toEqual([
    ["shop", false],
    ["blog", false],
  ]);
  expect(new Set(store.map(({ operation }) => operation))).toContain("acquire");
  for (const { storeMs, error } of store) expect([typeof storeMs, error]).toEqual(["number", undefined]);
});

it("a message has the type of an error, not the error, since its message may contain user data", async () => {
  const failed = messagesOf("load.failed");
  const storeFailed = messagesOf("store.finished");
  const store = chaosStore(memoryStore());
  const cache = createCache({
    defaultScope: "PUBLIC",
    store,
    prefix: "shop",
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  const batch = async (): Promise<never> => {
    throw new RangeError("alice@example.com");
  };
  const movies = cache.loader({ name: "Movie", maxAge: 60, batch });
  store.chaos.mode = "throws";
  await expect(movies({}).load(7)).rejects.toThrow("alice@example.com");
  await settle();
  expect(failed).toEqual([
    {
      name: "load.failed",
      prefix: "shop",
      coordinate: "Movie",
      digest: expect.any(String) as string,
      loadMs: expect.any(Number) as number,
      errorType: "RangeError",
    },
  ]);
  expect(storeFailed[0]).toMatchObject({ operation: "read", errorType: "CACHED_STORE_UNAVAILABLE" });
});

it("a caller that waited for the load of another one publishes how long", async () => {
  const waits = messagesOf("wait.finished");
  const cache = createCache({ defaultScope: "PUBLIC" });
  onTestFinished(() => cache.close());
  const loading = gate();
  const batch = async (ids: readonly number[]): Promise<readonly number[]> => {
    await loading.passed;
    return ids;
  };
  const movies = cache.loader({ name: "Movie", maxAge: 60, batch });
  const reads = [movies({}).load(7), movies({}).load(7)];
  await settle();
  reads.push(movies({}).load(7));
  await settle();
  loading.open();
  expect(await Promise.all(reads)).toEqual([7, 7, 7]);
  expect(waits.map(({ coordinate, isLocal }) => [coordinate, isLocal])).toEqual([
    ["Movie", true],
    ["Movie", true],
  ]);
});

it("a listener that is removed gets nothing more, and store operations are not measured without listeners", () => {
  const channel = new Channel();
  const heard: string[] = [];
  const stop = channel.listen(({ name }) => heard.push(name));
  expect(channel.storeListeners).toHaveLength(1);
  channel.publish({ name: "store.recovered", node: "" });
  stop();
  channel.publish({ name: "store.recovered", node: "" });
  expect([heard, channel.storeListeners, channel.storeFinished.hasSubscribers]).toEqual([
    ["store.recovered"],
    [],
    false,
  ]);
});

it.each([
  [new CachedError("CACHED_LOAD_TIMEOUT", "x"), "CACHED_LOAD_TIMEOUT"],
  [Object.assign(new Error("x"), { code: "ECONNREFUSED" }), "ECONNREFUSED"],
  [Object.assign(new Error("x"), { code: "ER_DUP_ENTRY" }), "ER_DUP_ENTRY"],
  [new GraphQLError("x", { extensions: { code: "FORBIDDEN" } }), "FORBIDDEN"],
  [Object.assign(new Error("x"), { extensions: { code: "UPSTREAM_DOWN" }, code: "ENOENT" }), "UPSTREAM_DOWN"],
  [Object.assign(new Error("x"), { extensions: null, code: "ENOENT" }), "ENOENT"],
  [Object.assign(new Error("x"), { code: "alice" }), "Error"],
  [Object.assign(new Error("x"), { code: "ALICE" }), "Error"],
  [Object.assign(new Error("x"), { code: "USER_42_LOCKED" }), "Error"],
  [Object.assign(new Error("x"), { code: "23505" }), "Error"],
  [Object.assign(new Error("x"), { code: `A_${"B".repeat(60)}` }), "Error"],
  [new GraphQLError("x", { extensions: { code: "alice" } }), "GraphQLError"],
  [Object.assign(new TypeError("x"), { name: "alice" }), "TypeError"],
  [new DOMException("x", "AbortError"), "AbortError"],
  [Object.defineProperty(new Error("x"), "code", { get: () => JSON.parse("alice") as unknown }), "_OTHER"],
  ["alice", "_OTHER"],
  [undefined, "_OTHER"],
])("the type of an error is its code or its class, and never what it says (%#)", (error, type) => {
  expect(errorTypeOf(error)).toBe(type);
});
